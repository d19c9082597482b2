/* test_sums.c - what an evaluation keeps of a metric: values that a person can check, the same bits in any
 * order and any parts, and rows that cannot count. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "step/sums.h"
#include "support/support.h"

enum { N = 5000 };
static double rows[N], targets[N];

/* The value of n rows, dealt to `parts` that go over them backwards. */
static double value_of(const ls_term *t, int n, int parts)
{
    const size_t bytes = ls_sums_bytes(t);
    ls_sums *total = malloc(bytes), *part = malloc(bytes);
    ls_sums_clear(total, t);
    for (int p = 0; p < parts; p++) {
        ls_sums_clear(part, t);
        for (int i = n - 1; i >= 0; i--)
            if (i % parts == p) {
                assert_true(ls_sums_add(part, t, i, rows[i], targets[i], 1));
                ls_sums_count(part, 1);
            }
        ls_sums_merge(total, part, t);
    }
    const double value = ls_sums_value(total, NULL, t);
    free(total);
    free(part);
    return value;
}

static double bound_of(const ls_term *auc, int n)
{
    ls_sums *s = malloc(ls_sums_bytes(auc));
    const ls_term bound = { .kind = LS_AUC_BOUND };
    ls_sums_clear(s, auc);
    for (int i = 0; i < n; i++)
        assert_true(ls_sums_add(s, auc, i, rows[i], targets[i], 1));
    const double value = ls_sums_value(NULL, s, &bound);
    free(s);
    return value;
}

static void fill(int n, uint64_t seed, double scale, double shift)
{
    const ls_rng_key key = ls_rng_key_of(seed, 9);
    for (int i = 0; i < n; i++) {
        rows[i] = (double)(float)(scale * ((double)ls_rng_below(key, (uint64_t)i, 1 << 20) / (1 << 19) - 1));
        targets[i] = shift + (double)ls_rng_below(key, (uint64_t)(N + i), 1 << 20) / (1 << 20);
    }
}

static void any_parts_have_the_same_bits(void **state)
{
    (void)state;
    static const ls_term TERMS[] = {
        { .kind = LS_RMSE },       { .kind = LS_R2, .columns = 5, .inner = 10 },
        { .kind = LS_PERPLEXITY }, { .kind = LS_AUC },
        { .how = LS_MEAN },        { .how = LS_LARGEST },
        { .how = LS_SMALLEST },    { .how = LS_COUNT },
    };
    fill(N, 4, 1, 0);
    for (size_t k = 0; k < sizeof TERMS / sizeof TERMS[0]; k++)
        for (int parts = 2; parts <= 5; parts++)
            assert_true(value_of(&TERMS[k], N, parts) == value_of(&TERMS[k], N, 1));
    for (int i = 0; i < N; i++) {
        rows[i] = i * i % 7;
        targets[i] = i % 7;
    }
    assert_true(value_of(&(ls_term){ .how = LS_COUNT }, N, 3) == N && isnan(value_of(&TERMS[0], 0, 1)) &&
                value_of(&(ls_term){ .how = LS_COUNT }, 0, 1) == 0);
    const ls_term f1 = { .kind = LS_F1, .classes = 7 };
    assert_true(value_of(&f1, N, 4) == value_of(&f1, N, 1) && value_of(&f1, N, 1) > 0);
}

/* The targets' mean may be a million times their deviation: the sum of squares less the square of the sum has
 * no digit left there. */
