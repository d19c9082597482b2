/* emulated_own.h - what the files of the device emulated share. */
#pragma once
#include <stdint.h>

#include "device/link.h"
#include "device/queue.h"

/* Device memory is host memory with this bit in its address. No address of a program has it on x86-64, which
 * takes bits 47 to 63 only if all are equal, and on arm64, which ignores bits 56 to 63. So the host cannot
 * read there. */
#define LS_EMULATED_TAG (UINT64_C(1) << 55)

static inline void *ls_emulated_tag(void *p) { return (void *)((uintptr_t)p | LS_EMULATED_TAG); }
/* The host's address of device memory and of pinned memory. */
static inline void *ls_emulated_host(const void *p) { return (void *)((uintptr_t)p & ~LS_EMULATED_TAG); }

/* What LOCKSTEP_EMULATED says. */
typedef struct ls_emulation {
    uint64_t seed;
    double delay;   /* longest wait in front of a task, in seconds */
    int64_t memory; /* bytes that the device says it has */
    int64_t fail;   /* the task of the first queue that fails, from 1; 0: none */
    int64_t skip;   /* the await that is left out, from 1; 0: none */
    int64_t links;  /* 1: ranks that are threads have links */
} ls_emulation;

/* LS_E_USAGE: the variable is malformed. */
ls_status ls_emulation_read(ls_emulation *out);
/* The number of a new queue, and of an await, from 1. They begin again when the variable has changed. */
int64_t ls_emulation_queue(void);
int64_t ls_emulation_await(void);

extern const ls_link_ops ls_link_emulated;

/* From now on a fault at a device address says what it is, and where, before the process ends. */
void ls_emulated_explain_faults(void);

size_t ls_emulated_memory(const ls_device *d);
ls_status ls_emulated_room(void **out, const ls_device *d, size_t bytes);
void ls_emulated_release(void *room, size_t bytes);
ls_status ls_emulated_pinned(void **out, const ls_device *d, size_t bytes);
void ls_emulated_unpin(void *pinned, size_t bytes);

ls_status ls_emulated_event(ls_event **out, const ls_device *d);
void ls_emulated_forget(ls_event **e);
/* The number of a record that is put in now, from 1; else of the latest one, 0 if there is none. */
int64_t ls_emulated_nth(ls_event *e, bool records);
void ls_emulated_happen(ls_event *e, int64_t nth);
void ls_emulated_await(ls_event *e, int64_t nth); /* blocks */
double ls_emulated_elapsed(const ls_event *from, const ls_event *to);
