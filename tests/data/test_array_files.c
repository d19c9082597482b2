/* test_array_files.c - columns of CSV and arrays of .npz as fields, and what is refused. */
#include <math.h>
#include <zlib.h>

#include "files.h"

#include "data/array_csv.h"
#include "data/array_file.h"
#include "data/array_hdf5.h"
#include "data/array_room.h"
#include "data/npy.h"
#include "support/support.h"

static char *dir;

static ls_status numbers(double **out, int64_t *rows, const char *text, int n, const char *const *names)
{
    return ls_csv_numbers(out, rows, text, strlen(text), n, names, "a.csv");
}

static void columns_are_read_by_name(void **state)
{
    (void)state;
    static const char *const BOTH[] = { "b", "a" };
    double *x;
    int64_t rows;
    assert_ok(numbers(&x, &rows, "a,\"no, not\",b\n1,x,2\n\n -3e2 ,\"\"\"\",NA\n5,,\"7\"\n", 2, BOTH));
    assert_int_equal(rows, 3);
    assert_true(x[0] == 2 && x[1] == 1 && isnan(x[2]) && x[3] == -300 && x[4] == 7 && x[5] == 5);
    free(x);
    assert_ok(numbers(&x, &rows, "a,b\n", 2, BOTH));
    assert_int_equal(rows, 0);
    free(x);
    /* of one column an empty line is a missing number, but not at the end */
    assert_ok(numbers(&x, &rows, "b\n1\n\n2\n\n\n", 1, BOTH));
    assert_int_equal(rows, 3);
    assert_true(x[0] == 1 && isnan(x[1]) && x[2] == 2);
    free(x);
    /* truth values are numbers, of classes they are names */
    assert_ok(numbers(&x, &rows, "b\nTrue\nfalse\n TRUE\nFalse \n", 1, BOTH));
    assert_true(rows == 4 && x[0] == 1 && x[1] == 0 && x[2] == 1 && x[3] == 0);
    free(x);
    char *classes;
    assert_ok(ls_csv_classes(&classes, "b\nTrue\nFalse\n", 13, "b", false, "a.csv"));
    assert_string_equal(classes, "False,True");
    free(classes);
}

static void wrong_tables_are_named(void **state)
{
    (void)state;
    static const char *const AB[] = { "a", "b" }, *const AA[] = { "a", "a" };
    double *x;
    int64_t rows;
    assert_fails(LS_E_FORMAT, numbers(&x, &rows, "a,b\n1,2\n1,2x\n", 2, AB), "a.csv line 3",
                 "column \"b\": \"2x\" is not a number; replace texts by numbers, or leave the column out");
    assert_fails(LS_E_FORMAT, numbers(&x, &rows, "a,b\n0x1,2\n", 2, AB), "line 2", "\"0x1\"");
    assert_fails(LS_E_FORMAT, numbers(&x, &rows, "a,b\n1\n", 2, AB), "line 2", "fewer fields than the 2");
    assert_fails(LS_E_FORMAT, numbers(&x, &rows, "a,b\n1,2,3\n", 2, AB), "line 2", "more fields than the 2");
    assert_fails(LS_E_FORMAT, numbers(&x, &rows, "a,b\n\"1,2\n", 2, AB), "line 2", "quote");
    assert_fails(LS_E_FORMAT, numbers(&x, &rows, "", 2, AB), "a.csv", "empty");
    assert_fails(LS_E_USAGE, numbers(&x, &rows, "a,bb\n", 2, AB), "no column \"b\"", "is it \"bb\"");
    assert_fails(LS_E_USAGE, numbers(&x, &rows, "a,b\n", 2, AA), "\"a\"", "twice");
    assert_null(x);
    /* tables of other programs: what separates, and decimal commas */
    assert_fails(LS_E_FORMAT, numbers(&x, &rows, "a;b\n1,5;2\n", 2, AB), "a.csv line 1: semicolons separate",
                 "decimal=','");
    assert_fails(LS_E_FORMAT, numbers(&x, &rows, "a\tb\n1\t2\n", 2, AB), "a.csv line 1: tabs separate", "");
    assert_fails(LS_E_FORMAT, numbers(&x, &rows, "a,b\n\"1,5\",2\n", 2, AB),
                 "line 2, column \"a\": \"1,5\" is not a number", "write decimals with a point");
    assert_fails(LS_E_FORMAT, numbers(&x, &rows, "a,b\n1,5,2,5\n", 2, AB), "more fields than the 2",
                 "decimal commas");
    double *none;
    assert_fails(LS_E_FORMAT, ls_csv_numbers(&none, &rows, "a,b\n1\0,2\n", 9, 2, AB, "a.csv"), "a.csv line 2",
                 "a byte 0");
    assert_ok(numbers(&x, &rows, "a;b\n1\n", 1, (const char *const[]){ "a;b" })); /* a name like any */
    free(x);
}

