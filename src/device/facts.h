/* facts.h - what `lockstep doctor` says of device cuda. */
#pragma once

/* Where the facts go. `note`: a problem, and what to do about it. */
typedef struct ls_cuda_listener {
    void *context;
    void (*line)(void *context, const char *name, const char *text);
    void (*note)(void *context, const char *text);
} ls_cuda_listener;

/* The libraries that the device opens, the GPUs that it sees, and the cache of compiled kernels. */
void ls_cuda_tell(const ls_cuda_listener *to);
