/* test_npy.c - arrays in NumPy's format: what numpy.save writes is read, our header is what numpy.save
 * writes, and every damage is refused with the path and what to do. */
#include "files.h"

#include "data/npy.h"

/* A file of version 1 with this header text, padded as NumPy pads it, and n bytes 0, 1, 2, ... */
static bytes make_npy(const char *header, size_t n)
{
    const size_t length = (strlen(header) + 11 + 63) / 64 * 64 - 10;
    bytes b = { malloc(10 + length + n), 10 + length + n };
    memcpy(b.data, "\x93NUMPY\1\0", 8);
    b.data[8] = (uint8_t)length;
    b.data[9] = (uint8_t)(length >> 8);
    memset(b.data + 10, ' ', length);
    memcpy(b.data + 10, header, strlen(header));
    b.data[9 + length] = '\n';
    for (size_t i = 0; i < n; i++)
        b.data[10 + length + i] = (uint8_t)i;
    return b;
}

#define HEADER(descr, shape) "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", }"

static void test_parse(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        ls_type type;
    } CASES[] = {
        { HEADER("<f4", "(2, 3)"), LS_TYPE(LS_F32, 2, 3) },
        { HEADER("<f8", "(2,)"), LS_TYPE(LS_F64, 2) },
        { HEADER("<f2", "(1, 2, 3)"), LS_TYPE(LS_F16, 1, 2, 3) },
        { HEADER("<i4", "()"), LS_SCALAR(LS_I32) },
        { HEADER("<i8", "(3,)"), LS_TYPE(LS_I64, 3) },
        { HEADER("|u1", "(7,)"), LS_TYPE(LS_U8, 7) },
        { HEADER("|b1", "(7,)"), LS_TYPE(LS_U8, 7) },
        { HEADER("<f4", "(0, 3)"), LS_TYPE(LS_F32, 0, 3) },
        /* another order, other quotes, no last comma */
        { "{\"shape\":(2),'fortran_order':False,'descr':'<f4'}", LS_TYPE(LS_F32, 2) },
    };
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        bytes b = make_npy(CASES[k].header, ls_type_bytes(&CASES[k].type));
        ls_npy a;
        assert_ok(ls_npy_parse(&a, b.data, b.size, "a.npy"));
        assert_true(ls_type_equal(&a.type, &CASES[k].type));
        assert_int_equal(a.bytes, ls_type_bytes(&CASES[k].type));
        assert_ptr_equal(a.data, b.data + b.size - a.bytes);
        free_bytes(&b);
    }
}

/* Every prefix is refused; each copy has exactly its size, so that a sanitizer sees a read beyond it. */
static void test_every_truncation(void **state)
{
    (void)state;
    bytes b = make_npy(HEADER("<f4", "(2, 3)"), 24);
    for (size_t n = 0; n < b.size; n++) {
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, b.data, n);
        ls_npy a;
        assert_fails(LS_E_FORMAT, ls_npy_parse(&a, copy, n, "dir/a.npy"), "dir/a.npy: ", "");
        free(copy);
    }
    free_bytes(&b);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *header, *message;
        ls_status status;
    } CASES[] = {
        { HEADER(">f4", "(6,)"), "NumPy's type '>f4'", LS_E_UNSUPPORTED },
        { HEADER("<c8", "(3,)"), "astype('float32')", LS_E_UNSUPPORTED },
        { HEADER("|O", "(3,)"), "NumPy's type '|O'", LS_E_UNSUPPORTED },
        { HEADER("<U4", "(3,)"), "texts ('<U4'): save their numbers", LS_E_UNSUPPORTED },
        { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", "records of several fields",
          LS_E_UNSUPPORTED },
        { "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", "numpy.ascontiguousarray",
          LS_E_UNSUPPORTED },
        { HEADER("<f4", "(1, 1, 1, 1, 1, 1, 1, 2, 3)"), "more than 8 dimensions", LS_E_UNSUPPORTED },
        { HEADER("<f4", "(2, 4)"), "takes 32 bytes, and 24 follow the header: it is cut", LS_E_FORMAT },
        { HEADER("<f4", "(5,)"), "takes 20 bytes, and 24 follow the header: it is damaged", LS_E_FORMAT },
        { HEADER("<f4", "(-6,)"), "\"-6,), }", LS_E_FORMAT },
        { HEADER("<f4", "(99999999999999999999,)"), "beyond 2^63", LS_E_FORMAT },
        { HEADER("<f4", "(4294967296, 4294967296, 6)"), "more than 2^64", LS_E_FORMAT },
        { HEADER("<f4", "(6;)"), "where a comma should be", LS_E_FORMAT },
        { "{'descr': '<f4', 'shape': (6,)}", "names no order", LS_E_FORMAT },
        { "{'descr': '<f4', 'descr': '<f4', 'shape': (6,)}", "'descr' that is unknown or twice",
          LS_E_FORMAT },
        { "{'descr': '<f4', 'more': 1}", "'more' that is unknown", LS_E_FORMAT },
        { "{'descr", "the name of an entry", LS_E_FORMAT },
        { "os.system('x')", "where a dictionary should be", LS_E_FORMAT },
    };
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        bytes b = make_npy(CASES[k].header, 24);
        ls_npy a;
        assert_fails(CASES[k].status, ls_npy_parse(&a, b.data, b.size, "a.npy"), "a.npy: ", CASES[k].message);
        free_bytes(&b);
    }
    bytes b = make_npy(HEADER("<f4", "(6,)"), 24);
    ls_npy a;
    b.data[6] = 4;
    assert_fails(LS_E_FORMAT, ls_npy_parse(&a, b.data, b.size, "a.npy"), "version 4", "1, 2 and 3 are");
    b.data[0] = 'x';
    assert_fails(LS_E_FORMAT, ls_npy_parse(&a, b.data, b.size, "a.npy"), "not an .npy array", "NUMPY");
    free_bytes(&b);
}

/* Our header, byte for byte as numpy.save wrote it, and read again. */
static void test_header(void **state)
{
    (void)state;
    static const ls_type TYPES[] = { LS_TYPE(LS_F32, 2, 3), LS_TYPE(LS_F64, 5),       LS_SCALAR(LS_I32),
                                     LS_TYPE(LS_U8, 4),     LS_TYPE(LS_I64, 1, 2, 3), LS_TYPE(LS_F16, 1) };
    for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++) {
        ls_str text = { 0 };
        assert_ok(ls_npy_header(&text, &TYPES[k]));
        assert_int_equal(text.len % 64, 0);
        const size_t n = text.len, size = ls_type_bytes(&TYPES[k]);
        uint8_t *file = calloc(n + size, 1);
        memcpy(file, text.data, n);
        ls_npy a;
        assert_ok(ls_npy_parse(&a, file, n + size, "a.npy"));
        assert_true(ls_type_equal(&a.type, &TYPES[k]));
        if (k == 0) { /* numpy.save(..., numpy.zeros((2, 3), 'f4')) */
            bytes want = make_npy(HEADER("<f4", "(2, 3)"), 24);
            assert_int_equal(want.size, n + 24);
            assert_memory_equal(want.data, file, n);
            free_bytes(&want);
        }
        free(file);
        ls_str_release(&text);
    }
    ls_str text = { 0 };
    assert_fails(LS_E_UNSUPPORTED, ls_npy_header(&text, &LS_TYPE(LS_BF16, 2)), "NumPy", "bf16");
    ls_str_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
