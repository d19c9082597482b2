/* hash.h - xxh3 for identities and checksums, SHA-256 for files from the network, CRC-32C for a file format
 * that needs it. */
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
typedef struct ls_sha256 {
    uint32_t h[8];
    uint64_t bytes;
    uint8_t block[64];
} ls_sha256;
void ls_sha256_init(ls_sha256 *s);
void ls_sha256_add(ls_sha256 *s, const void *data, size_t n);
void ls_sha256_hex(ls_sha256 *s, char out[65]);