#define ARRAY(name, path, type)                       \
    {                                                 \
        .field = (name), .file = (path), .as = (type) \
    }

/* x: f32 [3, 2] of 0, 1, ... 5; c: i64 [3] of 1, 0, 2 */
static void archives_have_arrays(void **state)
{
    (void)state;
    static const char *const FILES[] = { "stored", "deflated" };
    for (int k = 0; k < 2; k++) {
        char path[400], named[512];
        ls_dataset *set = NULL;
        float x[2];
        int32_t c;
        snprintf(path, sizeof path, LS_TEST_SOURCE_DIR "/tests/fuzz/corpus/npz/%s.npz", FILES[k]);
        snprintf(named, sizeof named, "%s:c", path);
        assert_ok(
            ls_arrays_open(&set, LS_SPLIT_TRAIN, 2,
                           (ls_array_field[]){ ARRAY("x", path, LS_F32), ARRAY("label", named, LS_I32) }));
        assert_ok(set->read(set, 2, (void *[]){ x, &c }));
        assert_true(x[0] == 4 && x[1] == 5 && c == 2);
        ls_dataset_close(&set);
        assert_fails(LS_E_USAGE,
                     ls_arrays_open(&set, LS_SPLIT_TRAIN, 1, (ls_array_field[]){ ARRAY("y", path, LS_F32) }),
                     "no array \"y\"", "its first one is \"x\"");
    }
}

static void a_table_is_a_data_set(void **state)
{
    (void)state;
    static const char TEXT[] = "id,a,b\r\n3,1.5,2\r\n4,2.5,\r\n";
    char all[512], one[512], id[512];
    ls_dataset *set;
    float x[2], y;
    int32_t label;
    const char *path = in(dir, "t.csv");
    write_bytes(path, (bytes){ (uint8_t *)(uintptr_t)TEXT, sizeof TEXT - 1 });
    snprintf(all, sizeof all, "%s:a,b", path);
    snprintf(one, sizeof one, "%s:a", path);
    snprintf(id, sizeof id, "%s:id", path);
    assert_ok(ls_arrays_open(
        &set, LS_SPLIT_TRAIN, 3,
        (ls_array_field[]){ ARRAY("x", all, LS_F32), ARRAY("y", one, LS_F32), ARRAY("label", id, LS_I32) }));
    assert_int_equal(set->fields[0].type.ndim, 1);
    assert_int_equal(set->fields[1].type.ndim, 0);
    assert_ok(set->read(set, 0, (void *[]){ x, &y, &label }));
    assert_true(x[0] == 1.5f && x[1] == 2 && y == 1.5f && label == 3);
    assert_fails(LS_E_FORMAT, set->read(set, 1, (void *[]){ x, &y, &label }), "t.csv row 1",
                 "x[1] (column \"b\") is NaN");
    ls_dataset_close(&set);
    assert_ok(ls_arrays_open(&set, LS_SPLIT_TRAIN, 1, (ls_array_field[]){ ARRAY("label", one, LS_I32) }));
    assert_fails(LS_E_FORMAT, set->read(set, 0, (void *[]){ &label }), "label (column \"a\") is 1.5",
                 "not an integer");
    ls_dataset_close(&set);
}

