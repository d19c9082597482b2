/* test_arrays.c - arrays in files as a data set: every type of element, rows that are read as they are asked
 * for, and messages with file, row and element. */
#include <math.h>

#include "files.h"

#include "base/json.h"
#include "data/arrays.h"
#include "data/npy.h"

#define BERT LS_TEST_SOURCE_DIR "/tests/golden/bert/"

static char *dir;

#define ARRAY(name, path, type)                       \
    {                                                 \
        .field = (name), .file = (path), .as = (type) \
    }

/* DIR/NAME with n bytes of elements of this type. */
static const char *save(const char *name, ls_type type, const void *data)
{
    ls_str text = { 0 };
    assert_ok(ls_npy_header(&text, &type));
    ls_str_add_n(&text, data, ls_type_bytes(&type));
    const char *path = in(dir, name);
    write_bytes(path, (bytes){ (uint8_t *)text.data, text.len });
    ls_str_release(&text);
    return path;
}

static ls_status open_set(ls_dataset **set, int n, const ls_array_field *arrays)
{
    return ls_arrays_open(set, LS_SPLIT_TRAIN, n, arrays);
}

/* ---- what is read */

static void every_type_is_converted(void **state)
{
    (void)state;
    const float f32[] = { 1.5f, -2, 3, 4 };
    const double f64[] = { 0.1, -2, 3, 4 };
    const uint16_t f16[] = { 0x3c00, 0xc000, 0x0001, 0x7bff }; /* 1, -2, 2^-24, 65504 */
    const int32_t i32[] = { 7, -8, 9, 10 };
    const int64_t i64[] = { 7, -8, 1 << 30, 10 };
    const uint8_t u8[] = { 0, 1, 255, 3 };
    const struct {
        ls_dtype type;
        const void *data;
        double want[4];
    } CASES[] = { { LS_F32, f32, { 1.5, -2, 3, 4 } },         { LS_F64, f64, { 0.1, -2, 3, 4 } },
                  { LS_F16, f16, { 1, -2, 0x1p-24, 65504 } }, { LS_I32, i32, { 7, -8, 9, 10 } },
                  { LS_I64, i64, { 7, -8, 1 << 30, 10 } },    { LS_U8, u8, { 0, 1, 255, 3 } } };
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        ls_dataset *set;
        const char *path = save("a.npy", LS_TYPE(CASES[k].type, 2, 2), CASES[k].data);
        const bool whole = CASES[k].type >= LS_I32;
        const ls_array_field all[] = { ARRAY("single", path, LS_F32), ARRAY("wide", path, LS_F64),
                                       ARRAY("id", path, LS_I32) };
        assert_ok(open_set(&set, 2 + whole, all));
        assert_int_equal(set->n, 2);
        assert_int_equal(set->fields[0].type.ndim, 1);
        assert_int_equal(set->fields[0].type.dims[0], 2);
        for (int i = 0; i < 2; i++) {
            float single[2];
            double wide[2];
            int32_t id[2] = { 0 };
            assert_ok(set->read(set, i, (void *[]){ single, wide, id }));
            for (int e = 0; e < 2; e++) {
                assert_true(wide[e] == CASES[k].want[2 * i + e]);
                assert_true(single[e] == (float)wide[e]);
                assert_true(!whole || id[e] == (int32_t)wide[e]);
            }
        }
        ls_dataset_close(&set);
    }
}

