/* test_text_files.c - text files: plain and gzip, with what may and what must not follow the gzip data; what
 * is not UTF-8 or no text. */
#include "data/array_room.h"
#include "data/text_folder.h"
#include "files.h"

static void reads_files(void **state)
{
    (void)state;
    ls_text_file f;
    bytes plain = { (uint8_t *)"\xef\xbb\xbfone\r\ntwo\rthree\r\n\r", 20 }, gz = make_gzip(plain),
          twice = { malloc(2 * gz.size), 2 * gz.size };
    memcpy(twice.data, gz.data, gz.size);
    memcpy(twice.data + gz.size, gz.data, gz.size);
    write_bytes(in(text_folder, "a.txt"), plain);
    write_bytes(in(text_folder, "a.txt.gz"), gz);
    write_bytes(in(text_folder, "two.gz"), twice);
    write_bytes(in(text_folder, "cut.gz"), (bytes){ gz.data, gz.size - 9 });
    for (int i = 0; i < 2; i++) {
        assert_ok(ls_text_file_open(&f, in(text_folder, i ? "a.txt.gz" : "a.txt")));
        assert_int_equal(f.n, 15);
        assert_memory_equal(f.text, "one\ntwo\rthree\n\r", 15);
        ls_text_file_close(&f);
    }
    assert_ok(ls_text_file_open(&f, in(text_folder, "two.gz")));
    assert_int_equal(f.n, 15 + 18); /* the second mark is inside: a character like any */
    ls_text_file_close(&f);
    assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(text_folder, "cut.gz")),
                 "cut.gz: damaged gzip data at offset", "");
    /* the checksum and the length behind the data, of the first member and of the last: cut, or another byte
     */
    for (size_t i = 1; i <= 8; i++) {
        write_bytes(in(text_folder, "cut.gz"), (bytes){ gz.data, gz.size - i });
        assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(text_folder, "cut.gz")),
                     "cut.gz: damaged gzip data at offset", "(cut short)");
        for (size_t member = 1; member <= 2; member++) {
            twice.data[member * gz.size - i] ^= 1;
            write_bytes(in(text_folder, "wrong.gz"), twice);
            assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(text_folder, "wrong.gz")),
                         "wrong.gz: damaged gzip data at offset", "incorrect");
            twice.data[member * gz.size - i] ^= 1;
        }
    }
    write_bytes(in(text_folder, "cut.gz"),
                (bytes){ twice.data, gz.size + 1 }); /* a byte of a second member */
    assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(text_folder, "cut.gz")),
                 "cut.gz: damaged gzip data at offset", "(cut short)");
    twice.data[gz.size] = 'x'; /* something else follows */
    write_bytes(in(text_folder, "wrong.gz"), twice);
    assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(text_folder, "wrong.gz")),
                 "wrong.gz: the gzip data end at offset", "bytes follow that are neither zeros nor");
    memset(twice.data + gz.size, 0, gz.size); /* zeros follow, as behind a file from a tape */
    write_bytes(in(text_folder, "padded.gz"), twice);
    assert_ok(ls_text_file_open(&f, in(text_folder, "padded.gz")));
    assert_int_equal(f.n, 15);
    ls_text_file_close(&f);
    twice.data[2 * gz.size - 1] = 1;
    write_bytes(in(text_folder, "wrong.gz"), twice);
    assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(text_folder, "wrong.gz")),
                 "wrong.gz: the gzip data end at offset", "bytes follow that are neither zeros nor");
    assert_fails(LS_E_FORMAT, ls_text_file_open(&f, put("table.txt", "PAR1\x15\x04\xff\xff")),
                 "table.txt: not a text: it is a Parquet file", "read_parquet");
    assert_fails(LS_E_FORMAT, ls_text_file_open(&f, put("latin", "na\xefve")), "latin: byte 2 is 0xef",
                 "not UTF-8");
    assert_fails(LS_E_FORMAT,
                 ls_text_file_open(&f, put("wide", "\xff\xfe"
                                                   "a")),
                 "wide: byte 0 is 0xff", "UTF-16");
    bytes wrong = make_gzip((bytes){ (uint8_t *)"ab\xc0", 3 });
    write_bytes(in(text_folder, "wrong.gz"), wrong);
    assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(text_folder, "wrong.gz")),
                 "byte 2 of the inflated text", "");
    free_bytes(&gz);
    free_bytes(&twice);
    free_bytes(&wrong);
}

/* What a file inflates to is not known before: it stops where memory ends. */
static void inflates_into_memory_that_is_there(void **state)
{
    (void)state;
    enum { N = 3 << 24 };
    ls_text_file f;
    char *text = malloc(N);
    memset(text, 'a', N);
    bytes gz = make_gzip((bytes){ (uint8_t *)text, N });
    write_bytes(in(text_folder, "zeros.gz"), gz);
    ls_array_room_most = 1 << 20;
    const ls_status s = ls_text_file_open(&f, in(text_folder, "zeros.gz"));
    ls_array_room_most = SIZE_MAX;
    assert_fails(LS_E_MEMORY, s, "zeros.gz: no memory", "divide the file");
    assert_ok(ls_text_file_open(&f, in(text_folder, "zeros.gz")));
    assert_int_equal(f.n, N);
    ls_text_file_close(&f);
    free_bytes(&gz);
    free(text);
}

/* Sound text may be cut between two parts anywhere in a character. */
static void checks_long_texts(void **state)
{
    (void)state;
    enum { PART = 1 << 24, N = PART + 64 };
    char *text = malloc(N);
    ls_text_file f;
    for (int shift = 0; shift < 4; shift++) {
        memset(text, 'a', N);
        memcpy(text + PART - shift, "\xf0\x9f\x98\x80", 4);
        write_bytes(in(text_folder, "long.txt"), (bytes){ (uint8_t *)text, N });
        assert_ok(ls_text_file_open(&f, in(text_folder, "long.txt")));
        assert_int_equal(f.n, N);
        ls_text_file_close(&f);
    }
    text[PART + 2] = (char)0xff;
    write_bytes(in(text_folder, "long.txt"), (bytes){ (uint8_t *)text, N });
    assert_fails(LS_E_FORMAT, ls_text_file_open(&f, in(text_folder, "long.txt")),
                 "long.txt: byte 16777218 is 0xff", "not UTF-8");
    free(text);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_text_folder, drop_text_folder)
    const struct CMUnitTest tests[] = {
        TEST(reads_files),
        TEST(checks_long_texts),
        TEST(inflates_into_memory_that_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