static void put_number(uint8_t **at, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        *(*at)++ = (uint8_t)(i < 8 ? v >> 8 * i : 0);
}

/* An archive of one deflated entry. */
static void write_npz(const char *path, const char *name, bytes entry)
{
    const size_t length = strlen(name);
    uint8_t *all = calloc(1, compressBound(entry.size) + 200), *at = all + 30 + length;
    z_stream z = { .next_in = entry.data, .avail_in = (uInt)entry.size, .next_out = at };
    z.avail_out = (uInt)compressBound(entry.size);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    at += z.total_out;
    uint8_t *directory = at;
    for (int central = 0; central < 2; central++) {
        uint8_t **to = central ? &at : &(uint8_t *){ all };
        put_number(to, central ? 0x02014b50 : 0x04034b50, 4);
        put_number(to, 20, central ? 4 : 2);
        put_number(to, 0, 2);
        put_number(to, 8, 2); /* deflated */
        put_number(to, 0, 4);
        put_number(to, crc32_z(0, entry.data, entry.size), 4);
        put_number(to, z.total_out, 4);
        put_number(to, entry.size, 4);
        put_number(to, length, 2);
        put_number(to, 0, central ? 16 : 2);
        memcpy(*to, name, length);
        *to += length;
    }
    const uint64_t size = (uint64_t)(at - directory);
    put_number(&at, 0x06054b50, 4);
    put_number(&at, 0, 4);
    put_number(&at, 0x10001, 4); /* one entry here, one in all */
    put_number(&at, size, 4);
    put_number(&at, (uint64_t)(directory - all), 4);
    put_number(&at, 0, 2);
    write_bytes(path, (bytes){ all, (size_t)(at - all) });
    deflateEnd(&z);
    free(all);
}

/* An entry that says 8 MB, of whose first bytes the shape is smaller: refused before so much is inflated. */
static void archives_do_not_explode(void **state)
{
    (void)state;
    ls_dataset *set;
    ls_str header = { 0 };
    const ls_type type = LS_TYPE(LS_F32, 3);
    bytes all = { calloc(1, 8 << 20), 8 << 20 };
    assert_ok(ls_npy_header(&header, &type));
    memcpy(all.data, ls_str_text(&header), header.len);
    write_npz(in(dir, "bomb.npz"), "x.npy", all);
    write_npz(in(dir, "sound.npz"), "x.npy", (bytes){ all.data, header.len + 12 });
    ls_array_room_most = 1 << 20; /* inflating all of it would be refused for another reason */
    const ls_array_field x = ARRAY("x", in(dir, "bomb.npz"), LS_F32),
                         y = ARRAY("x", in(dir, "sound.npz"), LS_F32);
    const ls_status bomb = ls_arrays_open(&set, LS_SPLIT_TRAIN, 1, &x);
    ls_array_room_most = SIZE_MAX;
    assert_fails(LS_E_FORMAT, bomb, "bomb.npz:x: its shape takes 12 bytes", "8388480 follow the header");
    assert_ok(ls_arrays_open(&set, LS_SPLIT_TRAIN, 1, &y));
    assert_int_equal(set->n, 3);
    ls_dataset_close(&set);
    /* a name as Office files have it */
    write_npz(in(dir, "xl.npz"), "xl/x.npy", (bytes){ all.data, header.len + 12 });
    assert_ok(ls_arrays_open(&set, LS_SPLIT_TRAIN, 1,
                             (ls_array_field[]){ ARRAY("x", in(dir, "xl.npz:xl/x"), LS_F32) }));
    assert_int_equal(set->n, 3);
    ls_dataset_close(&set);
    ls_str_release(&header);
    free_bytes(&all);
}

