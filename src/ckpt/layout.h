/* layout.h - which files a list of tensors goes to, and what comes before their data: a function of names,
 * types, shapes and `max_file`, so every rank knows it without asking. Private to src/ckpt. */
#pragma once
#include "base/str.h"
#include "lockstep/weights.h"

typedef struct ls_layout_file {
    char name[64];      /* BASE.safetensors, or BASE-00001-of-00003.safetensors */
    int64_t first, end; /* the tensors that lie in it, one behind the other */
    ls_str head;        /* length and header */
    uint64_t size;      /* of the whole file */
} ls_layout_file;

typedef struct ls_layout {
    ls_layout_file *files;
    int n;
    char index_name[64];
    ls_str index; /* text of the index; empty for one file, which needs none */
} ls_layout;

/* Data of the tensors are not looked at; LS_E_ARG for names that cannot be written. A tensor is never cut;
 * `max_file` 0: no limit. */
ls_status ls_layout_make(ls_layout *out, const char *base, uint64_t max_file, int64_t n,
                         const ls_named_tensor *tensors);
void ls_layout_release(ls_layout *l);