/* Integers of 64 and of 8 bits stay what they are, also beyond what f64 has exactly. */
static void integers_keep_their_type(void **state)
{
    (void)state;
    const int64_t i64[] = { INT64_MIN, (1LL << 53) + 1, 255, 256 };
    int64_t wide[2];
    uint8_t small[2];
    ls_dataset *set;
    const char *path = save("i.npy", LS_TYPE(LS_I64, 2, 2), i64);
    const ls_array_field fields[] = { ARRAY("w", path, LS_I64), ARRAY("s", path, LS_U8),
                                      ARRAY("i", path, LS_I32) };
    assert_ok(open_set(&set, 3, fields));
    for (int i = 0; i < 2; i++) {
        assert_ok(set->read(set, i, (void *[]){ wide, NULL, NULL }));
        assert_true(wide[0] == i64[2 * i] && wide[1] == i64[2 * i + 1]);
    }
    assert_fails(LS_E_FORMAT, set->read(set, 1, (void *[]){ NULL, small, NULL }), "row 1: s[1] is 256",
                 "integer from 0 to 255");
    assert_int_equal(small[0], 255);
    assert_fails(LS_E_FORMAT, set->read(set, 0, (void *[]){ NULL, NULL, small }),
                 "row 0: i[0] is -9223372036854775808", "not an integer of 32 bits");
    ls_dataset_close(&set);
    const char *text = in(dir, "i.csv");
    write_bytes(text, (bytes){ (uint8_t *)(uintptr_t) "w\n9007199254740992\n9007199254740994\n1.5\n\n", 41 });
    assert_ok(open_set(&set, 1, (ls_array_field[]){ ARRAY("w", text, LS_I64) }));
    assert_ok(set->read(set, 0, (void *[]){ wide }));
    assert_true(wide[0] == 1LL << 53);
    assert_fails(LS_E_FORMAT, set->read(set, 1, (void *[]){ wide }), "w is 9007199254740994",
                 "known exactly");
    assert_fails(LS_E_FORMAT, set->read(set, 2, (void *[]){ wide }), "w is 1.5", "not an integer");
    ls_dataset_close(&set);
}

static void fields_may_be_left_out(void **state)
{
    (void)state;
    ls_dataset *set;
    const float x[] = { 1, NAN, 3 };
    float one = 0;
    const char *path = save("x.npy", LS_TYPE(LS_F32, 3), x);
    assert_ok(open_set(&set, 2, (ls_array_field[]){ ARRAY("x", path, LS_F32), ARRAY("y", path, LS_F32) }));
    assert_int_equal(set->fields[1].type.ndim, 0);
    assert_ok(set->read(set, 1, (void *[]){ NULL, NULL })); /* nobody asks for the NaN */
    assert_ok(set->read(set, 2, (void *[]){ NULL, &one }));
    assert_true(one == 3);
    assert_true(set->digest != 0);
    ls_dataset_close(&set);
}

/* tests/golden/bert: what transformers' tokenizer makes of each pair, for several lengths. */
static void pairs_of_texts_have_the_ids_of_transformers(void **state)
{
    (void)state;
    json_t *root = json_load_file(BERT "pairs.json", 0, NULL);
    const json_t *all = json_object_get(root, "pairs");
    assert_int_equal(json_array_size(all), 4);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i), *ids = json_object_get(one, "ids"),
                     *types = json_object_get(one, "types");
        const int64_t n = json_integer_value(json_object_get(one, "tokens"));
        ls_dataset *set;
        assert_ok(open_set(&set, 1,
                           (ls_array_field[]){ { .field = "pair",
                                                 .file = BERT "pairs.csv:query,passage",
                                                 .as = LS_I32,
                                                 .tokenizer = BERT "tokenizer.json",
                                                 .tokens = n } }));
        assert_true(ls_type_equal(&set->fields[0].type, &LS_TYPE(LS_I32, 2, n)));
        for (size_t row = 0; row < 8; row++) {
            int32_t have[2][20];
            assert_ok(set->read(set, (int64_t)row, (void *[]){ have }));
            for (size_t k = 0; k < (size_t)n; k++) {
                const json_t *id = json_array_get(json_array_get(ids, row), k),
                             *type = json_array_get(json_array_get(types, row), k);
                assert_int_equal(((int32_t *)have)[k], json_integer_value(id));
                assert_int_equal(((int32_t *)have)[(size_t)n + k], json_integer_value(type));
            }
        }
        ls_dataset_close(&set);
    }
    json_decref(root);
}

