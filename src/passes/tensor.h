/* tensor.h - what the files of the tensor-parallel pass share. Private to src/passes. */
#pragma once
#include "graph/rewrite.h"
#include "passes.h"

/* How a parameter is split: COLUMNS of what it makes (rows of a weight, of a table), ROWS of what it takes (columns of a weight). How a value is: in its
 * last dimension (COLUMNS), or in all the others, taken as one (TOKENS): each rank has as many whole rows, one behind the other, as [rows, features]. */
enum { LS_WHOLE, LS_COLUMNS, LS_ROWS, LS_TOKENS };

typedef struct ls_tensor_job {
    ls_rewrite r;
    const ls_parallel *p;
    const char *rules, *rules_where_divided;
    int ranks, position;
    int *kind;          /* per old value: of a parameter, how it is split */
    int *layout;        /* per old value: of an activation, how it is */
    bool *table;        /* per old value: an embedding reads it */
    ls_value *entered;  /* per old value: its copy for the axis */
    int n_split;        /* parameters */
} ls_tensor_job;

/* The same value on every rank of the axis, for layers that each use a part of it: its gradient is the sum of what the parts give. */
ls_value ls_tensor_enter(ls_tensor_job *j, ls_value old);
/* The sum over the ranks of what each has a part of, as old value `old`: whole, or with parallel.sequence in TOKENS. */
ls_status ls_tensor_leave(ls_tensor_job *j, ls_value old, ls_value part);
/* What messages and plans call the place of node n. */
const char *ls_tensor_place(const ls_tensor_job *j, const ls_node *n);
ls_status ls_tensor_refuse(const ls_node *n, const char *why);

/* tensor_vocabulary.c: tables and classes of which each rank has some. */
ls_status ls_tensor_embedding(ls_tensor_job *j, const ls_node *n);
ls_status ls_tensor_cross_entropy(ls_tensor_job *j, const ls_node *n);
ls_status ls_tensor_argmax(ls_tensor_job *j, const ls_node *n);