/* A file of another kind is named by its first bytes, whatever its name is. */
static void other_kinds_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        size_t n;
        ls_status status;
        const char *says;
    } CASES[] = {
        { "t.parquet", "PAR1\x15", 5, LS_E_USAGE, "duckdb -c \"COPY 'FILE' TO 'FILE.csv' (HEADER)\"" },
        { "t.parquet:a", "PAR1\x15", 5, LS_E_USAGE, "this is a Parquet file; write it as CSV" },
        { "t.feather", "ARROW1\0\0", 8, LS_E_USAGE, "this is an Arrow (Feather) file" },
        { "t.csv", "PAR1\x15\xff", 6, LS_E_FORMAT, "it is a Parquet file" },
        { "t.npy", "PAR1\x15\0\0\0\0\0\0\0", 12, LS_E_FORMAT, "it is a Parquet file" },
        { "t.npz", "PAR1", 4, LS_E_FORMAT, "its name ends in .npz, and it is a Parquet file" },
        { "t.npz", "\x93NUMPY", 6, LS_E_FORMAT, "its name must end in .npy" },
        { "t.h5", "CDF\2", 4, LS_E_FORMAT, "NetCDF file of version 3; convert it with nccopy" },
        { "t.xlsx", "PK\3\4..........................[Content_Types].xml", 49, LS_E_USAGE,
          "this is an Office file (.xlsx)" },
        { "t.zip", "PK\3\4......", 10, LS_E_USAGE, "this is a zip archive" },
        { "t.pkl", "\x80\4\x95", 3, LS_E_USAGE, "this is a pickle of Python" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        ls_dataset *set;
        char name[32], path[512];
        snprintf(name, sizeof name, "%s", CASES[i].name);
        snprintf(path, sizeof path, "%s", in(dir, name));
        char *colon = strrchr(name, ':');
        if (colon)
            *colon = 0;
        write_bytes(in(dir, name), (bytes){ (uint8_t *)(uintptr_t)CASES[i].text, CASES[i].n });
        const ls_array_field x = ARRAY("x", path, LS_F32);
        assert_fails(CASES[i].status, ls_arrays_open(&set, LS_SPLIT_TRAIN, 1, &x), name, CASES[i].says);
    }
}

/* Tables and compressed arrays that the machine's memory does not hold. */
static void what_needs_too_much_memory_is_refused(void **state)
{
    (void)state;
    static const char *const AB[] = { "a", "b" };
    static const char DEFLATED[] = LS_TEST_SOURCE_DIR "/tests/fuzz/corpus/npz/deflated.npz";
    double *x;
    int64_t rows;
    ls_dataset *set;
    ls_array_room_most = 47; /* bytes: 3 rows of 2 columns have 48 */
    const ls_status table = numbers(&x, &rows, "a,b\n1,2\n3,4\n5,6\n", 2, AB);
    assert_fails(LS_E_MEMORY, table, "a.csv: its numbers need 48 B", "numpy.save");
    assert_null(x);
    const ls_status archive = ls_arrays_open(&set, LS_SPLIT_TRAIN, 1,
                                             (ls_array_field[]){ ARRAY("x", DEFLATED, LS_F32) });
    assert_fails(LS_E_MEMORY, archive, "deflated.npz", "numpy.save");
    ls_array_room_most = 48;
    const ls_status fits = numbers(&x, &rows, "a,b\n1,2\n3,4\n5,6\n", 2, AB);
    ls_array_room_most = SIZE_MAX;
    assert_ok(fits);
    assert_true(rows == 3 && x[5] == 6);
    free(x);
}

/* tests/golden/arrays.h5, made with libhdf5: x f32 [3, 2] as it lies, z f64 [3] in deflated chunks with a
 * _FillValue, c i16, g/y f32 with the high byte first, u u8, packed numbers, text. */
