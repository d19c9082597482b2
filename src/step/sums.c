/* sums.c - see sums.h. */
#include "sums.h"

#include <math.h>
#include <string.h>

enum { R2_ERROR, R2_WEIGHT, R2_TARGET, R2_SQUARE, R2_SUMS };
enum { TP, FP, FN, F1_COUNTS };
enum { INTERVALS = 1 << 16 };

static int64_t more(const ls_term *t)
{
    switch (t->kind) {
    case LS_R2: return t->columns * R2_SUMS * (int64_t)(sizeof(ls_exact) / sizeof(int64_t));
    case LS_F1: return t->classes * F1_COUNTS;
    case LS_AUC: return 2 * INTERVALS;
    default: return 0;
    }
}

size_t ls_sums_bytes(const ls_term *t) { return sizeof(ls_sums) + sizeof(int64_t) * (size_t)more(t); }

void ls_sums_clear(ls_sums *s, const ls_term *t)
{
    memset(s, 0, ls_sums_bytes(t));
    s->largest = -INFINITY;
    s->smallest = INFINITY;
}

static ls_exact *r2_of(const ls_sums *s, int64_t column)
{
    return (ls_exact *)(void *)(uintptr_t)s->more + column * R2_SUMS;
}

/* a * b without rounding; false: it overflows. */
static bool add_product(ls_exact *e, double a, double b)
{
    const double p = a * b;
    if (!isfinite(p))
        return false;
    ls_exact_add(e, p);
    ls_exact_add(e, fma(a, b, -p));
    return true;
}

static bool add_r2(ls_exact *e, double error, double target, double weight)
{
    const double square = target * target, rest = fma(target, target, -square);
    if (!isfinite(square) || !isfinite(error * error * weight))
        return false;
    ls_exact_add(&e[R2_ERROR], error * error * weight);
    ls_exact_add(&e[R2_WEIGHT], weight);
    return add_product(&e[R2_TARGET], target, weight) && add_product(&e[R2_SQUARE], square, weight) &&
           add_product(&e[R2_SQUARE], rest, weight);
}

static bool add_f1(int64_t *counts, int64_t classes, double row, double target)
{
    if (classes == 1) { /* only class 1 has counts */
        const bool said = row > 0.5, true_ = target > 0.5;
        counts[said ? (true_ ? TP : FP) : FN] += said || true_;
        return true;
    }
    if (!(target >= 0 && target < (double)classes))
        return false;
    const int64_t said = (int64_t)row, is = (int64_t)target;
    counts[F1_COUNTS * is + (said == is ? TP : FN)]++;
    if (said != is)
        counts[F1_COUNTS * said + FP]++;
    return true;
}

/* The upper 16 bits of a score, in the order of scores. */
static uint32_t interval(double score)
{
    const float f = (float)score + 0.0f; /* -0 is 0 */
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (bits & 0x80000000 ? ~bits : bits | 0x80000000) >> 16;
}

double ls_sums_class(const ls_term *t, double target)
{
    return t->classes == 1 ? (double)(target > 0.5) : target;
}

bool ls_sums_add(ls_sums *s, const ls_term *t, int64_t i, double row, double target, double weight)
{
    const double x = t->kind == LS_RMSE       ? row * row
                     : ls_term_classes(t) > 0 ? row == ls_sums_class(t, target)
                                              : row;
    if (!isfinite(x * weight) || !isfinite(target))
        return false;
    switch (t->kind) {
    case LS_R2: return add_r2(r2_of(s, i / t->inner % t->columns), row, target, weight);
    case LS_F1: return add_f1(s->more, t->classes, row, target);
    case LS_AUC: s->more[(target > 0.5 ? INTERVALS : 0) + interval(row)]++; return true;
    default: break;
    }
    ls_exact_add(&s->rows, x * weight);
    s->largest = fmax(s->largest, x);
    s->smallest = fmin(s->smallest, x);
    return true;
}

void ls_sums_count(ls_sums *s, double weight) { ls_exact_add(&s->divisor, weight); }

