/* test_memory_set.c - ls_dataset_put: samples of any strides, refusals that leave the set as it was, no
 * memory. */
#include <string.h>

#include "lockstep/data.h"
#include "support/support.h"

static const float X[3][2] = { { 1, 2 }, { 3, 4 }, { 5, 6 } };
static const int32_t LABELS[3] = { 7, LS_IGNORE_LABEL, 9 };

static ls_tensor tensor(const void *data, ls_type type) { return ls_tensor_of((void *)data, &type); }

static void samples_have_any_strides(void **state)
{
    (void)state;
    ls_dataset *set = NULL;
    const ls_tensor labels = tensor(LABELS, LS_TYPE(LS_I32, 3));
    ls_tensor x = tensor(&X[2][1], LS_TYPE(LS_F32, 3, 2));
    x.strides[0] = -2; /* the last sample first, its numbers turned around */
    x.strides[1] = -1;
    ASSERT_OK(ls_dataset_put(&set, "x", &x));
    ASSERT_OK(ls_dataset_put(&set, "labels", &labels));
    assert_true(set->n == 3 && set->n_fields == 2);
    assert_true(ls_type_equal(&set->fields[0].type, &LS_TYPE(LS_F32, 2)));
    assert_true(!set->fields[0].ignorable && set->fields[1].ignorable && set->fields[1].type.ndim == 0);
    for (int i = 0; i < 3; i++) {
        float got[2];
        int32_t label;
        ASSERT_OK(set->read(set, i, (void *[]){ got, &label }));
        assert_true(got[0] == X[2 - i][1] && got[1] == X[2 - i][0] && label == LABELS[i]);
        got[0] = 0;
        ASSERT_OK(set->read(set, i, (void *[]){ NULL, &label }));
        assert_true(got[0] == 0);
    }
    ls_dataset_close(&set);
    assert_null(set);
}

static void refusals(void **state)
{
    (void)state;
    ls_dataset *set = NULL, *shapes;
    const ls_tensor x = tensor(X, LS_TYPE(LS_F32, 3, 2)), two = tensor(X, LS_TYPE(LS_F32, 2, 2)),
                    one = tensor(X, LS_SCALAR(LS_F32)), none = tensor(X, LS_TYPE(LS_F32, 0, 2));
    ASSERT_FAILS(ls_dataset_put(&set, "x", &one), LS_E_SHAPE, "\"x\" has no samples");
    ASSERT_FAILS(ls_dataset_put(&set, "x", &none), LS_E_SHAPE, "its first dimension, of 2, is 0");
    ls_tensor unsound = one;
    unsound.type.ndim = 12; /* nothing behind the eighth is read */
    ASSERT_FAILS(ls_dataset_put(&set, "x", &unsound), LS_E_ARG,
                 "ls_dataset_put: values->type has 12 dimensions: 0 to 8 are possible");
    unsound.type = LS_TYPE(LS_F32, 3, -2);
    ASSERT_FAILS(ls_dataset_put(&set, "x", &unsound), LS_E_ARG,
                 "values->type has the size -2 in dimension 1: 0 or more is possible");
    assert_null(set);
    ASSERT_OK(ls_dataset_put(&set, "x", &x));
    ASSERT_FAILS(ls_dataset_put(&set, "x", &x), LS_E_ARG, "has a field \"x\" already");
    ASSERT_FAILS(ls_dataset_put(&set, "y", &two), LS_E_SHAPE, "\"y\" has 2 samples, but \"x\" has 3");
    assert_true(set->n_fields == 1 && set->n == 3);
    ls_dataset_close(&set);
    ASSERT_OK(ls_dataset_open(&shapes, "shapes", LS_SPLIT_EVAL));
    ASSERT_FAILS(ls_dataset_put(&shapes, "y", &x), LS_E_ARG, "was not made by ls_dataset_put");
    ls_dataset_close(&shapes);
}

static ls_status put_two(void *context)
{
    ls_dataset **set = context;
    const ls_tensor x = tensor(X, LS_TYPE(LS_F32, 3, 2)), labels = tensor(LABELS, LS_TYPE(LS_I32, 3));
    ls_status s = ls_dataset_put(set, "x", &x);
    if (s == LS_OK)
        s = ls_dataset_put(set, "labels", &labels);
    assert_true(!*set || (*set)->n_fields >= 1);
    ls_dataset_close(set);
    return s;
}

static void no_memory(void **state)
{
    (void)state;
    ls_dataset *set = NULL;
    assert_true(ls_test_memory(put_two, &set, 1) >= 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(samples_have_any_strides),
                                        cmocka_unit_test(refusals), cmocka_unit_test(no_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
