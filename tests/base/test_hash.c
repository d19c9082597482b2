/* test_hash.c - known answers: SHA-256 from the examples of FIPS 180-4, xxh3 from the sanity values of its
 * specification. */
#include "base/hash.h"
#include "base/sha.h"
#include "support/support.h"
#include <stdlib.h>
#include <string.h>

static void sha(const char *text, size_t n, size_t piece, char out[65])
{
    ls_sha s;
    ls_sha256_init(&s);
    for (size_t i = 0; i < n; i += piece)
        ls_sha_add(&s, text + i, n - i < piece ? n - i : piece);
    ls_sha_hex(&s, out);
}

static void sha256_known_answers(void **state)
{
    (void)state;
    char hex[65];
    sha("", 0, 1, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha("abc", 3, 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, 56, hex);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char *a = malloc(1000000);
    memset(a, 'a', 1000000);
    sha(a, 1000000, 777, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    for (size_t n = 0; n < 200; n++) { /* every length around the block limits, whole and in pieces */
        char whole[65], pieces[65];
        sha(a, n, n + 1, whole);
        for (size_t piece = 1; piece < 70; piece += 9) {
            sha(a, n, piece, pieces);
            assert_string_equal(whole, pieces);
        }
    }
    free(a);
}

static void sha1_known_answers(void **state)
{
    (void)state;
    static const char *const TEXTS[] = { "", "abc",
                                         "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq" };
    static const char *const HASHES[] = { "da39a3ee5e6b4b0d3255bfef95601890afd80709",
                                          "a9993e364706816aba3e25717850c26c9cd0d89d",
                                          "84983e441c3bd26ebaae4aa1f95129e5e54670f1" };
    for (int i = 0; i < 3; i++) {
        ls_sha s;
        char hex[LS_SHA1_HEX];
        ls_sha1_init(&s);
        ls_sha_add(&s, TEXTS[i], strlen(TEXTS[i]));
        ls_sha_hex(&s, hex);
        assert_string_equal(hex, HASHES[i]);
    }
}

static void xxh3_known_answers(void **state)
{
    (void)state;
    assert_true(ls_hash64("", 0) == 0x2d06800538d394c2u);
    assert_true(ls_hash_text("") == ls_hash64("", 0));
    assert_true(ls_hash_text("abc") == 0x78af5f94892f3950u);
    assert_true(ls_crc32c("", 0) == 0);
    assert_true(ls_crc32c("123456789", 9) == 0xe3069283u);
    assert_true(ls_hash64_more(0, "abc", 3) == ls_hash64("abc", 3));
    assert_true(ls_hash64_more(1, "abc", 3) != ls_hash64("abc", 3));
    static char big[4096];
    uint64_t h = ls_hash64(big, sizeof big);
    for (size_t i = 0; i < sizeof big; i += 61) {
        big[i] ^= 1;
        assert_true(ls_hash64(big, sizeof big) != h);
        big[i] ^= 1;
    }
    assert_true(ls_hash64(big, sizeof big) == h);
}

/* In pieces of any size, as in one. */
static void hasher_is_the_same_in_pieces(void **state)
{
    (void)state;
    char text[3000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 31);
    for (size_t piece = 1; piece < 3000; piece = piece * 3 + 1) {
        ls_hasher *h = ls_hasher_create();
        for (size_t at = 0; at < sizeof text; at += piece)
            ls_hasher_add(h, text + at, sizeof text - at < piece ? sizeof text - at : piece);
        assert_true(ls_hasher_end(&h) == ls_hash64(text, sizeof text));
        assert_null(h);
        assert_true(ls_hasher_end(&h) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sha256_known_answers),
                                        cmocka_unit_test(sha1_known_answers),
                                        cmocka_unit_test(xxh3_known_answers),
                                        cmocka_unit_test(hasher_is_the_same_in_pieces) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
