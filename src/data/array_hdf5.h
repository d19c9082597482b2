/* array_hdf5.h - a data set of an HDF5 file, which a NetCDF-4 file is too. The library is opened when the
 * first file asks for it. */
#pragma once
#include <stddef.h>

#include "lockstep/types.h"

typedef struct ls_hdf5 ls_hdf5;

typedef struct ls_hdf5_array {
    ls_type type;   /* as rows are read: f32, f64, i32, i64, u8 */
    int64_t offset; /* of the elements in the file, where they lie there as they are read; -1: elsewhere */
    bool has_fill;  /* elements of this value are missing (_FillValue, missing_value) */
    double fill;
} ls_hdf5_array;

/* Opens the data set `name` ("x", "/group/x") of the file `path`. Messages begin with `what`. LS_E_USAGE: no
 * such data set, with the nearest name; LS_E_UNSUPPORTED: this build or this machine has no libhdf5 (the
 * message names the package), elements that are not plain numbers or are not in this file, or a filter that
 * libhdf5 does not have; LS_E_FORMAT: no HDF5 file, or one whose sizes contradict each other. */
ls_status ls_hdf5_open(ls_hdf5 **out, ls_hdf5_array *array, const char *path, const char *name,
                       const char *what);
/* Rows first .. first + n - 1, in their order. Any thread; they take turns. */
ls_status ls_hdf5_read(const ls_hdf5 *h, int64_t first, int64_t n, void *to);
void ls_hdf5_close(ls_hdf5 **h); /* nulls *h; null is fine */
