/* element_digest.c - see element_digest.h. The mixing is the finalizer of MurmurHash3, 64 bits, by Austin
 * Appleby. */
#include "element_digest.h"

#include <string.h>

#include "base/hash.h"

static uint64_t mixed(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

uint64_t ls_element_seed(const char *name, ls_dtype type)
{
    return mixed(ls_hash_text(name) + (uint64_t)type + 1);
}

uint64_t ls_element_digest(uint64_t seed, const void *data, size_t element, int64_t first, int64_t n)
{
    uint64_t sum = 0;
    const uint8_t *at = data;
    for (int64_t i = 0; i < n; i++, at += element) {
        uint64_t bits = 0;
        memcpy(&bits, at, element);
        /* the place is mixed first: bits of neighbours cannot take each other's part */
        sum += mixed(bits ^ mixed(seed + (uint64_t)(first + i)));
    }
    return sum;
}
