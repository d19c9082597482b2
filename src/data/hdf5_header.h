/* hdf5_header.h - checks the object header of a data set in an HDF5 file before libhdf5 reads it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/types.h"

typedef struct ls_hdf5_bytes {
    const uint8_t *p; /* the file behind its user block, where addresses begin */
    size_t n;
    int offset_bytes, length_bytes; /* of addresses and of lengths, 1 to 8 */
    const char *what;               /* begins messages */
} ls_hdf5_bytes;

/* Which attributes a data set has. */
typedef struct ls_hdf5_attributes {
    const char *const *names; /* those that are looked for, up to 32 */
    int n;
    uint32_t there; /* out: bit i: its header has the attribute names[i] */
    bool elsewhere; /* out: it may have attributes that its header does not name */
} ls_hdf5_attributes;

/* Checks the object header at address `at`: its blocks lie in the file, its messages in their blocks, and
 * what the messages declare lies in them. Types (also those with a name), shapes, fill values, filters,
 * elements in the header and attributes are checked. Not checked are messages of versions that a later HDF5
 * may bring, and attributes in a fractal heap: an object that has many stores them there. LS_E_FORMAT with
 * the place; LS_E_UNSUPPORTED for a file with a table of shared messages, or with more than a million
 * messages. */
ls_status ls_hdf5_check_header(ls_hdf5_attributes *attributes, const ls_hdf5_bytes *file, uint64_t at);
