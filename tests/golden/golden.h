/* golden.h - what PyTorch computed (tests/golden/NAME.safetensors, made by tools/golden/make.py) and how to
 * compare with it.
 *
 * Tolerances are relative to the largest magnitude of the expected tensor, so that a gradient's small
 * elements are judged beside its large ones. A comparison that fails names the tensor, the worst element with
 * both values, and what was allowed. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "lockstep/weights.h"

/* Opens tests/golden/NAME.safetensors; fails the test with a message if that cannot be. Close with
 * ls_weights_close. */
ls_weights *golden_open(const char *name);
/* A tensor by printf-style name; fails the test if it is not there. */
const ls_weight *golden_get(const ls_weights *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool golden_has(const ls_weights *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t golden_count(const ls_weight *t);
double golden_scalar(const ls_weights *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Its values as doubles, or as any type (floats converted); malloc'ed. */
double *golden_values(const ls_weight *t);
void *golden_values_as(const ls_weight *t, ls_dtype type);

/* Numbers by formula, the same as tools/golden/common.py: `formula` and `parameter`. */
double golden_formula(const char *name, int64_t i, double amplitude, double center);
/* A model's parameter `name` of this type (f32 or f64) as the golden runs start with it. */
void golden_parameter(const char *name, const ls_type *type, void *data);

/* Element k of a tensor that was sampled to n of `count` elements. */
static inline int64_t golden_sampled(int64_t k, int64_t n, int64_t count) { return k * count / n; }

/* |ours - want| at its worst, over the elements that `want` holds of ours (f32, f64, bf16 or f16; sampled if
 * it holds fewer). */
typedef struct golden_error {
    double worst;      /* largest absolute difference; infinity for a NaN on one side only */
    double ours, want; /* there */
    int64_t at;        /* element of ours */
    double norm;       /* 2-norm of the differences */
    double largest;    /* largest magnitude of `want` */
} golden_error;
golden_error golden_compare(const void *ours, const ls_type *type, const ls_weight *want);

/* Fails the test unless every element is within `relative` of the largest magnitude of `want` (or of
 * `scale`). `what`: where it was computed; the tensor's name follows in the message. */
void golden_expect_scaled(const char *what, const void *ours, const ls_type *type, const ls_weight *want,
                          double relative, double scale);
void golden_expect(const char *what, const void *ours, const ls_type *type, const ls_weight *want,
                   double relative);
