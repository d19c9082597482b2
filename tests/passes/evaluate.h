/* evaluate.h - runs a graph once through planner and session, with source values that depend on their names,
 * and compares the results: a graph must give the same bits before and after a pass. */
#pragma once
#include "graph/graph.h"
#include "passes/passes.h"

enum { EVALUATE_OUTPUTS = 96 };
typedef struct evaluated {
    int n;
    char name[EVALUATE_OUTPUTS][96];
    ls_type type[EVALUATE_OUTPUTS];
    void *data[EVALUATE_OUTPUTS];
    size_t arena_bytes, arena_live;
} evaluated;

/* Floats in +-1, labels 0..2, pixels any, "count" 4, "loss_scale" 1024. A state that `units` describes gets
 * each parameter's values by the parameter's name, so it is the same model as before. units may be NULL. */
evaluated evaluate(const ls_graph *g, const char *device, int isa, int threads, const ls_units *units);
void evaluated_release(evaluated *e);

double evaluated_number(const evaluated *e, int output, int64_t i);
/* Every output of a is one of b, with the same type and the same bits (a NaN is a NaN); `what` is for the
 * message. */
void expect_same_bits(const evaluated *a, const evaluated *b, const char *what);
/* The same within `relative` of the largest magnitude of each output. */
void expect_close(const evaluated *a, const evaluated *b, double relative, const char *what);
/* The devices that a promise is checked on: ref, then cpu at every level of this machine; false after the
 * last. */
bool evaluate_device(int k, const char **device, int *isa);

int count_ops(const ls_graph *g, const char *op);
/* Outputs "grad.NAME" for every parameter, of output "loss". */
void add_gradients(ls_graph *g);
/* The same graph again (a pass destroys what it is given). */
ls_graph *copy_graph(const ls_graph *g);
