/* array_npz.h - an array in an .npz archive, a zip file of .npy arrays. */
#pragma once
#include "data/npy.h"

/* Finds the array `name` (its entry is NAME.npy) in the archive of these bytes. A stored array points into
 * them; a compressed one into *heap, malloc'ed, else NULL. Messages begin with `what`. LS_E_USAGE: there is
 * no such array, with the nearest name; others as ls_npy_parse. */
ls_status ls_npz_find(ls_npy *out, void **heap, const void *bytes, size_t size, const char *name,
                      const char *what);
