/* hash.c - xxh3 (by libxxhash's header), SHA-256 (FIPS 180-4), and CRC-32C by half bytes (its inputs are
 * short). */
#include "hash.h"
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "base/stop.h"

uint64_t ls_hash64(const void *data, size_t n) { return XXH3_64bits(data, n); }

ls_status ls_hash64_long(uint64_t *out, const void *data, size_t n, const char *what)
{
    enum { PART = 1 << 24 };
    const uint8_t *p = data;
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (size_t done = 0, part; done < n; done += part) {
        LS_TRY(ls_stop_check("hashing %s", what));
        part = n - done < PART ? n - done : PART;
        XXH3_64bits_update(&state, p + done, part);
    }
    *out = XXH3_64bits_digest(&state);
    return LS_OK;
}

uint64_t ls_hash64_more(uint64_t h, const void *data, size_t n) { return XXH3_64bits_withSeed(data, n, h); }

uint64_t ls_hash_text(const char *s) { return XXH3_64bits(s, strlen(s)); }

struct ls_hasher {
    XXH3_state_t state;
};

ls_hasher *ls_hasher_create(void)
{
    ls_hasher *h = (ls_hasher *)XXH3_createState(); /* aligned as its vectors require */
    if (h)
        XXH3_64bits_reset(&h->state);
    return h;
}

void ls_hasher_add(ls_hasher *h, const void *data, size_t n) { XXH3_64bits_update(&h->state, data, n); }

uint64_t ls_hasher_end(ls_hasher **h)
{
    const uint64_t hash = *h ? XXH3_64bits_digest(&(*h)->state) : 0;
    XXH3_freeState((XXH3_state_t *)*h);
    *h = NULL;
    return hash;
}

uint32_t ls_crc32c(const void *data, size_t n)
{
    static const uint32_t HALF[16] = { 0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                       0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75 };
    uint32_t crc = ~0u;
    for (const uint8_t *p = data, *end = p + n; p < end; p++) {
        crc ^= *p;
        crc = crc >> 4 ^ HALF[crc & 15];
        crc = crc >> 4 ^ HALF[crc & 15];
    }
    return ~crc;
}

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void compress(uint32_t h[8], const uint8_t *block)
{
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t v[8]; /* a .. h */
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25),
                 choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t s0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22),
                 majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        uint32_t t1 = v[7] + s1 + choice + K[i] + w[i], t2 = s0 + majority;
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

void ls_sha256_init(ls_sha256 *s)
{
    static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    *s = (ls_sha256){ 0 };
    memcpy(s->h, start, sizeof start);
}

void ls_sha256_add(ls_sha256 *s, const void *data, size_t n)
{
    const uint8_t *p = data;
    size_t used = (size_t)(s->bytes % 64);
    s->bytes += n;
    if (used) {
        size_t take = n < 64 - used ? n : 64 - used;
        memcpy(s->block + used, p, take);
        p += take;
        n -= take;
        if (used + take < 64)
            return;
        compress(s->h, s->block);
    }
    for (; n >= 64; p += 64, n -= 64)
        compress(s->h, p);
    if (n)
        memcpy(s->block, p, n);
}

void ls_sha256_hex(ls_sha256 *s, char out[65])
{
    static const uint8_t padding[64] = { 0x80 };
    uint64_t bits = s->bytes * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    /* ends within 1 to 64 bytes, 8 bytes before the end of the block */
    ls_sha256_add(s, padding, (119 - (size_t)(s->bytes % 64)) % 64 + 1);
    ls_sha256_add(s, length, 8);
    for (int i = 0; i < 32; i++) {
        unsigned byte = s->h[i / 4] >> (24 - 8 * (i % 4)) & 255;
        out[2 * i] = "0123456789abcdef"[byte >> 4];
        out[2 * i + 1] = "0123456789abcdef"[byte & 15];
    }
    out[64] = 0;
}