static void hdf5_has_arrays(void **state)
{
    (void)state;
    static const char FILE[] = LS_TEST_SOURCE_DIR "/tests/golden/arrays.h5";
    static const struct {
        const char *name, *says;
    } REFUSED[] = { { "xx", "no data set \"xx\"; its first member is" },
                    { "text", "not plain numbers" },
                    { "packed", "unpack" } };
    char path[5][400];
    ls_dataset *set;
    float x[2], y, z, valid;
    int64_t c;
    uint8_t u;
    snprintf(path[0], sizeof path[0], "%s:x", FILE);
    snprintf(path[1], sizeof path[1], "%s:/g/y", FILE);
    snprintf(path[2], sizeof path[2], "%s:z", FILE);
    snprintf(path[3], sizeof path[3], "%s:c", FILE);
    snprintf(path[4], sizeof path[4], "%s:u", FILE);
    const ls_array_field all[] = { ARRAY("x", path[0], LS_F32),
                                   ARRAY("y", path[1], LS_F32),
                                   ARRAY("c", path[3], LS_I64),
                                   ARRAY("u", path[4], LS_U8),
                                   { .field = "z", .file = path[2], .as = LS_F32, .missing = true } };
    const ls_status s = ls_arrays_open(&set, LS_SPLIT_TRAIN, 5, all);
    if (s == LS_E_UNSUPPORTED) {
        assert_non_null(strstr(ls_error_message(), "install libhdf5"));
        ls_test_skip("%s", ls_error_message());
    }
    assert_ok(s);
    assert_ok(set->read(set, 2, (void *[]){ x, &y, &c, &u, &z, &valid }));
    assert_true(x[0] == 4 && x[1] == 5 && y == 9 && c == 2 && u == 255 && z == 2.5f && valid == 1);
    assert_ok(set->read(set, 1, (void *[]){ x, &y, &c, &u, &z, &valid }));
    assert_true(x[0] == 2 && y == 8 && c == 0 && u == 0 && z == 0 && valid == 0);
    ls_dataset_close(&set);
    assert_ok(ls_arrays_open(&set, LS_SPLIT_TRAIN, 1, (ls_array_field[]){ ARRAY("z", path[2], LS_F32) }));
    assert_fails(LS_E_FORMAT, set->read(set, 1, (void *[]){ &z }), "arrays.h5:z row 1", "z is NaN");
    ls_dataset_close(&set);
    for (size_t k = 0; k < sizeof REFUSED / sizeof *REFUSED; k++) {
        snprintf(path[0], sizeof path[0], "%s:%s", FILE, REFUSED[k].name);
        assert_int_not_equal(
            ls_arrays_open(&set, LS_SPLIT_TRAIN, 1, (ls_array_field[]){ ARRAY("x", path[0], LS_F32) }),
            LS_OK);
        if (!strstr(ls_error_message(), REFUSED[k].says))
            fail_msg("%s: %s", REFUSED[k].name, ls_error_message());
    }
    write_bytes(in(dir, "no.h5"), (bytes){ (uint8_t[]){ 1, 2, 3 }, 3 });
    assert_fails(
        LS_E_FORMAT,
        ls_arrays_open(&set, LS_SPLIT_TRAIN, 1, (ls_array_field[]){ ARRAY("x", in(dir, "no.h5"), LS_F32) }),
        "no.h5:x", "not an HDF5 file");
}

/* x is [3, 2], with the same largest dimensions behind it: here [3, 2^62]. */
static void hdf5_shapes_fit_64_bits(void **state)
{
    (void)state;
    uint8_t file[8272];
    ls_dataset *set;
    FILE *f = fopen(LS_TEST_SOURCE_DIR "/tests/golden/arrays.h5", "rb");
    assert_non_null(f);
    assert_int_equal(fread(file, 1, sizeof file, f), sizeof file);
    fclose(f);
    file[840] = file[856] = 0;
    file[847] = file[863] = 0x40;
    write_bytes(in(dir, "huge.h5"), (bytes){ file, sizeof file });
    const ls_array_field x = ARRAY("x", in(dir, "huge.h5"), LS_F32);
    const ls_status s = ls_arrays_open(&set, LS_SPLIT_TRAIN, 1, &x);
    if (s == LS_E_UNSUPPORTED)
        ls_test_skip("%s", ls_error_message());
    assert_fails(LS_E_FORMAT, s, "huge.h5:x", "2^63 bytes");
}