static void missing_numbers_have_a_mask(void **state)
{
    (void)state;
    ls_dataset *set;
    const double x[] = { 1, NAN, 3, 4 };
    float value[2], valid[2];
    const char *path = save("x.npy", LS_TYPE(LS_F64, 2, 2), x);
    assert_ok(open_set(&set, 1,
                       (ls_array_field[]){ { .field = "x", .file = path, .as = LS_F32, .missing = true } }));
    assert_int_equal(set->n_fields, 2);
    assert_string_equal(set->fields[1].name, "x.valid");
    assert_ok(set->read(set, 0, (void *[]){ value, valid }));
    assert_true(value[0] == 1 && value[1] == 0 && valid[0] == 1 && valid[1] == 0);
    ls_dataset_close(&set);
}

static void labels_are_counted(void **state)
{
    (void)state;
    ls_dataset *set;
    const int64_t c[] = { 0, -100, 2, 1 };
    const char *path = save("c.npy", LS_TYPE(LS_I64, 2, 2), c);
    assert_ok(open_set(
        &set, 1,
        (ls_array_field[]){ { .field = "c", .file = path, .as = LS_I32, .below = 3, .ignorable = true } }));
    assert_int_equal(set->count(set, 0, 0), 1);
    assert_int_equal(set->count(set, 1, 0), 2);
    ls_dataset_close(&set);
}

/* ---- what is refused */

static void wrong_numbers_are_named(void **state)
{
    (void)state;
    const double bad[] = { NAN, INFINITY, 1e300, -1, 1.5 };
    const int64_t labels[] = { 1LL << 40, 3, -100, -1 };
    const struct {
        ls_type type;
        const void *data;
        ls_array_field as;
        int row;
        const char *place, *why;
    } CASES[] = {
        { LS_TYPE(LS_F64, 1, 5), bad, { .as = LS_F32 }, 0, "row 0: x[0] is NaN", "leave its row out" },
        { LS_TYPE(LS_F64, 4, 1), bad + 1, { .as = LS_F32 }, 0, "row 0: x[0] is infinite", "x.npy" },
        { LS_TYPE(LS_F64, 3), bad + 2, { .as = LS_F32 }, 0, "row 0: x is beyond f32", "x.npy" },
        { LS_TYPE(LS_F64, 2),
          bad + 3,
          { .as = LS_F32, .range = LS_ARRAY_FROM_0 },
          0,
          "x is negative",
          "weights" },
        { LS_TYPE(LS_F64, 2),
          bad + 3,
          { .as = LS_F32, .range = LS_ARRAY_0_TO_1 },
          1,
          "row 1: x is above 1",
          "bce" },
        { LS_TYPE(LS_I64, 4),
          labels,
          { .as = LS_I32 },
          0,
          "x is 1099511627776",
          "not an integer of 32 bits" },
        { LS_TYPE(LS_I64, 2, 2), labels, { .as = LS_I32, .below = 3 }, 1, "row 1: x[0] is -100", "0 to 2" },
        { LS_TYPE(LS_I64, 4),
          labels,
          { .as = LS_I32, .below = 3, .ignorable = true },
          1,
          "row 1: x is 3",
          "-100" },
        { LS_TYPE(LS_I64, 4),
          labels,
          { .as = LS_I32, .below = 3, .ignorable = true },
          3,
          "row 3: x is -1",
          "" },
    };
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        ls_dataset *set;
        double room[8];
        ls_array_field as = CASES[k].as;
        as.field = "x";
        as.file = save("x.npy", CASES[k].type, CASES[k].data);
        assert_ok(open_set(&set, 1, &as));
        assert_fails(LS_E_FORMAT, set->read(set, CASES[k].row, (void *[]){ room }), CASES[k].place,
                     CASES[k].why);
        ls_dataset_close(&set);
    }
    static const struct {
        ls_array_range range;
        double x;
    } FITS[] = {
        { LS_ARRAY_0_TO_1, 0 }, { LS_ARRAY_0_TO_1, 1 }, { LS_ARRAY_FROM_0, 0 }, { LS_ARRAY_FROM_0, 2 }
    };
    for (size_t k = 0; k < sizeof FITS / sizeof *FITS; k++) { /* the ends of a range belong to it */
        ls_dataset *ends;
        float x = -1;
        const ls_array_field as = { .field = "x",
                                    .file = save("x.npy", LS_TYPE(LS_F64, 1), &FITS[k].x),
                                    .as = LS_F32,
                                    .range = FITS[k].range };
        assert_ok(open_set(&ends, 1, &as));
        assert_ok(ends->read(ends, 0, (void *[]){ &x }));
        assert_true((double)x == FITS[k].x);
        ls_dataset_close(&ends);
    }
    ls_dataset *set; /* 1e300 is a number of f64, and -100 one of i32 */
    double wide[3];
    int32_t id;
    assert_ok(open_set(&set, 1,
                       (ls_array_field[]){ ARRAY("x", save("x.npy", LS_TYPE(LS_F64, 3), bad + 2), LS_F64) }));
    assert_ok(set->read(set, 0, (void *[]){ wide }));
    ls_dataset_close(&set);
    assert_ok(open_set(&set, 1,
                       (ls_array_field[]){ ARRAY("x", save("x.npy", LS_TYPE(LS_I64, 4), labels), LS_I32) }));
    assert_ok(set->read(set, 2, (void *[]){ &id }));
    assert_int_equal(id, -100);
    ls_dataset_close(&set);
}

