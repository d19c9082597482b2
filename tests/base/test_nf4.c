/* Numbers of 4 bits: a million of them give the bytes and the numbers of bitsandbytes 0.50.2 on a CPU (sums
 * made by `quantize_4bit(.., blocksize=64, quant_type="nf4", compress_statistics=True)`). */
#include <math.h>
#include <string.h>

#include "base/bf16.h"
#include "base/nf4.h"
#include "base/sha.h"
#include "support/nf4_numbers.h"
#include "support/support.h"

enum { NUMBERS = 1 << 20, SCALES = NUMBERS / LS_NF4_BLOCK, NESTED = SCALES / LS_NF4_NESTED };

static float x[NUMBERS], scales[SCALES], back[NUMBERS];
static uint16_t half[NUMBERS];
static uint8_t codes[NUMBERS / 2], bytes[SCALES];

static void expect(const char *want, const void *data, size_t n)
{
    char hex[65];
    ls_sha s;
    ls_sha256_init(&s);
    ls_sha_add(&s, data, n);
    ls_sha_hex(&s, hex);
    assert_string_equal(hex, want);
}

static void a_million_numbers(void **state)
{
    (void)state;
    float nested[NESTED], offset, map[LS_NF4_MAP];
    for (int i = 0; i < NUMBERS; i++)
        x[i] = nf4_number((uint64_t)i);
    expect("693866677027c691247dff578c3d61fdbd92f0333606aabaccee9b6e4c5bb539", x, sizeof x);
    for (int i = 0; i < SCALES; i++) {
        scales[i] = ls_nf4_largest(x + i * LS_NF4_BLOCK);
        ls_nf4_codes(codes + i * (LS_NF4_BLOCK / 2), x + i * LS_NF4_BLOCK, scales[i]);
    }
    ls_nf4_scales(bytes, nested, &offset, scales, SCALES);
    assert_true(offset == 0x1.3a50cep-3f);
    expect("bd1b829b36014177a9e44cccc8734b0dcd8a323b7a20ce21e395879ebdb18a60", codes, sizeof codes);
    expect("9d1e32c27dbd0e947022cadfa9cc39a48b70de263dd661886d791419c4ba4df2", bytes, sizeof bytes);
    expect("e280e8f4baaa02653ef59181527e111a37692bad39b1a4e8d5f2db33a94d9af8", nested, sizeof nested);
    ls_nf4_map(map);
    for (int i = 0; i < NUMBERS; i++) {
        const int block = i / LS_NF4_BLOCK;
        const float scale = ls_nf4_scale(map, bytes[block], nested[block / LS_NF4_NESTED], offset);
        back[i] = ls_nf4_numbers[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4] * scale;
        half[i] = ls_to_bf16(back[i]);
    }
    expect("fa7b4bdbb88d9289828e4664efcc36f6196fab15cfd07fa588f200bac095ab7f", back, sizeof back);
    expect("8b658a966e5702a18005e6294cc395017fb3ce6d27bcd294ef5c65fe35f22a44", half, sizeof half);
}

/* Weights that are all zero, or all of one size, have scales without spread. */
static void zeros_and_equal_blocks(void **state)
{
    (void)state;
    float block[LS_NF4_BLOCK] = { 0 }, nested, offset, map[LS_NF4_MAP];
    const float equal[3] = { 0.25f, 0.25f, 0.25f };
    uint8_t code[LS_NF4_BLOCK / 2], byte[3];
    assert_true(ls_nf4_largest(block) == 0);
    ls_nf4_codes(code, block, 0);
    assert_int_equal(code[0], 0x77);
    ls_nf4_scales(byte, &nested, &offset, equal, 3);
    ls_nf4_map(map);
    assert_true(ls_nf4_scale(map, byte[2], nested, offset) == 0.25f);
    block[3] = NAN;
    assert_true(isnan(ls_nf4_largest(block)));
    block[3] = INFINITY;
    assert_true(isinf(ls_nf4_largest(block)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_numbers),
        cmocka_unit_test(zeros_and_equal_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
