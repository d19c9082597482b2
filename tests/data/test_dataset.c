/* test_dataset.c - data sets by name and by explicit files: where they are looked for, and what is refused.
 */
#include "files.h"

#include "base/sha.h"
#include "base/log.h"
#include "data/known.h"

/* Nothing here may touch the network: .mirror points to a folder that is not there. */
#define OFFLINE .mirror = "file:///nonexistent/mirror"

static void test_path_and_gzip(void **state)
{
    (void)state;
    for (int gzip = 0; gzip < 2; gzip++) {
        char *dir = make_folder();
        write_set(in(dir, "root/fashion-mnist"), 40, 10, 6, 5, 10, gzip);
        const char *roots[] = { "root", "root/fashion-mnist" };
        for (int r = 0; r < 2; r++) {
            ls_dataset *set;
            assert_ok(ls_dataset_open(&set, "fashion-mnist", LS_SPLIT_TRAIN, .path = in(dir, roots[r])));
            assert_int_equal(set->n, 40);
            assert_true(ls_type_equal(&set->fields[0].type, &LS_TYPE(LS_U8, 1, 6, 5)) &&
                        ls_type_equal(&set->fields[1].type, &LS_SCALAR(LS_I32)));
            assert_int_equal(set->fields[1].below, 10);
            assert_string_equal(set->fields[1].names[7], "Sneaker");
            assert_false(set->builtin);
            uint8_t image[30];
            int32_t label;
            assert_ok(set->read(set, 23, (void *const[]){ image, &label }));
            assert_int_equal(label, 3);
            assert_int_equal(image[0], 23);
            assert_int_equal(image[29], 23 + 29);
            ls_dataset_close(&set);
            assert_null(set);
            ls_dataset_close(&set);
            assert_ok(ls_dataset_open(&set, "fashion-mnist", LS_SPLIT_EVAL, .path = in(dir, roots[r])));
            assert_int_equal(set->n, 10);
            ls_dataset_close(&set);
        }
        remove_tree(dir);
    }
}

/* LOCKSTEP_DATA, torchvision's folders, the cache; the first that has the set. */
static void test_search(void **state)
{
    (void)state;
    char *dir = make_folder();
    ls_dataset *set;
    write_set(in(dir, "cache/data/mnist"), 3, 3, 4, 4, 10, true);
    assert_ok(ls_dataset_open(&set, "mnist", LS_SPLIT_TRAIN, OFFLINE));
    assert_int_equal(set->n, 3);
    ls_dataset_close(&set);
    write_set(in(dir, "env/MNIST/raw"), 4, 4, 4, 4, 10, false);
    setenv("LOCKSTEP_DATA", in(dir, "env"), 1);
    assert_ok(ls_dataset_open(&set, "mnist", LS_SPLIT_TRAIN, OFFLINE));
    assert_int_equal(set->n, 4);
    assert_string_equal(set->fields[1].names[9], "9");
    ls_dataset_close(&set);
    write_set(in(dir, "env/mnist"), 5, 5, 4, 4, 10, false);
    assert_ok(ls_dataset_open(&set, "mnist", LS_SPLIT_TRAIN, OFFLINE));
    assert_int_equal(set->n, 5);
    ls_dataset_close(&set);
    setenv("LOCKSTEP_DATA", in(dir, "env/mnist/"), 1); /* the set's own folder */
    assert_ok(ls_dataset_open(&set, "mnist", LS_SPLIT_TRAIN, OFFLINE));
    assert_int_equal(set->n, 5);
    ls_dataset_close(&set);
    /* ... which is not where fashion-mnist is, though its files have the same names */
    assert_ok(ls_dataset_open(&set, "fashion-mnist", LS_SPLIT_TRAIN, OFFLINE));
    assert_true(set->builtin);
    ls_dataset_close(&set);
    assert_fails(LS_E_USAGE,
                 ls_dataset_open(&set, "fashion-mnist", LS_SPLIT_TRAIN, .path = in(dir, "env/mnist")),
                 "env/mnist", "correct the path");
    remove_tree(dir);
}

static char warned[4096], hinted[4096];
static void keep_warning(void *context, ls_level level, const char *message)
{
    (void)context;
    if (level == LS_WARN)
        snprintf(warned, sizeof warned, "%s", message);
    if (level == LS_INFO)
        snprintf(hinted + strlen(hinted), sizeof hinted - strlen(hinted), "%s\n", message);
}

