/* planned.h - planning a graph for a device whose kernels the test declares. */
#pragma once
#include "lockstep/graph.h" /* before rules.h: with call sites */
#include "ops/rules.h"
#include "plan/internal.h"

void nothing(const ls_kernel_args *a);
size_t thousand(const ls_kernel_args *a);
const char *no_f64(const ls_kernel_args *a);

extern const ls_kernel KERNELS[];
extern const ls_device_ops TEST_DEVICE;
extern const ls_device DEVICE;
extern const ls_device APART; /* the same kernels; its memory is its own */

ls_graph *new_graph(void);

ls_plan *plan_of(ls_graph *g);

void release(ls_plan *p, ls_graph *g);

int count_steps(const ls_plan *p, const char *op);

const ls_alloc *alloc_named(const ls_plan *p, const char *name);

/* Output 0 of the n-th node of that op in the lowered graph. */
int value_of(const ls_plan *p, const char *op, int n);

const ls_location *place_of(const ls_plan *p, const char *op, int n);

size_t arena_allocs(const ls_plan *p);

extern const ls_identity GRADIENT;