static void r2_does_not_cancel(void **state)
{
    (void)state;
    const ls_term r2 = { .kind = LS_R2, .columns = 1, .inner = 1 };
    fill(N, 7, 0.25, 0);
    const double want = value_of(&r2, N, 1);
    double naive[2] = { 0 };
    for (int i = 0; i < N; i++) {
        targets[i] += 1e9;
        targets[i] = -targets[i]; /* a sum below 0, too */
        naive[0] += targets[i];
        naive[1] += targets[i] * targets[i];
    }
    assert_true(fabs(naive[1] - naive[0] * naive[0] / N) > 1e3); /* it is about 400 */
    assert_true(want > 0 && want < 1 &&
                fabs(value_of(&r2, N, 3) - want) < 1e-9); /* targets are rounded to 1e-7 */
    for (int i = 0; i < N; i++)
        targets[i] = 5;
    assert_true(value_of(&r2, N, 1) == 0);
    memset(rows, 0, sizeof rows);
    assert_true(value_of(&r2, N, 1) == 1);
}

static void columns_are_apart(void **state)
{
    (void)state;
    const ls_term two = { .kind = LS_R2, .columns = 2, .inner = 2 },
                  one = { .kind = LS_R2, .columns = 1, .inner = 1 };
    /* rows [sample][column][inner]: column 0 has no error, column 1 is the mean of its targets */
    static const double ERROR[] = { 0, 0, 1, -1, 0, 0, 1, -1 }, TARGET[] = { 3, 4, 9, 11, 5, 6, 9, 11 };
    memcpy(rows, ERROR, sizeof ERROR);
    memcpy(targets, TARGET, sizeof TARGET);
    assert_true(value_of(&two, 8, 1) == 0.5);
    assert_true(value_of(&one, 8, 1) > 0.9);
}

static void f1_by_hand(void **state)
{
    (void)state;
    /* class 0: tp 1, fp 1, fn 1; class 1: tp 1, fn 1; class 2: fp 1; class 3 does not occur */
    static const double SAID[] = { 0, 0, 1, 2 }, TRUE[] = { 0, 1, 1, 0 };
    const ls_term four = { .kind = LS_F1, .classes = 4 }, score = { .kind = LS_F1, .classes = 1 };
    memcpy(rows, SAID, sizeof SAID);
    memcpy(targets, TRUE, sizeof TRUE);
    assert_true(fabs(value_of(&four, 4, 1) - (0.5 + 2.0 / 3 + 0) / 3) < 1e-15);
    rows[3] = 1; /* class 1 alone: tp 1, fp 1, fn 1 */
    assert_true(value_of(&score, 4, 1) == 0.5);
    rows[3] = 0.5; /* a half is class 0, as in torchmetrics: tp 1, fn 1 */
    assert_true(fabs(value_of(&score, 4, 1) - 2.0 / 3) < 1e-15);
    memset(rows, 0, sizeof rows);
    memset(targets, 0, sizeof targets);
    assert_true(value_of(&score, 4, 1) == 0);
}

static int by_score(const void *a, const void *b)
{
    const double x = rows[*(const int *)a], y = rows[*(const int *)b];
    return (x > y) - (x < y);
}

/* The area of the full scores, by their ranks. */
static double exact_auc(int n)
{
    static int order[N];
    double below = 0, sum = 0, ones = 0;
    for (int i = 0; i < n; i++)
        order[i] = i;
    qsort(order, (size_t)n, sizeof order[0], by_score);
    for (int i = 0, end; i < n; i = end) {
        double zero = 0, one = 0;
        for (end = i; end < n && rows[order[end]] == rows[order[i]]; end++)
            *(targets[order[end]] > 0.5 ? &one : &zero) += 1;
        sum += one * (below + zero / 2);
        below += zero;
        ones += one;
    }
    return sum / (below * ones);
}

