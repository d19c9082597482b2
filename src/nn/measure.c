/* measure.c - metrics of predictions against targets (ls_measure_against), as rows that do not depend on
 * other samples. step/sums.c makes one number of them. All of it computes in f32 at least, whatever the model
 * does. */
#define LS_NO_CALL_SITES
#include <stdio.h>
#include <string.h>

#include "base/argument.h"
#include "base/confusion.h"
#include "base/field.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "lockstep/nn.h"
#include "nn/measure.h"

static const char *const NAMES[] = { [LS_ACCURACY] = "LS_ACCURACY",
                                     [LS_F1] = "LS_F1",
                                     [LS_RMSE] = "LS_RMSE",
                                     [LS_MAE] = "LS_MAE",
                                     [LS_R2] = "LS_R2",
                                     [LS_PERPLEXITY] = "LS_PERPLEXITY",
                                     [LS_AUC] = "LS_AUC" };

static ls_value as_float(ls_graph *g, ls_value v)
{
    return ls_dtype_is_float(ls_value_type(g, v).dtype) ? ls_add_const(g, v, 0) : ls_cast(g, v, LS_F32);
}

/* 1 where v > limit, else 0 */
static ls_value above(ls_graph *g, ls_value v, double limit)
{
    return ls_gt(g, v, ls_fill(g, LS_SCALAR(LS_F32), limit));
}

/* Of which shape the operands must be; NULL: of the shape that they are. */
static const char *wrong_shape(ls_metric_kind kind, const ls_type *p, const ls_type *t)
{
    const int64_t n = ls_type_count(p), rows = ls_type_count(t);
    const bool same = p->ndim > 0 && n == rows && p->dims[0] == t->dims[0];
    const bool logits = p->ndim == 2 && p->dims[0] == rows && p->dims[1] > 1;
    if (!ls_dtype_is_float(p->dtype))
        return "what is predicted must be floats";
    switch (kind) {
    case LS_RMSE:
    case LS_MAE:
    case LS_R2: return same ? NULL : "the target must have the shape of what is predicted";
    case LS_PERPLEXITY:
        return logits && t->dtype == LS_I32 ? NULL : "it takes logits [rows, classes] and targets i32 [rows]";
    case LS_AUC: return same ? NULL : "it takes one score for each target";
    default:
        return same || logits
                   ? NULL
                   : "it takes logits [rows, classes], or one score a row, and a target for each row";
    }
}

/* Fills rows, targets and what they mean. */
static void make_rows(ls_graph *g, ls_declared *d, ls_value predicted, ls_value target)
{
    const ls_type p = ls_value_type(g, predicted), t = ls_value_type(g, target);
    const bool logits = ls_type_count(&p) != ls_type_count(&t);
    if (logits && t.ndim != 1)
        target = ls_reshape_dims(g, target, 1, p.dims);
    const bool many = logits && p.dims[1] > LS_CONFUSION_MOST;
    if (d->kind == LS_PERPLEXITY || (d->kind == LS_ACCURACY && many)) {
        d->rows = d->kind == LS_ACCURACY ? ls_correct(g, predicted, target)
                                         : ls_cross_entropy(g, predicted, target);
        return;
    }
    ls_wide_begin(g);
    d->targets = as_float(g, target);
    if (!logits)
        d->targets = ls_reshape_dims(g, d->targets, p.ndim, p.dims);
    switch (d->kind) {
    case LS_RMSE:
    case LS_R2: d->rows = ls_sub(g, predicted, d->targets); break;
    case LS_MAE: d->rows = ls_abs(g, ls_sub(g, predicted, d->targets)); break;
    case LS_AUC: d->rows = as_float(g, predicted); break;
    default: /* LS_ACCURACY, LS_F1: the class that is predicted */
        d->classes = logits ? p.dims[1] : 1;
        d->rows = logits ? ls_cast(g, ls_argmax(g, predicted), LS_F32) : above(g, predicted, 0);
        break;
    }
    ls_wide_end(g);
}

/* ---- what an evaluation is asked for */

static const struct {
    const char *word;
    ls_metric_kind kind;
} ASKED[] = { { "f1", LS_F1 }, { "auc", LS_AUC }, { "perplexity", LS_PERPLEXITY } };
enum { N_ASKED = sizeof ASKED / sizeof *ASKED };

static bool has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = words; at && (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' '))
            return true;
    return false;
}

/* Of two classes: how much larger the logit of class 1 is. */
static ls_value score_of(ls_graph *g, ls_value logits)
{
    const int64_t rows = ls_value_type(g, logits).dims[0];
    ls_wide_begin(g);
    const ls_value d = ls_sub(g, ls_slice(g, logits, 1, 1, 1), ls_slice(g, logits, 1, 0, 1));
    ls_wide_end(g);
    return ls_reshape_dims(g, d, 1, &rows);
}

