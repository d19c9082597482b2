/* sha.c - see sha.h. */
#include "sha.h"
#include <string.h>

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

/* The block's 16 words, in big-endian order. */
static void sha_load(uint32_t *w, const uint8_t *block)
{
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
}

static void compress256(uint32_t h[8], const uint8_t *block)
{
    uint32_t w[64];
    sha_load(w, block);
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

static uint32_t rotl(uint32_t x, int n) { return x << n | x >> (32 - n); }

/* The function and the constant of round i. */
static uint32_t round1(int i, const uint32_t v[5])
{
    const uint32_t b = v[1], c = v[2], d = v[3];
    if (i < 20)
        return ((b & c) | (~b & d)) + 0x5a827999;
    if (i < 40)
        return (b ^ c ^ d) + 0x6ed9eba1;
    if (i < 60)
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    return (b ^ c ^ d) + 0xca62c1d6;
}

static void compress1(uint32_t h[5], const uint8_t *block)
{
    uint32_t w[80], v[5]; /* v: a .. e */
    sha_load(w, block);
    for (int i = 16; i < 80; i++)
        w[i] = rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 80; i++) {
        const uint32_t a = rotl(v[0], 5) + round1(i, v) + v[4] + w[i];
        memmove(v + 1, v, 4 * sizeof *v);
        v[0] = a;
        v[2] = rotl(v[2], 30);
    }
    for (int i = 0; i < 5; i++)
        h[i] += v[i];
}

static void compress(ls_sha *s, const uint8_t *block)
{
    if (s->words == 5)
        compress1(s->h, block);
    else
        compress256(s->h, block);
}

void ls_sha256_init(ls_sha *s)
{
    *s = (ls_sha){ .words = 8,
                   .h = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
                          0x5be0cd19 } };
}

void ls_sha1_init(ls_sha *s)
{
    *s = (ls_sha){ .words = 5, .h = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 } };
}

void ls_sha_add(ls_sha *s, const void *data, size_t n)
{
    const uint8_t *p = data;
    const size_t used = (size_t)(s->bytes % 64);
    s->bytes += n;
    if (used) {
        const size_t take = n < 64 - used ? n : 64 - used;
        memcpy(s->block + used, p, take);
        p += take;
        n -= take;
        if (used + take < 64)
            return;
        compress(s, s->block);
    }
    for (; n >= 64; p += 64, n -= 64)
        compress(s, p);
    if (n)
        memcpy(s->block, p, n);
}

void ls_sha_hex(ls_sha *s, char *out)
{
    static const uint8_t padding[64] = { 0x80 };
    const uint64_t bits = s->bytes * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    /* 1 to 64 bytes: up to 8 before the block's end */
    ls_sha_add(s, padding, (119 - (size_t)(s->bytes % 64)) % 64 + 1);
    ls_sha_add(s, length, 8);
    for (int i = 0; i < 4 * s->words; i++) {
        const unsigned byte = s->h[i / 4] >> (24 - 8 * (i % 4)) & 255;
        out[2 * i] = "0123456789abcdef"[byte >> 4];
        out[2 * i + 1] = "0123456789abcdef"[byte & 15];
    }
    out[8 * s->words] = 0;
}
