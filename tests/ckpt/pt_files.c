/* pt_files.c - see pt_files.h. */
#include "ckpt/pt_files.h"
#include <stdio.h>
#include "support/support.h"

const char *golden_pt(const char *name)
{
    static char path[4][512];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, 512, "%s/tests/golden/pt_%s", LS_TEST_SOURCE_DIR, name);
    return p;
}

const char *file_with(const char *pickle, size_t n)
{
    static const float DATA[6] = { 0, 1, 2, 3, 4, 5 };
    const char *path = ls_test_path("made.pt");
    ls_zip_writer z;
    ASSERT_OK(ls_zip_create(&z, path, "archive"));
    ASSERT_OK(ls_zip_add(&z, "data.pkl", pickle, n));
    ASSERT_OK(ls_zip_add(&z, "data/0", DATA, sizeof DATA));
    ASSERT_OK(ls_zip_commit(&z));
    return path;
}