void ls_sums_merge(ls_sums *to, const ls_sums *from, const ls_term *t)
{
    ls_exact_merge(&to->rows, &from->rows);
    ls_exact_merge(&to->divisor, &from->divisor);
    to->largest = fmax(to->largest, from->largest);
    to->smallest = fmin(to->smallest, from->smallest);
    for (int64_t k = 0; k < t->columns * R2_SUMS && t->kind == LS_R2; k++)
        ls_exact_merge(r2_of(to, 0) + k, r2_of(from, 0) + k);
    for (int64_t k = 0; k < more(t) && t->kind != LS_R2; k++)
        to->more[k] += from->more[k];
}

/* The mean over columns of 1 - error / deviation, as scikit-learn has it: of a target that does not vary 1 if
 * there is no error, else 0. The deviation is the sum of weight * (target - m)^2 for m near the mean, whose
 * three terms are added exactly: they cancel where the mean is large beside the deviation. */
static double r2(const ls_sums *s, int64_t columns)
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t c = 0; c < columns; c++) {
        const ls_exact *e = r2_of(s, c);
        const double weight = ls_exact_value(&e[R2_WEIGHT]), error = ls_exact_value(&e[R2_ERROR]);
        if (weight == 0)
            continue;
        const double m = ls_exact_value(&e[R2_TARGET]) / weight, square = m * m;
        ls_exact deviation = e[R2_SQUARE];
        ls_exact_add_scaled(&deviation, &e[R2_TARGET], -2 * m);
        ls_exact_add_scaled(&deviation, &e[R2_WEIGHT], square);
        ls_exact_add_scaled(&deviation, &e[R2_WEIGHT], fma(m, m, -square));
        const double d = ls_exact_value(&deviation);
        sum += d > 0 ? 1 - error / d : error > 0 ? 0 : 1;
        n++;
    }
    return n ? sum / (double)n : NAN;
}

static double f1(const ls_sums *s, int64_t classes)
{
    double sum = 0;
    int64_t occur = 0;
    for (int64_t c = 0; c < classes; c++) {
        const int64_t *n = s->more + F1_COUNTS * c, all = 2 * n[TP] + n[FP] + n[FN];
        occur += all > 0;
        sum += all ? 2 * (double)n[TP] / (double)all : 0;
    }
    return occur ? sum / (double)occur : 0;
}

/* The AUC: the share of pairs, of a row of class 1 and one of class 0, that are in order; pairs in the same
 * interval count half. `bound`: half the share of these pairs, because all or none of them may be in
 * order. */
static double auc(const ls_sums *s, bool bound)
{
    const int64_t *zero = s->more, *one = s->more + INTERVALS;
    unsigned __int128 twice = 0, tied = 0;
    uint64_t zeros = 0, ones = 0;
    for (int i = 0; i < INTERVALS; i++) {
        twice += (unsigned __int128)one[i] * (2 * zeros + (uint64_t)zero[i]);
        tied += (unsigned __int128)one[i] * (uint64_t)zero[i];
        zeros += (uint64_t)zero[i];
        ones += (uint64_t)one[i];
    }
    return zeros && ones ? (double)(bound ? tied : twice) / (2 * (double)zeros * (double)ones) : NAN;
}

const char *ls_sums_undefined(const ls_sums *s, const ls_sums *before, const ls_term *t)
{
    return ls_exact_value(t->kind == LS_AUC_BOUND ? &before->divisor : &s->divisor) > 0
               ? "all targets that count are of one class"
               : "no target counts: all are ignored, masked or of weight 0";
}

double ls_sums_value(const ls_sums *s, const ls_sums *before, const ls_term *t)
{
    if (t->kind == LS_AUC_BOUND)
        return auc(before, true);
    const double divisor = ls_exact_value(&s->divisor), mean = ls_exact_value(&s->rows) / divisor;
    if (!t->kind && t->how == LS_COUNT)
        return divisor;
    if (divisor == 0)
        return NAN;
    switch (t->kind) {
    case LS_RMSE: return sqrt(mean);
    case LS_PERPLEXITY: return exp(mean);
    case LS_R2: return r2(s, t->columns);
    case LS_F1: return f1(s, t->classes);
    case LS_AUC: return auc(s, false);
    default: break;
    }
    switch (t->how) {
    case LS_SUM: return ls_exact_value(&s->rows);
    case LS_LARGEST: return s->largest;
    case LS_SMALLEST: return s->smallest;
    default: return mean;
    }
}