/* Rows of an array that is too large to be read at once. */
static void hdf5_is_read_by_rows(void **state)
{
    (void)state;
    ls_hdf5 *h;
    ls_hdf5_array a;
    float x[4];
    static const char FILE[] = LS_TEST_SOURCE_DIR "/tests/golden/arrays.h5";
    const ls_status s = ls_hdf5_open(&h, &a, FILE, "x", "arrays.h5:x");
    if (s == LS_E_UNSUPPORTED)
        ls_test_skip("%s", ls_error_message());
    assert_ok(s);
    assert_true(a.offset > 0 && a.type.ndim == 2 && !a.has_fill);
    assert_ok(ls_hdf5_read(h, 1, 2, x));
    assert_true(x[0] == 2 && x[3] == 5);
    assert_fails(LS_E_FORMAT, ls_hdf5_read(h, 2, 2, x), "arrays.h5:x", "rows 2 to 3");
    ls_hdf5_close(&h);
    ls_dataset *set;
    char path[400];
    snprintf(path, sizeof path, "%s:z", FILE);
    ls_array_file_whole = 8;
    assert_ok(ls_arrays_open(&set, LS_SPLIT_TRAIN, 1, (ls_array_field[]){ ARRAY("z", path, LS_F32) }));
    ls_array_file_whole = 256 << 20;
    assert_ok(set->read(set, 2, (void *[]){ x }));
    assert_true(x[0] == 2.5f && !set->count);
    assert_fails(LS_E_FORMAT, set->read(set, 1, (void *[]){ x }), "arrays.h5:z row 1", "z is NaN");
    ls_dataset_close(&set);
    assert_ok(ls_hdf5_open(&h, &a, FILE, "z", "z"));
    assert_true(a.offset == -1 && a.has_fill && a.fill == -9);
    ls_hdf5_close(&h);
}

/* Opens and reads a set of these files; with each allocation refused in turn. */
static ls_status open_and_read(void *context)
{
    ls_dataset *set;
    float x[4];
    int32_t c;
    LS_TRY(ls_arrays_open(&set, LS_SPLIT_TRAIN, 2, context));
    const ls_status s = set->read(set, 0, (void *[]){ x, &c });
    ls_dataset_close(&set);
    return s;
}

static void out_of_memory_is_a_status(void **state)
{
    (void)state;
    static const char *const FILES[][2] = {
        { "/tests/fuzz/corpus/npz/deflated.npz", "/tests/fuzz/corpus/npz/stored.npz:c" },
        { "/tests/fuzz/corpus/csv/plain.csv:a,b", "/tests/fuzz/corpus/csv/plain.csv:id" },
    };
    for (int k = 0; k < 2; k++) {
        char path[2][400];
        for (int i = 0; i < 2; i++)
            snprintf(path[i], sizeof path[i], "%s%s", LS_TEST_SOURCE_DIR, FILES[k][i]);
        ls_array_field fields[] = { ARRAY("x", path[0], LS_F32), ARRAY("c", path[1], LS_I32) };
        assert_true(ls_test_memory(open_and_read, fields, 1) >= 12);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_read_by_name),
        cmocka_unit_test(wrong_tables_are_named),
        cmocka_unit_test(archives_have_arrays),
        cmocka_unit_test(hdf5_has_arrays),
        cmocka_unit_test(hdf5_is_read_by_rows),
        cmocka_unit_test(hdf5_shapes_fit_64_bits),
        cmocka_unit_test(out_of_memory_is_a_status),
        cmocka_unit_test(a_table_is_a_data_set),
        cmocka_unit_test(archives_do_not_explode),
        cmocka_unit_test(other_kinds_are_named),
        cmocka_unit_test(what_needs_too_much_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