static void wrong_files_are_named(void **state)
{
    (void)state;
    ls_dataset *set = NULL;
    const float data[12] = { 0 };
    const char *x = save("x.npy", LS_TYPE(LS_F32, 4, 3), data), *y = save("y.npy", LS_TYPE(LS_F32, 3), data),
               *one = save("one.npy", LS_SCALAR(LS_F32), data),
               *none = save("none.npy", LS_TYPE(LS_F32, 0, 3), data);
    assert_fails(LS_E_USAGE,
                 open_set(&set, 2, (ls_array_field[]){ ARRAY("x", x, LS_F32), ARRAY("y", y, LS_F32) }),
                 "y.npy has 3 rows", "x.npy 4");
    assert_fails(LS_E_USAGE,
                 open_set(&set, 2, (ls_array_field[]){ ARRAY("x", x, LS_F32), ARRAY("x", x, LS_F32) }),
                 "\"x\"", "twice");
    assert_fails(LS_E_USAGE, open_set(&set, 1, (ls_array_field[]){ ARRAY("a.b", x, LS_F32) }), "a.b",
                 "letters");
    assert_fails(LS_E_USAGE, open_set(&set, 1, (ls_array_field[]){ ARRAY("x", x, LS_BF16) }), "bf16",
                 "f32, f64, i32, i64 or u8");
    assert_fails(
        LS_E_USAGE,
        open_set(&set, 1, (ls_array_field[]){ { .field = "x", .file = x, .as = LS_I32, .missing = true } }),
        "\"x\"", "can have missing numbers");
    assert_fails(LS_E_SHAPE, open_set(&set, 1, (ls_array_field[]){ ARRAY("x", one, LS_F32) }), "one.npy",
                 "[samples, ..]");
    assert_fails(LS_E_SHAPE, open_set(&set, 1, (ls_array_field[]){ ARRAY("x", none, LS_F32) }), "none.npy",
                 "there are none");
    const char *empty = save("empty.npy", LS_TYPE(LS_F32, 2, 0), NULL);
    assert_fails(LS_E_SHAPE, open_set(&set, 1, (ls_array_field[]){ ARRAY("x", empty, LS_F32) }), "empty.npy",
                 "its samples have no elements");
    assert_fails(LS_E_SHAPE, open_set(&set, 1, (ls_array_field[]){ ARRAY("c", x, LS_I32) }),
                 "must be integers", "astype");
    assert_fails(LS_E_USAGE, open_set(&set, 1, (ls_array_field[]){ ARRAY("x", "nowhere.npy", LS_F32) }),
                 "nowhere.npy", "no such file");
    assert_fails(LS_E_USAGE, open_set(&set, 1, (ls_array_field[]){ ARRAY("x", dir, LS_F32) }), dir, "x");
    assert_fails(LS_E_USAGE, open_set(&set, 0, (ls_array_field[]){ { 0 } }), "0 arrays", "at least one");
    assert_null(set);
}

