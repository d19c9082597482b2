/* test_types.c - types and tensors: sizes, counts that do not overflow, strides. */
#include "lockstep/types.h"
#include "base/argument.h"
#include "support/support.h"
#include <string.h>

static void names_round_trip(void **state)
{
    (void)state;
    static const size_t SIZES[] = { 4, 8, 2, 2, 4, 8, 1 };
    for (int t = 0; t < LS_DTYPE_COUNT; t++) {
        ls_dtype back;
        assert_true(ls_dtype_parse(ls_dtype_name((ls_dtype)t), &back));
        assert_int_equal(back, t);
        assert_int_equal(ls_dtype_size((ls_dtype)t), SIZES[t]);
        assert_int_equal(ls_dtype_is_float((ls_dtype)t), t <= LS_F16);
    }
    ls_dtype out;
    assert_false(ls_dtype_parse("float32", &out));
    assert_false(ls_dtype_parse("", &out));
    assert_string_equal(ls_dtype_name(LS_DTYPE_COUNT), "?");
}

static void counts(void **state)
{
    (void)state;
    ls_type t = LS_TYPE(LS_F32, 64, 17, 128), scalar = LS_SCALAR(LS_F64), vector = LS_TYPE(LS_U8, 5),
            empty = LS_TYPE(LS_F32, 3, 0, 2);
    assert_int_equal(t.ndim, 3);
    assert_int_equal(ls_type_count(&t), 64 * 17 * 128);
    assert_int_equal(ls_type_bytes(&t), 4 * 64 * 17 * 128);
    assert_int_equal(ls_type_rows(&t), 64 * 17);
    assert_int_equal(ls_type_count(&scalar), 1);
    assert_int_equal(ls_type_rows(&scalar), 1);
    assert_int_equal(ls_type_bytes(&scalar), 8);
    assert_int_equal(ls_type_rows(&vector), 1);
    assert_int_equal(ls_type_count(&empty), 0);
    ls_type absent = { .ndim = -1 };
    assert_int_equal(ls_type_count(&absent), 0);
}

static void huge_shapes_do_not_wrap(void **state)
{
    (void)state;
    ls_type t = LS_TYPE(LS_F32, (int64_t)1 << 40, (int64_t)1 << 40),
            bytes = LS_TYPE(LS_F64, (int64_t)1 << 62);
    ls_type sneaky = LS_TYPE(LS_U8, (int64_t)1 << 32, (int64_t)1 << 32, 0);
    assert_int_equal(ls_type_count(&t), INT64_MAX);
    assert_true(ls_type_bytes(&t) == SIZE_MAX);
    assert_true(ls_type_bytes(&bytes) == SIZE_MAX);
    assert_int_equal(ls_type_count(&sneaky), 0);
}

static void equality(void **state)
{
    (void)state;
    ls_type a = LS_TYPE(LS_F32, 2, 3), b = a;
    b.dims[5] = 9; /* beyond ndim: no part of the type */
    assert_true(ls_type_equal(&a, &b));
    b.dims[1] = 4;
    assert_false(ls_type_equal(&a, &b));
    b = a;
    b.dtype = LS_I32;
    assert_false(ls_type_equal(&a, &b));
    b = a;
    b.ndim = 1;
    assert_false(ls_type_equal(&a, &b));
}

/* A type from a caller: no number of it may lead out of an array or a table. */
static void what_is_sound(void **state)
{
    (void)state;
    ls_type t = LS_TYPE(LS_F32, 2, 0);
    assert_true(ls_type_is_sound(&t) && ls_type_is_sound(&LS_SCALAR(LS_U8)));
    t.dims[1] = -1;
    assert_false(ls_type_is_sound(&t));
    t.ndim = 1; /* then it is not looked at */
    assert_true(ls_type_is_sound(&t));
    for (int ndim = -1; ndim <= LS_MAX_DIMS + 1; ndim += LS_MAX_DIMS + 2)
        assert_false(ls_type_is_sound(&(ls_type){ LS_F32, ndim, { 0 } }));
    for (int dtype = -1; dtype <= LS_DTYPE_COUNT; dtype += LS_DTYPE_COUNT + 1)
        assert_false(ls_type_is_sound(&(ls_type){ (ls_dtype)dtype, 0, { 0 } }));
}

static void strides(void **state)
{
    (void)state;
    float data[24];
    ls_type type = LS_TYPE(LS_F32, 2, 1, 3, 4);
    ls_tensor t = ls_tensor_of(data, &type);
    assert_int_equal(t.strides[0], 12);
    assert_int_equal(t.strides[1], 12);
    assert_int_equal(t.strides[2], 4);
    assert_int_equal(t.strides[3], 1);
    assert_true(ls_tensor_is_contiguous(&t));
    t.strides[1] = 99; /* a dimension of size 1 */
    assert_true(ls_tensor_is_contiguous(&t));
    t.strides[2] = 5;
    assert_false(ls_tensor_is_contiguous(&t));
    t.type.dims[0] = 0;
    assert_true(ls_tensor_is_contiguous(&t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_round_trip),
        cmocka_unit_test(counts),
        cmocka_unit_test(huge_shapes_do_not_wrap),
        cmocka_unit_test(equality),
        cmocka_unit_test(what_is_sound),
        cmocka_unit_test(strides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
