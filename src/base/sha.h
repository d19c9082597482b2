/* sha.h - SHA-256 and SHA-1 (FIPS 180-4), for files that come from the network: data sets and large files of
 * a hub are named by their SHA-256, small files of a hub by the SHA-1 that git gives them. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct ls_sha {
    int words; /* of the hash: 8 of SHA-256, 5 of SHA-1 */
    uint32_t h[8];
    uint64_t bytes;
    uint8_t block[64];
} ls_sha;

enum { LS_SHA1_HEX = 41, LS_SHA256_HEX = 65 }; /* characters of the text with its NUL */

void ls_sha256_init(ls_sha *s);
void ls_sha1_init(ls_sha *s);
void ls_sha_add(ls_sha *s, const void *data, size_t n);
/* The hash in hexadecimal; `s` is then used up. `out` has LS_SHA1_HEX or LS_SHA256_HEX characters. */
void ls_sha_hex(ls_sha *s, char *out);