static int set_up(void **state)
{
    (void)state;
    dir = make_folder();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_tree(dir);
    return 0;
}

/* ---- rows that are held out */

/* Marks the rows of both splits in `split` [n]: 1 training, 2 evaluation. */
static void split_rows(int n, int classes, double fraction, char *split)
{
    int32_t rows[400], kinds[400];
    for (int i = 0; i < n; i++) {
        rows[i] = i;
        kinds[i] = i % 10 ? 0 : classes - 1;
    }
    const char *x = strdup(save("x.npy", LS_TYPE(LS_I32, n), rows)),
               *y = save("y.npy", LS_TYPE(LS_I32, n), kinds);
    const ls_array_field fields[] = { ARRAY("x", x, LS_I32),
                                      { .field = "y", .file = y, .as = LS_I32, .below = classes } };
    uint64_t digests[2];
    memset(split, 0, (size_t)n);
    for (int s = 0; s < 2; s++) {
        ls_dataset *set;
        assert_ok(ls_arrays_split(&set, (ls_split)s, fraction, 2, fields));
        digests[s] = set->digest;
        for (int i = 0, last = -1, row, kind; i < set->n; i++, last = row) {
            assert_ok(set->read(set, i, (void *[]){ &row, &kind }));
            assert_int_equal(kind, kinds[row]);
            assert_int_equal(ls_arrays_row(set, i), row);
            assert_true(row > last && !split[row]);
            split[row] = (char)(1 + s);
        }
        ls_dataset_close(&set);
    }
    assert_true(digests[0] != digests[1]);
    free((char *)(uintptr_t)x);
}

static void rows_are_held_out_by_class(void **state)
{
    (void)state;
    char split[400], more[400];
    split_rows(200, 2, 0.1, split);
    int n[2] = { 0 };
    for (int i = 0; i < 200; i++) {
        assert_true(split[i]);
        n[i % 10 == 0] += split[i] == 2;
    }
    assert_int_equal(n[0], 18);
    assert_int_equal(n[1], 2);
    split_rows(220, 2, 0.1, more); /* rows that are added move few of the others */
    int moved = 0;
    for (int i = 0; i < 200; i++)
        moved += split[i] != more[i];
    assert_true(moved <= 4);
    split_rows(2, 1, 0.01, split); /* one at least, and not all */
    assert_int_equal(split[0] + split[1], 3);
}

static void one_row_is_not_divided(void **state)
{
    (void)state;
    ls_dataset *set = NULL;
    const float x[] = { 1 };
    const ls_array_field one = ARRAY("x", save("x.npy", LS_TYPE(LS_F32, 1), x), LS_F32);
    assert_fails(LS_E_USAGE, ls_arrays_split(&set, LS_SPLIT_TRAIN, 0.5, 1, &one), "eval_fraction",
                 "x.npy has no class of two samples");
    assert_fails(LS_E_ARG, ls_arrays_split(&set, LS_SPLIT_TRAIN, 1, 1, &one), "eval_fraction",
                 "not between 0 and 1");
    assert_null(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(integers_keep_their_type),
                                        cmocka_unit_test(every_type_is_converted),
                                        cmocka_unit_test(fields_may_be_left_out),
                                        cmocka_unit_test(missing_numbers_have_a_mask),
                                        cmocka_unit_test(labels_are_counted),
                                        cmocka_unit_test(wrong_numbers_are_named),
                                        cmocka_unit_test(wrong_files_are_named),
                                        cmocka_unit_test(rows_are_held_out_by_class),
                                        cmocka_unit_test(one_row_is_not_divided),
                                        cmocka_unit_test(pairs_of_texts_have_the_ids_of_transformers) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
