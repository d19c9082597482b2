/* fused.h - comparing a graph with its fused copy. */
#pragma once
#include "device/device.h"
#include "lockstep/nn.h"
#include "passes/evaluate.h"

/* What a case builds on: x, y [6, 32], row [32], w, u [32, 32], b [32], all of one type; two products of x.
 */
typedef struct parts {
    ls_graph *g;
    ls_dtype t;
    ls_value x, y, row, w, u, b, p, q;
} parts;

ls_value constant_of(parts *c, double v);
void add_output(parts *c, const char *name, ls_value v);

/* Before and after on every device that computes this type. */
void compare_fused(ls_graph *before, ls_dtype t, const char *name);
