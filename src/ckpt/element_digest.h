/* element_digest.h - a digest of tensors that says nothing of how they were written: each element counts with
 * its tensor and its place in it, in any order, so ranks add up their parts. */
#pragma once
#include "lockstep/types.h"

/* Of a tensor; its name and type enter the digest. */
uint64_t ls_element_seed(const char *name, ls_dtype type);
/* The part of elements first .. first + n - 1 of the whole tensor, whose bytes are at `data`. The digest of
 * all tensors is the sum of all parts, modulo 2^64. Local. */
uint64_t ls_element_digest(uint64_t seed, const void *data, size_t element, int64_t first, int64_t n);