static void test_fallback_is_said(void **state)
{
    (void)state;
    char *dir = make_folder();
    ls_dataset *set;
    ls_log_set(keep_warning, NULL, LS_INFO);
    assert_ok(ls_dataset_open(&set, "mnist", LS_SPLIT_EVAL, OFFLINE));
    assert_true(set->builtin);
    assert_string_equal(set->name, "shapes");
    assert_int_equal(set->n, 10000);
    /* every result shows it: the reason is not in it */
    assert_string_equal(set->source, "built-in shapes (mnist was not found)");
    assert_string_equal(
        warned, "mnist was not found: using the BUILT-IN shapes, whose results say nothing about mnist");
    assert_non_null(strstr(hinted, "/nonexistent/mirror"));
    assert_non_null(strstr(hinted, "put train-images-idx3-ubyte.gz, "));
    assert_non_null(strstr(hinted, "LOCKSTEP_DATA or as the path"));
    ls_dataset_close(&set);

    /* Without a download too, the second split says nothing more. */
    for (int split = 0; split < 2; split++) {
        *warned = *hinted = 0;
        assert_ok(ls_dataset_open(&set, "mnist", split ? LS_SPLIT_EVAL : LS_SPLIT_TRAIN, .download = false));
        assert_int_equal(*warned != 0, split == 0);
        assert_int_equal(*hinted != 0, split == 0);
        ls_dataset_close(&set);
    }

    /* The other split is the built-in one too, without a second attempt or warning, even if the mirror has
     * come up meanwhile. */
    char mirror[600];
    snprintf(mirror, sizeof mirror, "file://%s/mirror", dir);
    assert_ok(ls_dataset_open(&set, "mnist", LS_SPLIT_TRAIN, .mirror = mirror));
    assert_true(set->builtin);
    ls_dataset_close(&set);
    write_set(in(dir, "mirror"), 3, 3, 4, 4, 10, true);
    *warned = 0;
    ls_log_set(keep_warning, NULL, LS_WARN);
    assert_ok(ls_dataset_open(&set, "mnist", LS_SPLIT_EVAL, .mirror = mirror));
    ls_log_set(NULL, NULL, LS_ERROR);
    assert_true(set->builtin);
    assert_string_equal(warned, "");
    ls_dataset_close(&set);
    assert_fails(LS_E_IO, ls_dataset_open(&set, "mnist", LS_SPLIT_EVAL, .mirror = mirror, .fallback = false),
                 "/mirror/train-images", "name their folder here");
    assert_null(strstr(ls_error_message(), "SHA-256")); /* which is what a second attempt would say */
    assert_fails(LS_E_IO, ls_dataset_open(&set, "mnist", LS_SPLIT_EVAL, OFFLINE, .fallback = false),
                 "LOCKSTEP_DATA (not set)", "name their folder here");
    assert_fails(LS_E_IO, ls_dataset_open(&set, "mnist", LS_SPLIT_EVAL, .download = false, .fallback = false),
                 "neither in LOCKSTEP_DATA", "cache");
    /* a path that is wrong is an error, never the built-in set */
    assert_fails(LS_E_USAGE, ls_dataset_open(&set, "mnist", LS_SPLIT_EVAL, .path = in(dir, "absent")),
                 "absent", "no such folder");
    assert_ok(ls_make_dirs(in(dir, "empty")));
    assert_fails(LS_E_USAGE, ls_dataset_open(&set, "mnist", LS_SPLIT_EVAL, .path = in(dir, "empty")), "empty",
                 "train-images-idx3-ubyte.gz");
    assert_null(set);
    remove_tree(dir);
}

static void test_missing_and_mismatched(void **state)
{
    (void)state;
    char *dir = make_folder();
    ls_dataset *set;
    const char *mine = in(dir, "mnist");
    write_set(mine, 8, 4, 4, 4, 10, false);
    remove(in(mine, "t10k-labels-idx1-ubyte"));
    assert_fails(LS_E_IO, ls_dataset_open(&set, "mnist", LS_SPLIT_EVAL, .path = mine),
                 "t10k-labels-idx1-ubyte.gz", "missing");
    assert_ok(ls_dataset_open(&set, "mnist", LS_SPLIT_TRAIN, .path = mine));
    ls_dataset_close(&set);
    rename(in(mine, "train-labels-idx1-ubyte"), in(mine, "t10k-labels-idx1-ubyte"));
    assert_fails(LS_E_FORMAT, ls_dataset_open(&set, "mnist", LS_SPLIT_EVAL, .path = mine), "8 labels",
                 "4 images");

    uint32_t dims[3] = { 6, 4, 4 };
    uint8_t labels[6] = { 0, 1, 2, 11, 3, 4 };
    bytes images = make_idx(3, dims, NULL), lab = make_idx(1, dims, labels);
    write_bytes(in(dir, "i"), images);
    write_bytes(in(dir, "l"), lab);
    const uint32_t oblong[] = { 6, 3, 4 };
    bytes third = make_idx(3, oblong, NULL);
    write_bytes(in(dir, "oblong"), third);
    assert_fails(LS_E_FORMAT,
                 ls_dataset_open(&set, "idx", LS_SPLIT_TRAIN, .images = in(dir, "i"), .labels = in(dir, "l"),
                                 .classes = 10),
                 "label 11 of sample 3 (offset 11)", "classes: 10");
    assert_ok(ls_dataset_open(&set, "idx", LS_SPLIT_TRAIN, .images = in(dir, "i"), .labels = in(dir, "l")));
    assert_int_equal(set->fields[1].below, 12);
    assert_string_equal(set->fields[1].names[11], "11");
    assert_fails(LS_E_SHAPE, ls_dataset_check(set, 1, 28, 28, 12), "1 x 4 x 4", "image_size must be 4");
    assert_fails(LS_E_SHAPE, ls_dataset_check(set, 3, 4, 4, 12), "3 x 4 x 4", "in_channels 1");
    assert_fails(LS_E_SHAPE, ls_dataset_check(set, 1, 4, 4, 10), "12 classes", "set it to 12");
    assert_ok(ls_dataset_check(set, 1, 4, 4, 1000));
    ls_dataset_close(&set);
    assert_ok(
        ls_dataset_open(&set, "idx", LS_SPLIT_TRAIN, .images = in(dir, "oblong"), .labels = in(dir, "l")));
    assert_fails(LS_E_SHAPE, ls_dataset_check(set, 1, 4, 4, 12), "images of 3 x 4", "crop or pad");
    ls_dataset_close(&set);
    assert_fails(LS_E_FORMAT,
                 ls_dataset_open(&set, "idx", LS_SPLIT_TRAIN, .images = in(dir, "l"), .labels = in(dir, "i")),
                 "swapped", "l:");
    assert_fails(LS_E_USAGE, ls_dataset_open(&set, "idx", LS_SPLIT_TRAIN, .images = in(dir, "i")),
                 "two files", "training");
    assert_fails(LS_E_USAGE, ls_dataset_open(&set, "fashon-mnist", LS_SPLIT_TRAIN),
                 "unknown type of data fashon-mnist", "did you mean fashion-mnist?");
    assert_fails(LS_E_SHAPE, ls_dataset_open(&set, "shapes", LS_SPLIT_TRAIN, .classes = 4), "10 classes",
                 "set it to 10");
    assert_fails(LS_E_SHAPE, ls_dataset_open(&set, "shapes", LS_SPLIT_TRAIN, .classes = 300), "300 classes",
                 "256");
    free_bytes(&images);
    free_bytes(&lab);
    free_bytes(&third);
    remove_tree(dir);
}

