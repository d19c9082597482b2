/* hash.c - xxh3 through libxxhash's header, CRC-32C by halves of a byte (its texts are short). */
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