static void auc_is_within_its_bound(void **state)
{
    (void)state;
    const ls_term auc = { .kind = LS_AUC };
    static const double SCALES[] = { 1e-30, 1, 40, 1e30 };
    for (int k = 0; k < 4; k++) {
        fill(N, (uint64_t)k, SCALES[k], 0);
        for (int i = 0; i < N; i++)
            targets[i] = 0.3 * rows[i] / SCALES[k] + targets[i] > 0.5;
        const double area = value_of(&auc, N, 1), bound = bound_of(&auc, N);
        assert_true(fabs(area - exact_auc(N)) <= bound && bound < 2e-3 && area > 0.6);
    }
    for (int i = 0; i < N; i++) /* in one interval: nothing is known */
        rows[i] = 1 + i * 1e-7;
    assert_true(value_of(&auc, N, 1) == 0.5 && bound_of(&auc, N) == 0.5);
    for (int i = 0; i < N; i++) { /* in order, -0 and 0 are one score */
        rows[i] = i < N / 2 ? -i - 1 : i;
        targets[i] = i >= N / 2;
    }
    rows[0] = -0.0;
    rows[N - 1] = 0.0;
    assert_true(value_of(&auc, N, 1) == exact_auc(N) && bound_of(&auc, N) > 0);
    memset(targets, 0, sizeof targets);
    assert_true(isnan(value_of(&auc, N, 1)));
}

static void rows_that_cannot_count(void **state)
{
    (void)state;
    const ls_term terms[] = { { .kind = LS_RMSE },
                              { .kind = LS_R2, .columns = 1, .inner = 1 },
                              { .kind = LS_F1, .classes = 3 },
                              { .kind = LS_AUC } };
    for (int k = 0; k < 4; k++) {
        ls_sums *s = malloc(ls_sums_bytes(&terms[k]));
        ls_sums_clear(s, &terms[k]);
        assert_false(ls_sums_add(s, &terms[k], 0, NAN, 1, 1));
        assert_false(ls_sums_add(s, &terms[k], 0, 1, INFINITY, 1));
        assert_true(ls_sums_add(s, &terms[k], 0, k == 0 ? 1e30 : 2, 2, 1));
        assert_true(ls_sums_add(s, &terms[k], 0, 1, 3, 1) == (k != 2)); /* of three classes */
        assert_true(ls_sums_add(s, &terms[k], 0, 1, -1, 1) == (k != 2));
        assert_true(isnan(ls_sums_value(s, NULL, &terms[k]))); /* nothing was counted */
        free(s);
    }
}

/* Why a metric has no value: of an AUC also because there is one class only. */
static void undefined_metrics(void **state)
{
    (void)state;
    const ls_term rmse = { .kind = LS_RMSE }, auc = { .kind = LS_AUC }, bound = { .kind = LS_AUC_BOUND };
    ls_sums *s = malloc(ls_sums_bytes(&auc)), *own = malloc(ls_sums_bytes(&bound));
    ls_sums_clear(s, &auc);
    ls_sums_clear(own, &bound);
    assert_true(isnan(ls_sums_value(s, NULL, &rmse)) && isnan(ls_sums_value(s, NULL, &auc)) &&
                isnan(ls_sums_value(own, s, &bound)));
    ASSERT_CONTAINS(ls_sums_undefined(s, NULL, &rmse), "no target counts");
    ASSERT_CONTAINS(ls_sums_undefined(s, NULL, &auc), "no target counts");
    ASSERT_CONTAINS(ls_sums_undefined(own, s, &bound), "no target counts");
    for (int i = 0; i < 3; i++) {
        assert_true(ls_sums_add(s, &auc, i, 0.25, 1, 1));
        ls_sums_count(s, 1);
    }
    assert_true(isnan(ls_sums_value(s, NULL, &auc)) && isnan(ls_sums_value(own, s, &bound)));
    ASSERT_CONTAINS(ls_sums_undefined(s, NULL, &auc), "all targets that count are of one class");
    ASSERT_CONTAINS(ls_sums_undefined(own, s, &bound), "all targets that count are of one class");
    free(s);
    free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undefined_metrics),
        cmocka_unit_test(any_parts_have_the_same_bits),
        cmocka_unit_test(r2_does_not_cancel),
        cmocka_unit_test(columns_are_apart),
        cmocka_unit_test(f1_by_hand),
        cmocka_unit_test(auc_is_within_its_bound),
        cmocka_unit_test(rows_that_cannot_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
