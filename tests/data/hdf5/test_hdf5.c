/* test_hdf5.c - files of HDF5 that lead elsewhere or contradict themselves, made with libhdf5: refused with
 * what they are, before anything is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include <hdf5.h>

#include "data/files.h"
#include "data/hdf5_header.h"
#include "lockstep/data.h"

enum { N = 27 }; /* elements: as bytes a number that stands in a file for nothing else */

static char *dir;
static double values[N];

static hid_t create(const char *name)
{
    const hid_t file = H5Fcreate(in(dir, name), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    return file;
}

/* A data set x f64 [N] with these properties, written or not. */
static void add_set(hid_t file, hid_t how, bool write)
{
    const hsize_t n = N;
    const hid_t space = H5Screate_simple(1, &n, NULL),
                set = H5Dcreate2(file, "x", H5T_IEEE_F64LE, space, H5P_DEFAULT, how, H5P_DEFAULT);
    assert_true(set >= 0);
    if (write)
        assert_true(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(set);
    H5Sclose(space);
}

static void make(const char *name, hid_t how, bool write)
{
    const hid_t file = create(name);
    add_set(file, how, write);
    assert_true(H5Fclose(file) >= 0);
}

static ls_status open_array(const char *array)
{
    ls_dataset *set = NULL;
    double x;
    const ls_array_field field = { .field = "x", .file = in(dir, array), .as = LS_F64 };
    LS_TRY(ls_arrays_open(&set, LS_SPLIT_TRAIN, 1, &field));
    const ls_status s = set->read(set, N - 1, (void *[]){ &x });
    if (s == LS_OK)
        assert_true(set->n == N && x == N);
    ls_dataset_close(&set);
    return s;
}

static void links_stay_in_the_file(void **state)
{
    (void)state;
    make("other.h5", H5P_DEFAULT, true);
    const hid_t file = create("links.h5");
    add_set(file, H5P_DEFAULT, true);
    assert_true(H5Lcreate_soft("/x", file, "soft", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_external("other.h5", "/x", file, "out", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_external("other.h5", "/", file, "folder", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_soft("/out", file, "round", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    H5Fclose(file);
    assert_ok(open_array("links.h5:x"));
    assert_ok(open_array("links.h5:/soft"));
    assert_fails(LS_E_UNSUPPORTED, open_array("links.h5:out"), "links.h5:out: a link to the file other.h5",
                 "name that file");
    assert_fails(LS_E_UNSUPPORTED, open_array("links.h5:/folder/x"), "a link to the file other.h5", "");
    assert_fails(LS_E_UNSUPPORTED, open_array("links.h5:round"), "a link to the file other.h5", "");
}

static void elements_are_in_the_file(void **state)
{
    (void)state;
    const hsize_t n = N;
    const hid_t space = H5Screate_simple(1, &n, NULL), outer = H5Pcreate(H5P_DATASET_CREATE),
                mapped = H5Pcreate(H5P_DATASET_CREATE);
    assert_true(H5Pset_external(outer, "/etc/passwd", 0, N * 8) >= 0);
    make("external.h5", outer, false);
    assert_fails(LS_E_UNSUPPORTED, open_array("external.h5:x"), "external.h5:x", "external storage");
    make("other.h5", H5P_DEFAULT, true);
    for (int there = 1; there >= 0; there--) { /* the source is there, or is not */
        assert_true(H5Pset_virtual(mapped, space, there ? "other.h5" : "none.h5", "x", space) >= 0);
        make("virtual.h5", mapped, false);
        assert_fails(LS_E_UNSUPPORTED, open_array("virtual.h5:x"), "virtual.h5:x", "a virtual data set");
    }
    H5Pclose(outer);
    H5Pclose(mapped);
    H5Sclose(space);
}

/* Puts another number of elements in place of N, wherever it stands. */
static void claim(const char *name, uint64_t elements)
{
    char *text;
    size_t n;
    const uint64_t was = N;
    int found = 0;
    assert_ok(ls_file_read(&text, &n, in(dir, name)));
    for (size_t i = 0; i + 8 <= n; i++)
        if (!memcmp(text + i, &was, 8)) {
            memcpy(text + i, &elements, 8);
            found++;
        }
    assert_true(found > 0);
    write_bytes(in(dir, name), (bytes){ (uint8_t *)text, n });
    free(text);
}

static void sizes_agree(void **state)
{
    (void)state;
    const hid_t compact = H5Pcreate(H5P_DATASET_CREATE), chunked = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk = 10;
    H5Pset_layout(compact, H5D_COMPACT);
    make("compact.h5", compact, true);
    assert_ok(open_array("compact.h5:x"));
    claim("compact.h5", 1000000); /* libhdf5 would read 8 MB from a buffer of 216 bytes */
    assert_fails(LS_E_FORMAT, open_array("compact.h5:x"), "its shape takes 8000000 bytes",
                 "the file stores 216");
    make("plain.h5", H5P_DEFAULT, true);
    claim("plain.h5", N + 1);
    assert_fails(LS_E_FORMAT, open_array("plain.h5:x"), "its shape takes 224 bytes", "the file stores 216");
    make("never.h5", H5P_DEFAULT, false);
    assert_fails(LS_E_FORMAT, open_array("never.h5:x"), "none of them was ever written", "27 elements");
    H5Pset_chunk(chunked, 1, &chunk);
    make("chunks.h5", chunked, true);
    assert_ok(open_array("chunks.h5:x"));
    make("chunks.h5", chunked, false);
    assert_fails(LS_E_FORMAT, open_array("chunks.h5:x"), "none of them was ever written", "27 elements");
    H5Pclose(compact);
    H5Pclose(chunked);
}

static void add_attribute(hid_t set, const char *name, hid_t type, const void *value)
{
    const hid_t one = H5Screate(H5S_SCALAR), a = H5Acreate2(set, name, type, one, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(a >= 0 && H5Awrite(a, type, value) >= 0);
    H5Aclose(a);
    H5Sclose(one);
}

/* x with other attributes and a last one, the number 3. `newer`: in the newest format; `dense`: in a fractal
 * heap. */
static void make_with(const char *last, const char *name, bool newer, bool dense)
{
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS), how = H5Pcreate(H5P_DATASET_CREATE),
                pair = H5Tcreate(H5T_COMPOUND, 8), word = H5Tcopy(H5T_C_S1);
    const double fill = 3;
    if (newer)
        H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    if (dense)
        H5Pset_attr_phase_change(how, 0, 0);
    H5Tset_size(word, 6);
    H5Tinsert(pair, "left", 0, H5T_NATIVE_FLOAT);
    H5Tinsert(pair, "right", 4, H5T_NATIVE_FLOAT);
    const hid_t file = H5Fcreate(in(dir, name), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    add_set(file, how, true);
    const hid_t set = H5Dopen2(file, "x", H5P_DEFAULT);
    add_attribute(set, "units", word, "kelvin");
    add_attribute(set, "range", pair, (float[]){ 0, 1 });
    add_attribute(set, last, H5T_NATIVE_DOUBLE, &fill);
    H5Dclose(set);
    H5Tclose(pair);
    H5Tclose(word);
    H5Pclose(how);
    H5Pclose(access);
    assert_true(H5Fclose(file) >= 0);
}

static void make_attributes(const char *name, bool newer, bool dense)
{
    make_with("_FillValue", name, newer, dense);
}

static ls_status open_attributes(const char *array)
{
    ls_dataset *set = NULL;
    double x, valid;
    const ls_array_field field = { .field = "x", .file = in(dir, array), .as = LS_F64, .missing = true };
    LS_TRY(ls_arrays_open(&set, LS_SPLIT_TRAIN, 1, &field));
    const ls_status s = set->read(set, 2, (void *[]){ &x, &valid });
    if (s == LS_OK)
        assert_true(valid == 0); /* 3 is the fill value, so it is a missing number */
    ls_dataset_close(&set);
    return s;
}

/* Writes `from` as `to`, with a value of so many bytes at a distance from a text. */
static void poke(const char *to, const char *from, const char *text, int distance, uint64_t value, size_t n)
{
    char *all;
    size_t size;
    assert_ok(ls_file_read(&all, &size, in(dir, from)));
    char *at = memmem(all, size, text, strlen(text) + 1);
    assert_non_null(at);
    memcpy(at + distance, &value, n);
    write_bytes(in(dir, to), (bytes){ (uint8_t *)all, size });
    free(all);
}

/* libhdf5 would read behind the message. An attribute of version 1 has the bytes of its name, its type and
 * its shape (two each), then these three, padded to 8, then the value. */
static void attributes_fit_their_messages(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int distance;
        uint64_t value;
        size_t n;
    } CASES[] = {
        { "_FillValue", -6, 0, 2 },           /* a name of no bytes */
        { "_FillValue", -6, 10, 2 },          /* a name without an end */
        { "_FillValue", -4, 0xfff8, 2 },      /* a type of 64 KiB */
        { "_FillValue", -4, 8, 2 },           /* a type that is cut off */
        { "_FillValue", -2, 0xfff8, 2 },      /* a shape of 64 KiB */
        { "_FillValue", 16 + 4, 1 << 20, 4 }, /* a number of 1 MiB */
        { "_FillValue", 16 + 13, 200, 1 },    /* an exponent of 200 bits */
        { "_FillValue", 16 + 10, 65, 1 },     /* 65 bits of 8 bytes */
        { "_FillValue", 16 + 10, 0, 1 },      /* no bits */
        { "_FillValue", 40 + 1, 33, 1 },      /* a shape of 33 dimensions */
        { "range", 8 + 1, 0xffff, 2 },        /* 65535 members */
    };
    make_attributes("old.h5", false, false);
    assert_ok(open_attributes("old.h5:x"));
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        poke("poked.h5", "old.h5", CASES[i].text, CASES[i].distance, CASES[i].value, CASES[i].n);
        assert_fails(LS_E_FORMAT, open_attributes("poked.h5:x"),
                     "poked.h5:x: an attribute in its header, at byte ", "the file is damaged");
    }
    for (int dense = 0; dense < 2; dense++) {
        make_attributes("new.h5", true, dense);
        assert_ok(open_attributes("new.h5:x"));
    }
}

/* As a newer HDF5 writes them: a libhdf5 that does not know one attribute finds none behind it. */
static void newer_attributes_hide_no_others(void **state)
{
    (void)state;
    static const struct {
        const char *last, *text;
        int distance;
        uint64_t value;
    } CASES[] = {
        { "note", "units", 8, 0x43 },             /* a type of version 4, a text */
        { "note", "units", 8, 0x53 },             /* of version 5 */
        { "note", "units", 8, 0x1b },             /* of class 11, a complex number */
        { "note", "units", -8, 4 },               /* an attribute of version 4: its name is not known */
        { "note", "left", 40, 0x1b },             /* a member of class 11 */
        { "_FillValue", "units", 8, 0x43 },       /* in front of one that we need */
        { "_FillValue", "_FillValue", 16, 0x41 }, /* the one that we need */
        { "scale_factor", "scale_factor", 16, 0x51 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        make_with(CASES[i].last, "older.h5", false, false);
        poke("newer.h5", "older.h5", CASES[i].text, CASES[i].distance, CASES[i].value, 1);
        if (!strcmp(CASES[i].last, "note") && CASES[i].value != 4)
            assert_ok(open_array("newer.h5:x"));
        else
            assert_fails(LS_E_UNSUPPORTED, open_array("newer.h5:x"), "newer.h5:x: libhdf5 ",
                         "it is written by a newer HDF5 than this library's");
    }
}

/* The data set itself: the head of its type, as plain files have it. */
static void newer_elements_are_no_missing_name(void **state)
{
    (void)state;
    make("plain.h5", H5P_DEFAULT, true);
    const hid_t file = H5Fopen(in(dir, "plain.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Gclose(H5Gcreate2(file, "run", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Fclose(file);
    for (uint64_t head = 0x41; head <= 0x51; head += 0x10) {
        poke("newer.h5", "plain.h5", "\x11\x20\x3f", 0, head, 1);
        assert_fails(LS_E_UNSUPPORTED, open_array("newer.h5:x"),
                     "cannot open it: it is written by a newer HDF5", "newer.h5:x: libhdf5 ");
    }
    assert_fails(LS_E_USAGE, open_array("plain.h5:run"), "plain.h5:run: it is not a data set but a group",
                 "");
}

/* Each time that a file is opened again and gets a text, which lies in the file outside the header, the
 * header gets a block. */
static void headers_may_have_many_blocks(void **state)
{
    (void)state;
    const hid_t line = H5Tcopy(H5T_C_S1);
    H5Tset_size(line, H5T_VARIABLE);
    make("log.h5", H5P_DEFAULT, true);
    for (int i = 0; i < 700; i++) {
        char name[16];
        const hid_t file = H5Fopen(in(dir, "log.h5"), H5F_ACC_RDWR, H5P_DEFAULT),
                    set = H5Dopen2(file, "x", H5P_DEFAULT);
        snprintf(name, sizeof name, "log%d", i);
        add_attribute(set, name, line, &(const char *){ "a line of a log of the work" });
        H5Dclose(set);
        H5Fclose(file);
    }
    H5Tclose(line);
    assert_ok(open_array("log.h5:x"));
}

/* A header of version 2 with one block of `n` bytes. */
static ls_status check_block(uint8_t *all, uint32_t n, uint32_t room)
{
    memcpy(all, "OHDR\2\2", 6);
    memcpy(all + 6, &n, 4);
    ls_hdf5_attributes none = { .n = 0 };
    return ls_hdf5_check_header(&none, &(ls_hdf5_bytes){ all, room, 8, 8, "a.h5" }, 0);
}

static void headers_are_limited(void **state)
{
    (void)state;
    enum { ROOM = (4 << 20) + 64, HEAD = 10 };
    uint8_t *all = calloc(1, ROOM);
    assert_ok(check_block(all, 4 << 20, ROOM));
    assert_fails(LS_E_UNSUPPORTED, check_block(all, (4 << 20) + 4, ROOM),
                 "a.h5: its header has more than 1048576 messages", "without its attributes");
    memcpy(all + HEAD, (uint8_t[]){ 16, 16, 0, 0, HEAD - 4, 0, 0, 0, 0, 0, 0, 0, 28 }, 13); /* in itself */
    assert_fails(LS_E_FORMAT, check_block(all, 20, 100), "a.h5: the blocks of its header overlap", "damaged");
    memcpy(all + HEAD, (uint8_t[]){ 16, 16, 0, 0, 90 }, 5);
    assert_fails(LS_E_FORMAT, check_block(all, 20, 100), "a block at byte 90 that is not part of the file",
                 "");
    free(all);
}

/* Of a damaged file libhdf5 asks for as much memory as it declares, and does not free all that it read. */
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }
const char *__lsan_default_suppressions(void) { return "leak:libhdf5"; }

/* Any byte near the attributes: read or refused. */
static void any_attribute_is_read_or_refused(void **state)
{
    (void)state;
    make_attributes("old.h5", false, false);
    for (int at = -30; at < 90; at++)
        for (int bit = at & 1; bit < 8; bit += 2) {
            poke("bit.h5", "old.h5", "range", at, 1u << bit, 1);
            open_array("bit.h5:x");
            poke("bit.h5", "old.h5", "_FillValue", at, 0xffu >> bit, 1);
            open_array("bit.h5:x");
        }
}

static void types_with_a_name(void **state)
{
    (void)state;
    const hid_t how = H5Pcreate(H5P_FILE_CREATE), type = H5Tcopy(H5T_IEEE_F64LE);
    const hsize_t n = N;
    for (int table = 0; table < 2; table++) { /* of shared messages */
        if (table) {
            assert_true(H5Pset_shared_mesg_nindexes(how, 1) >= 0);
            assert_true(H5Pset_shared_mesg_index(how, 0, H5O_SHMESG_ALL_FLAG, 8) >= 0);
        }
        const hid_t file = H5Fcreate(in(dir, "named.h5"), H5F_ACC_TRUNC, how, H5P_DEFAULT),
                    space = H5Screate_simple(1, &n, NULL), kind = H5Tcopy(type);
        assert_true(H5Tcommit2(file, "kind", kind, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) >= 0);
        const hid_t set = H5Dcreate2(file, "x", kind, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
        add_attribute(set, "missing_value", kind, values);
        H5Dclose(set);
        H5Tclose(kind);
        H5Sclose(space);
        H5Fclose(file);
        if (!table)
            assert_ok(open_array("named.h5:x"));
        else
            assert_fails(LS_E_UNSUPPORTED, open_array("named.h5:x"), "table of shared messages", "");
    }
    H5Tclose(type);
    H5Pclose(how);
}

static size_t keep(unsigned flags, size_t n, const unsigned *values_of, size_t size, size_t *room, void **at)
{
    (void)flags, (void)n, (void)values_of, (void)room, (void)at;
    return size;
}

static void unknown_filters_are_named(void **state)
{
    (void)state;
    enum { ID = 305 };
    const H5Z_class2_t filter = { H5Z_CLASS_T_VERS, ID, 1, 1, "odd", NULL, NULL, keep };
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk = 10;
    assert_true(H5Zregister(&filter) >= 0);
    H5Pset_chunk(how, 1, &chunk);
    assert_true(H5Pset_filter(how, ID, H5Z_FLAG_MANDATORY, 0, NULL) >= 0);
    make("filter.h5", how, true);
    assert_ok(open_array("filter.h5:x"));
    assert_true(H5Zunregister(ID) >= 0);
    assert_fails(LS_E_UNSUPPORTED, open_array("filter.h5:x"), "need the filter 305 odd", "HDF5_PLUGIN_PATH");
    H5Pclose(how);
}

/* The program's own use of the library is as before. */
static void settings_are_given_back(void **state)
{
    (void)state;
    H5E_auto2_t before, after;
    void *with;
    unsigned plugins = 0;
    H5Eget_auto2(H5E_DEFAULT, &before, &with);
    make("settings.h5", H5P_DEFAULT, true);
    assert_ok(open_array("settings.h5:x"));
    assert_fails(LS_E_USAGE, open_array("settings.h5:y"), "it has no data set", "y");
    H5Eget_auto2(H5E_DEFAULT, &after, &with);
    assert_true(before && after == before);
    assert_true(H5PLget_loading_state(&plugins) >= 0);
    assert_int_equal(plugins, H5PL_ALL_PLUGIN);
}

static void pipes_are_refused(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(in(dir, "pipe.h5"), 0600), 0);
    assert_fails(LS_E_IO, open_array("pipe.h5:x"), "pipe.h5: cannot read: it is a pipe", "");
}

static int set_up(void **state)
{
    (void)state;
    dir = make_folder();
    for (int i = 0; i < N; i++)
        values[i] = i + 1;
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
        cmocka_unit_test(links_stay_in_the_file),
        cmocka_unit_test(elements_are_in_the_file),
        cmocka_unit_test(sizes_agree),
        cmocka_unit_test(attributes_fit_their_messages),
        cmocka_unit_test(newer_attributes_hide_no_others),
        cmocka_unit_test(newer_elements_are_no_missing_name),
        cmocka_unit_test(headers_may_have_many_blocks),
        cmocka_unit_test(headers_are_limited),
        cmocka_unit_test(any_attribute_is_read_or_refused),
        cmocka_unit_test(types_with_a_name),
        cmocka_unit_test(unknown_filters_are_named),
        cmocka_unit_test(settings_are_given_back),
        cmocka_unit_test(pipes_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
