/* test_pt_archives.c - the zip archive of a .pt file: damaged directories, checksums. */
#include <stdio.h>
#include <unistd.h>
#include "base/file.h"
#include "ckpt/pt.h"
#include "ckpt/zip.h"
#include "lockstep/weights.h"
#include "support/support.h"
#include "ckpt/pt_files.h"

static void change(const char *path, long at, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void refuses_bad_archives(void **state)
{
    (void)state;
    static const struct {
        long at;
        const char *bytes;
        size_t n;
        const char *says;
    } CHANGES[] = {
        /* the first local header: its padding is said to reach beyond everything */
        { 28, "\xff\xff", 2, "data.pkl is not where" },
        { -22, "x", 1, "does not end like one" },
        { -98, "x", 1, "zip64 end record" },                                /* its signature */
        { -34, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, "zip64 end record" }, /* the locator's offset */
        { -50, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8, "directory does not lie" },
        { -58, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8, "directory does not lie" },
        { -66, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8, "directory does not lie" },
        { -66, "\3", 1, "directory does not lie" },
        /* the directory's second and last entry */
        { -98 - 60, "x", 1, "ends early" },
        { -98 - 60 + 28, "\xff\xff", 2, "ends early" },
        { -98 - 60 + 42, "\xff\xff\xff\x7f", 4, "data/0 is not where" },
        { -98 - 60 + 42, "\1", 1, "data/0 is not where" },
        /* packed and unpacked size differ */
        { -98 - 60 + 20, "\x19", 1, "data/0 is not where" },
        { -98 - 60 + 20, "\xff\xff\0\0\xff\xff\0\0", 8, "data/0 is not where" },
        /* its data reach into the directory, and not beyond the end of the file */
        { -98 - 60 + 20, "\x64\0\0\0\x64\0\0\0", 8, "data/0 is not where" },
        { -98 - 60 + 20, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, "data/0 is not where" },
    };
    ls_weights *w;
    for (size_t i = 0; i < sizeof CHANGES / sizeof CHANGES[0]; i++) {
        const char *path = file_with(CASE(TENSOR("\0", "K\2K\3", "K\3K\1")));
        change(path, CHANGES[i].at, CHANGES[i].bytes, CHANGES[i].n);
        ASSERT_FAILS(ls_weights_open(&w, path), LS_E_FORMAT, "made.pt", CHANGES[i].says);
    }
    const char *path = file_with(CASE(TENSOR("\0", "K\2K\3", "K\3K\1")));
    int64_t size = ls_file_size(path);
    for (int64_t cut = size - 1; cut > 8; cut--) {
        assert_int_equal(truncate(path, cut), 0);
        assert_int_not_equal(ls_weights_open(&w, path), LS_OK);
        assert_null(w);
    }
}

static void checks_checksums_on_request(void **state)
{
    (void)state;
    int64_t entries = 0;
    ASSERT_OK(ls_pt_verify(golden_pt("module.pt"), &entries));
    assert_int_equal(entries, 13);
    ASSERT_FAILS(ls_pt_verify(golden_pt("before_1_6.pt"), &entries), LS_E_UNSUPPORTED, "no checksums");
    const char *path = file_with(CASE(TENSOR("\0", "K\2K\3", "K\3K\1")));
    ls_weights *w;
    ASSERT_OK(ls_weights_open(&w, path));
    long data = (long)ls_weights_at(w, 0)->offset;
    ls_weights_close(&w);
    assert_int_equal(data % 64, 0);
    ASSERT_OK(ls_pt_verify(path, &entries));
    change(path, data + 5, "\x55", 1);
    ASSERT_FAILS(ls_pt_verify(path, &entries), LS_E_FORMAT, "made.pt", "archive/data/0", "CRC-32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_bad_archives),
        cmocka_unit_test(checks_checksums_on_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
