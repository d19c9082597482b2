/* objective.h - what is minimised and measured: the losses and metrics that a model declares (ls_loss,
 * ls_measure), as operations of a program, and as a list by which the trainer finds divisors and adds rows.
 */
#pragma once
#include "base/metric_list.h"
#include "graph/graph.h"

/* A loss or a metric. */
typedef struct ls_term {
    char name[LS_METRIC_NAME], field[64]; /* field: "": none */
    double factor;
    ls_weigh weigh;
    ls_how how;
    int kind;        /* as in ls_declared */
    int64_t classes; /* the same */
    bool loss, scalar, among;
    int64_t each;       /* rows of a sample */
    int64_t columns;    /* of the rows: their dimension 1, which LS_R2 keeps apart */
    int64_t inner;      /* row i is of column i / inner % columns */
    int64_t field_each; /* entries of the field of a sample */
} ls_term;

typedef struct ls_objective {
    ls_term *terms; /* losses first, in the order of the model, then metrics */
    int n_losses, n;
} ls_objective;
void ls_objective_release(ls_objective *o);

/* Appends the operations of the model's declarations, for `batch` samples, to the model's graph, and makes
 * their results outputs. Training: output LS_IS_LOSS 0 is minimised; with several losses LS_IS_LOSS 1, 2, ..
 * are the single ones. Each loss is divided by the input LS_IS_DIVISOR of the same number. Rows of samples
 * from number LS_IS_REAL on are padding and are not added. Evaluation: LS_IS_ROWS of each term, and
 * LS_IS_TARGETS where the term has targets. Errors name the model's line: LS_E_SHAPE, LS_E_ARG without a
 * loss. */
ls_status ls_objective_lower(ls_objective *out, ls_graph *g, int64_t batch, bool training);

/* The number of samples of the micro-batch that are not padding, as a value of the graph, i32: for rows that
 * are declared `among` the samples. An evaluation has it, too. */
ls_value ls_objective_real(ls_graph *g);

/* mixing.c: LS_E_USAGE, with the model's line, if a loss or a metric depends on other samples of the
 * micro-batch, so that padding would change it. ls_objective_check_padding also refuses every loss of
 * ls_loss_scalar. ls_objective_check_mixing accepts these: evaluations do not count them for incomplete
 * micro-batches. Neither refuses rows that are declared `among` the samples. Local. */
ls_status ls_objective_check_padding(const ls_graph *g, int64_t batch);
ls_status ls_objective_check_mixing(const ls_graph *g, int64_t batch);

/* The classes of an accuracy whose rows are the predicted ones, so that an evaluation can count each pair of
 * a true class and a predicted one; 0: another metric, or an accuracy of too many classes. */
static inline int ls_term_classes(const ls_term *t)
{
    return t->kind != LS_ACCURACY || !t->classes ? 0 : t->classes == 1 ? 2 : (int)t->classes;
}
/* Whether a loss or a metric compares samples of a micro-batch: an evaluation then has the same batches on
 * any number of ranks. */
static inline bool ls_objective_is_among(const ls_objective *o)
{
    for (int i = 0; i < o->n; i++)
        if (o->terms[i].among)
            return true;
    return false;
}
/* Whether an evaluation's program outputs rows of the term. The second function: and targets. */
static inline bool ls_term_has_rows(const ls_term *t) { return t->kind != LS_AUC_BOUND; }
static inline bool ls_term_has_targets(const ls_term *t)
{
    return t->kind == LS_F1 || t->kind == LS_R2 || t->kind == LS_AUC || ls_term_classes(t);
}
/* 1: a higher value is better; -1: a lower one is better; 0: the model does not say. */
int ls_term_direction(const ls_term *t);

/* How many LS_IS_LOSS outputs a run of `micro` has. */
static inline int ls_objective_losses(const ls_objective *o) { return o->n_losses > 1 ? 1 + o->n_losses : 1; }
