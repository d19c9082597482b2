/* array_file.h - an array in a file: its type, and its elements in row-major order. */
#pragma once
#include "base/file.h"
#include "lockstep/types.h"

typedef struct ls_array_file {
    ls_type type;        /* [samples, ..] as the file has it; bool is u8 */
    const uint8_t *data; /* maybe unaligned: copy elements with memcpy */
    uint64_t digest;     /* of the elements' file, and of which array in it */
    char *path;          /* where it was found, with what it is in that file: for messages */
    ls_mapping map;
} ls_array_file;

/* Finds and opens `file` for a field of that name. LS_E_USAGE: no such file, or a kind of file that is not
 * known. Others as ls_npy_parse. */
ls_status ls_array_file_open(ls_array_file *out, const char *file, const char *field);
void ls_array_file_close(ls_array_file *f); /* may be called twice */
