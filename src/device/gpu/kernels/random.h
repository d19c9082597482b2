/* random.h - the random bits of base/rng.h: Philox4x32-10 (Salmon et al. 2011). The same key and counter give
 * the same bits as on the host. */
#pragma once
#include "dialect.h"

typedef struct random_key {
    u32 k[2];
} random_key;
typedef struct random_words {
    u32 w[4];
} random_words;

/* ls_rng_block */
DEVICE random_words random_block(random_key key, u64 counter, u64 plane)
{
    u32 c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = (u32)plane, c3 = (u32)(plane >> 32);
    for (int round = 0; round < 10; round++) {
        const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ key.k[0];
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ key.k[1];
        c3 = (u32)p0;
        key.k[0] += 0x9E3779B9u;
        key.k[1] += 0xBB67AE85u;
    }
    random_words r;
    r.w[0] = c0;
    r.w[1] = c1;
    r.w[2] = c2;
    r.w[3] = c3;
    return r;
}

/* ls_rng_key_of */
DEVICE random_key random_key_of(u64 seed, u64 purpose)
{
    random_key key;
    key.k[0] = (u32)seed;
    key.k[1] = (u32)(seed >> 32);
    const random_words r = random_block(key, purpose, 2); /* DRAW_KEY */
    key.k[0] = r.w[0];
    key.k[1] = r.w[1];
    return key;
}

/* ls_rng_bits16: the 16 bits of element `index`. Block b = index / 64 * 8 + index % 8 has those of eight
 * elements, which are 8 apart: number index % 64 / 8 in it. */
DEVICE u32 random_bits16_of(const random_words *r, int number)
{
    const u32 low = number & 1 ? r->w[1] : r->w[0], high = number & 1 ? r->w[3] : r->w[2],
              word = number & 2 ? high : low;
    return number & 4 ? word >> 16 : word & 0xffffu;
}
DEVICE u32 random_bits16(random_key key, u64 plane, u64 index)
{
    const random_words r = random_block(key, index / 64 * 8 + index % 8, plane);
    return random_bits16_of(&r, (int)(index % 64 / 8));
}