static void test_sizes(void **state)
{
    (void)state;
    int64_t train, eval;
    int c, h, w, k;
    assert_true(ls_dataset_sizes("fashion-mnist", &train, &eval, &c, &h, &w, &k));
    assert_int_equal(train, 60000);
    assert_int_equal(eval, 10000);
    assert_int_equal(c * h * w * k, 28 * 28 * 10);
    assert_true(ls_dataset_sizes("shapes", &train, &eval, &c, &h, &w, &k));
    assert_false(ls_dataset_sizes("idx", &train, &eval, &c, &h, &w, &k));
    assert_true(ls_dataset_type_known("mnist") && ls_dataset_type_known("idx") &&
                !ls_dataset_type_known("imagenet"));
}

/* The real set: counts and first labels as published, and our table's sizes and hashes are those of the
 * published files. */
static void test_real_fashion_mnist(void **state)
{
    (void)state;
    const char *root = ls_test_data("fashion-mnist");
    char *dir = make_folder();
    setenv("LOCKSTEP_DATA", root, 1);
    ls_dataset *set;
    for (int split = 0; split < 2; split++) {
        assert_ok(ls_dataset_open(&set, "fashion-mnist", split, .download = false, .fallback = false));
        assert_int_equal(set->n, split ? 10000 : 60000);
        assert_int_equal(ls_type_bytes(&set->fields[0].type), 784);
        int count[10] = { 0 };
        uint8_t image[784];
        int32_t label, first[5];
        uint64_t sum = 0;
        for (int64_t i = 0; i < set->n; i++) {
            assert_ok(set->read(set, i, (void *const[]){ image, &label }));
            count[label]++;
            if (i < 5)
                first[i] = label;
            for (int p = 0; p < 784; p += 97)
                sum += image[p];
        }
        for (int k = 0; k < 10; k++)
            assert_int_equal(count[k], set->n / 10);
        static const int32_t EXPECT[2][5] = { { 9, 0, 0, 3, 0 }, { 9, 2, 1, 1, 6 } };
        assert_memory_equal(first, EXPECT[split], sizeof first);
        assert_true(sum > 0);
        ls_dataset_close(&set);
    }
    const ls_known *k = ls_known_find("fashion-mnist");
    for (int i = 0; i < LS_KNOWN_FILES; i++) {
        const char *path = in(in(root, "fashion-mnist"), k->files[i].name);
        ls_mapping m;
        if (!ls_file_exists(path)) /* inflated there */
            continue;
        ls_sha sha;
        char hex[65];
        assert_ok(ls_file_map(&m, path));
        ls_sha256_init(&sha);
        ls_sha_add(&sha, m.data, m.size);
        ls_sha_hex(&sha, hex);
        assert_int_equal(m.size, k->files[i].bytes);
        assert_string_equal(hex, k->files[i].sha256);
        ls_file_unmap(&m);
    }
    unsetenv("LOCKSTEP_DATA");
    remove_tree(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path_and_gzip),
        cmocka_unit_test(test_search),
        cmocka_unit_test(test_fallback_is_said),
        cmocka_unit_test(test_missing_and_mismatched),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_real_fashion_mnist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
