/* exact.h - sums of doubles without rounding: the value does not depend on the order of terms, nor on how
 * they are divided among ranks. */
#pragma once
#include <stdint.h>

enum { LS_EXACT_DIGITS = 68 };

/* Digits of 32 bits, digit 0 in units of 2^-1074; each may hold more until it is carried. All zero: 0. */
typedef struct ls_exact {
    int64_t digit[LS_EXACT_DIGITS];
    int64_t terms; /* since the last carry */
} ls_exact;

void ls_exact_add(ls_exact *e, double x); /* x is finite */
/* Adds factor * other, exactly down to 2^-1022. Both are far from overflow. */
void ls_exact_add_scaled(ls_exact *e, const ls_exact *other, double factor);
void ls_exact_merge(ls_exact *e, const ls_exact *other);
double ls_exact_value(const ls_exact *e); /* rounded once, to nearest even */
