/* layout.h - which files a list of tensors goes to, and the headers before their data. It is a function of
 * names, types, shapes and `max_file`, so all ranks know it without communication. Private to src/ckpt. */
#pragma once
#include "base/str.h"
#include "lockstep/weights.h"

typedef struct ls_layout_file {
    char name[64];      /* BASE.safetensors, or BASE-00001-of-00003.safetensors */
    int64_t first, end; /* the tensors [first, end) are in the file, one after the other */
    ls_str head;        /* the file's bytes before the data: length and header */
    uint64_t size;      /* of the whole file */
} ls_layout_file;

typedef struct ls_layout {
    ls_layout_file *files;
    int n;
    char index_name[64];
    ls_str index; /* text of the index; empty if there is one file */
} ls_layout;

/* The tensors' data are not read. A tensor is never cut. max_file 0: no limit. LS_E_ARG: a name cannot be
 * written. */
ls_status ls_layout_make(ls_layout *out, const char *base, uint64_t max_file, int64_t n,
                         const ls_named_tensor *tensors);
void ls_layout_release(ls_layout *l);
