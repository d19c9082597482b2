/* hash.h - xxh3 for identity and checksums, CRC-32C where a format wants it. */
#pragma once
#include <stddef.h>
#include "lockstep/status.h"

uint64_t ls_hash64(const void *data, size_t n); /* xxh3, seed 0 */
/* The same hash, but can be stopped: LS_E_STOPPED with "stopped while hashing WHAT". */
ls_status ls_hash64_long(uint64_t *out, const void *data, size_t n, const char *what);
/* xxh3 with seed h: chains the hashes of several records */
uint64_t ls_hash64_more(uint64_t h, const void *data, size_t n);
uint64_t ls_hash_text(const char *s);
typedef struct ls_hasher ls_hasher; /* xxh3, seed 0, of bytes that arrive in pieces */
ls_hasher *ls_hasher_create(void);  /* NULL: out of memory */
void ls_hasher_add(ls_hasher *h, const void *data, size_t n);
uint64_t ls_hasher_end(ls_hasher **h); /* returns the hash and frees *h; 0 for NULL */
/* Castagnoli's polynomial, as in iSCSI and ext4 */
uint32_t ls_crc32c(const void *data, size_t n);
