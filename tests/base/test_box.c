/* test_box.c - boxes of tensors: their elements, slices and splits. */
#include "base/box.h"

#include "support/support.h"

/* Every box of a tensor of 0 to 5 dimensions: its rows hold its elements, in order, and no others. */
static void rows_of_any_box(void **state)
{
    (void)state;
    static const int64_t DIMS[5] = { 2, 3, 2, 3, 2 };
    for (int ndim = 0; ndim <= 5; ndim++) {
        ls_type whole = { .dtype = LS_F32, .ndim = (int8_t)ndim };
        int boxes = 1;
        for (int d = 0; d < ndim; d++) {
            whole.dims[d] = DIMS[d];
            boxes *= DIMS[d] == 2 ? 4 : 7; /* starts and sizes of a dimension; of size 0 one is enough */
        }
        for (int k = 0; k < boxes; k++) {
            ls_box box = ls_box_of(&whole);
            int64_t inside = 1;
            for (int d = 0, rest = k; d < ndim; d++) {
                static const int64_t STARTS[7] = { 0, 0, 1, 1, 0, 1, 2 }, SIZES[7] = { 1, 2, 1, 0, 3, 2, 1 };
                const int choices = DIMS[d] == 2 ? 4 : 7;
                box.start[d] = STARTS[rest % choices];
                box.size[d] = SIZES[rest % choices];
                inside *= box.size[d];
                rest /= choices;
            }
            assert_true(ls_box_inside(&box));
            const ls_box_rows r = ls_box_rows_of(&box);
            assert_int_equal(r.n * r.length, inside);
            assert_int_equal(ls_box_count(&box), inside);
            assert_int_equal(ls_box_is_whole(&box), inside == ls_type_count(&whole));
            int64_t row = 0, within = 0;
            for (int64_t i = 0, n = ls_type_count(&whole); i < n; i++) {
                bool in = true;
                for (int64_t d = ndim - 1, left = i; d >= 0; left /= whole.dims[d--]) {
                    const int64_t at = left % whole.dims[d] - box.start[d];
                    in = in && at >= 0 && at < box.size[d];
                }
                if (inside && row < r.n)
                    assert_int_equal(ls_box_row_after(&r, i), row);
                if (!in)
                    continue;
                int64_t run;
                assert_int_equal(ls_box_row(&r, row) + within, i);
                assert_int_equal(ls_box_run(&box, row * r.length + within, &run), i);
                assert_int_equal(run, r.length - within);
                if (++within == r.length) {
                    within = 0;
                    row++;
                }
            }
            assert_int_equal(row, r.n);
            for (int d = 0; d < ndim; d++) {
                ls_box out = box;
                out.start[d] = whole.dims[d] - box.size[d] + 1;
                assert_false(ls_box_inside(&out));
                out.start[d] = -1;
                assert_false(ls_box_inside(&out));
            }
        }
    }
}

/* A block of a slice of a block: positions in the whole add up. */
static void boxes_compose(void **state)
{
    (void)state;
    const ls_type whole = LS_TYPE(LS_F32, 4, 12, 5);
    ls_box box = ls_box_of(&whole), before;
    assert_true(ls_box_is_whole(&box));
    assert_true(ls_box_split(&box, 1, 2, 1)); /* 6 .. 11 */
    ls_box_slice(&box, 1, 2, 3);              /* 8 .. 10 */
    assert_true(ls_box_split(&box, 1, 3, 2)); /* 10 */
    assert_true(ls_box_split(&box, 0, 4, 3));
    assert_int_equal(box.whole[1], 12);
    assert_int_equal(box.start[1], 10);
    assert_int_equal(box.size[1], 1);
    assert_int_equal(box.start[0], 3);
    assert_int_equal(ls_box_run(&box, 0, NULL), (3 * 12 + 10) * 5);
    before = box;
    assert_false(ls_box_split(&box, 2, 2, 0));
    assert_true(ls_box_equal(&box, &before));
    ls_box_slice(&before, 2, 1, 4);
    assert_false(ls_box_equal(&box, &before));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows_of_any_box), cmocka_unit_test(boxes_compose) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
