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
        /* places differ in the upper half, where elements of up to 32 bits have nothing: two elements that
         * change places change the sum */
        sum += mixed(bits ^ (seed + (uint64_t)(first + i) * UINT64_C(0x9e3779b97f4a7c15)));
    }
    return sum;
}
