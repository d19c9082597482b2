/* place.h - which element of planes of rows x columns a number is. */
#pragma once
#include "dialect.h"

/* Of numbers that are not negative. 64-bit division takes about five times as long as 32-bit division. */
DEVICE i64 quotient(i64 a, i64 b) { return (a | b) >> 32 ? a / b : (i64)((u32)a / (u32)b); }

typedef struct place {
    i64 plane, row, column;
} place;

DEVICE place place_of(i64 number, i64 rows, i64 columns)
{
    const i64 line = quotient(number, columns);
    place p;
    p.plane = quotient(line, rows);
    p.row = line - p.plane * rows;
    p.column = number - line * columns;
    return p;
}
DEVICE i64 smaller(i64 a, i64 b) { return a < b ? a : b; }
DEVICE i64 larger(i64 a, i64 b) { return a > b ? a : b; }
