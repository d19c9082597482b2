/* element_digest.c - see element_digest.h. The mixing is the finalizer of MurmurHash3, 64 bits, by Austin
 * Appleby. */
#include "element_digest.h"

#include "base/check.h"
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

/* Places differ in the upper half, where elements of up to 32 bits have nothing: two elements that change
 * places change the sum. */
#define SUM(type)                                                           \
    static uint64_t sum_##type(uint64_t place, const type *bits, int64_t n) \
    {                                                                       \
        uint64_t sum = 0;                                                   \
        for (int64_t i = 0; i < n; i++, place += STEP)                      \
            sum += mixed(bits[i] ^ place);                                  \
        return sum;                                                         \
    }
#define STEP UINT64_C(0x9e3779b97f4a7c15) /* odd, with bits everywhere: 2^64 divided by the golden ratio */
SUM(uint8_t)
SUM(uint16_t)
SUM(uint32_t)
SUM(uint64_t)

uint64_t ls_element_digest(uint64_t seed, const void *data, size_t element, int64_t first, int64_t n)
{
    const uint64_t place = seed + (uint64_t)first * STEP;
    switch (element) {
    case 1: return sum_uint8_t(place, data, n);
    case 2: return sum_uint16_t(place, data, n);
    case 4: return sum_uint32_t(place, data, n);
    default: LS_CHECK(element == 8, "elements of %zu bytes", element); return sum_uint64_t(place, data, n);
    }
}