/* The others stand beside each accuracy: "accuracy_kind" has "f1_kind". */
static void measure_asked(ls_graph *g, const char *accuracy, ls_value predicted, ls_value target,
                          ls_weigh weigh, const char *field)
{
    const ls_type p = ls_value_type(g, predicted), t = ls_value_type(g, target);
    const bool logits = ls_type_count(&p) != ls_type_count(&t), plain = !strncmp(accuracy, "accuracy", 8);
    for (int i = 0; i < N_ASKED; i++) {
        char name[96];
        ls_value of = predicted;
        if (!has_word(g->metrics, ASKED[i].word))
            continue;
        snprintf(name, sizeof name, "%s%s%s", ASKED[i].word, plain ? "" : "_",
                 plain ? accuracy + strlen("accuracy") : accuracy);
        if (ASKED[i].kind == LS_AUC && logits && p.dims[1] != 2) {
            ls_graph_error(g, LS_E_USAGE, "metric \"%s\": it compares two classes, the logits have %lld",
                           name, (long long)p.dims[1]);
            return;
        }
        if (ASKED[i].kind == LS_PERPLEXITY && !logits) {
            ls_graph_error(g, LS_E_USAGE, "metric \"%s\": it is of logits of classes, and this is a score",
                           name);
            return;
        }
        if (ASKED[i].kind == LS_AUC && logits)
            of = score_of(g, predicted);
        (ls_measure_against)(g, name, ASKED[i].kind, of, target, weigh, field);
    }
}

bool ls_measure_may_ask(const char *word)
{
    int k = 0;
    while (k < N_ASKED && strcmp(ASKED[k].word, word))
        k++;
    return k < N_ASKED;
}

ls_status ls_measure_check_asked(const ls_graph *g)
{
    char word[64];
    int used = 0;
    for (const char *at = g->metrics; at && sscanf(at, "%63s%n", word, &used) == 1; at += used) {
        int k = 0;
        bool measured = false;
        while (k < N_ASKED && strcmp(ASKED[k].word, word))
            k++;
        for (int i = 0; i < g->n_declared && k < N_ASKED; i++)
            measured = measured || g->declared[i].kind == (int)ASKED[k].kind;
        if (k == N_ASKED)
            return ls_fail_field(
                LS_E_USAGE, "metrics",
                "%s: it can be f1, auc or perplexity; loss, accuracy, rmse, mae and r2 are always "
                "there, precision and recall with the confusion matrix",
                word);
        if (!measured)
            return ls_fail_field(LS_E_USAGE, "metrics",
                                 "%s is of classes, and the model measures no accuracy", word);
    }
    return LS_OK;
}

void ls_measure_against(ls_graph *g, const char *name, ls_metric_kind kind, ls_value predicted,
                        ls_value target, ls_weigh weigh, const char *field)
{
    LS_ARG_VOID(g);
    LS_BUILD_ARG(g, name, );
    LS_BUILD_ENUM(g, ls_metric_kind, kind, LS_AUC, );
    if (kind < LS_ACCURACY) { /* kinds begin at 1 */
        ls_graph_error(g, LS_E_ARG, "metric \"%s\": there is no kind %d (ls_metric_kind)", name, (int)kind);
        return;
    }
    LS_BUILD_ENUM(g, ls_weigh, weigh, LS_BY_FIELD, );
    if (predicted.id <= 0 || target.id <= 0 || !ls_graph_has(g, predicted) || !ls_graph_has(g, target)) {
        ls_graph_error(g, LS_E_ARG, "metric \"%s\" is of no value of this graph", name);
        return;
    }
    const ls_type p = ls_value_type(g, predicted), t = ls_value_type(g, target);
    const char *wrong = wrong_shape(kind, &p, &t);
    char text[2][128];
    if (wrong || (weigh == LS_BY_FIELD && (kind == LS_F1 || kind == LS_AUC))) {
        ls_graph_error(g, LS_E_SHAPE, "metric \"%s\": %s(%s, %s): %s", name, NAMES[kind],
                       ls_type_text(text[0], &p), ls_type_text(text[1], &t),
                       wrong ? wrong : "it counts rows, so they have no weights (LS_BY_FIELD)");
        return;
    }
    ls_declared d = { .name = name, .kind = (int)kind, .factor = 1, .weigh = weigh, .field = field };
    make_rows(g, &d, predicted, target);
    ls_graph_declare(g, d);
    if (kind == LS_ACCURACY && g->metrics)
        measure_asked(g, name, predicted, target, weigh, field);
    if (kind != LS_AUC)
        return;
    char bound[80];
    snprintf(bound, sizeof bound, "%s_bound", name);
    d.name = bound;
    d.kind = LS_AUC_BOUND;
    ls_graph_declare(g, d);
}
