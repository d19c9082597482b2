/* evaluate.c - evaluates a whole split, whose samples the ranks share. evaluate_batch.c evaluates a batch. */
#include "evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/clock.h"
#include "base/sys.h"
#include "comm/agree.h"
#include "comm/axes.h"
#include "comm/group_calls.h"
#include "sums.h"
#include "trainer.h"

/* The sums of a rank: this struct, followed by the sums of each term. */
typedef struct split_sums {
    int64_t samples;
    /* The first sample with a row that is NaN or infinite, and the number of its term; INT64_MAX: none. */
    int64_t wild, wild_term;
    double wild_row;
    char of[];
} split_sums;

static size_t sums_bytes(const ls_objective *o)
{
    size_t n = sizeof(split_sums);
    for (int i = 0; i < o->n; i++)
        n += ls_sums_bytes(&o->terms[i]);
    return n;
}

static ls_sums *sums_of(const split_sums *s, const ls_objective *o, int term)
{
    const char *at = s->of;
    for (int i = 0; i < term; i++)
        at += ls_sums_bytes(&o->terms[i]);
    return (ls_sums *)(uintptr_t)at;
}

static void clear(split_sums *s, const ls_objective *o)
{
    *s = (split_sums){ .wild = INT64_MAX };
    for (int i = 0; i < o->n; i++)
        ls_sums_clear(sums_of(s, o, i), &o->terms[i]);
}

static double row_of(const ls_tensor *t, int64_t i)
{
    return t->type.dtype == LS_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

/* The weight of row i of a term, from its field; 1 without a field. */
static double weight(const ls_term *t, const ls_loader_field *f, int64_t i)
{
    const int64_t at = t->field_each == t->each ? i : i / t->each;
    if (!f)
        return 1;
    switch (f->field->type.dtype) {
    case LS_F32: return (double)((const float *)f->data)[at];
    case LS_F64: return ((const double *)f->data)[at];
    default: return ((const int32_t *)f->data)[at] != LS_IGNORE_LABEL;
    }
}

static const ls_loader_field *field_of(const ls_loader_step *b, const char *name)
{
    for (int k = 0; k < b->n_fields && *name; k++)
        if (!strcmp(b->fields[k].field->name, name))
            return &b->fields[k];
    return NULL;
}

/* A term, its sums, and its numbers of a batch, from the program and the loader. */
typedef struct batch_term {
    int number;
    const ls_term *term;
    ls_sums *sums;
    const ls_tensor *rows, *targets; /* targets: NULL: it has none */
    const ls_loader_field *field;
    ls_confusion *pairs; /* NULL: it has none */
} batch_term;

/* An ignored label whose row a mask lets count is of no class: the accuracy has it as a mistake. */
static void add_pair(ls_confusion *c, double is, double said)
{
    if (is >= 0 && is < c->classes && said >= 0 && said < c->classes)
        c->counts[(int64_t)is * c->classes + (int64_t)said]++;
}

/* Adds the rows of a sample, which is number `row` of its batch. A rank goes on after a wild row, because the
 * others wait for it in the next batch. */
static void add_sample(split_sums *s, const batch_term *b, int64_t sample, int64_t row)
{
    const ls_term *t = b->term;
    const bool by_row = t->kind || (t->weigh != LS_BY_SAMPLE && t->field_each == t->each);
    for (int64_t i = row * t->each; i < (row + 1) * t->each; i++) {
        const double w = weight(t, b->field, i);
        const bool multiplies = t->weigh != LS_OVER_FIELD;
        if (w == 0 && multiplies)
            continue;
        if (!ls_sums_add(b->sums, t, i, row_of(b->rows, i), b->targets ? row_of(b->targets, i) : 0,
                         multiplies ? w : 1)) {
            if (sample < s->wild) {
                s->wild = sample;
                s->wild_term = b->number;
                s->wild_row = row_of(b->rows, i);
            }
            continue;
        }
        if (b->pairs)
            add_pair(b->pairs, ls_sums_class(t, row_of(b->targets, i)), row_of(b->rows, i));
        if (by_row)
            ls_sums_count(b->sums, w);
    }
    if (!by_row)
        ls_sums_count(b->sums, weight(t, b->field, row * t->each));
}

/* Copies of the program's results for a batch. */
typedef struct batch_rows {
    ls_tensor *rows, *targets; /* [objective.n], as the trainer's places */
    char *memory;
} batch_rows;

static ls_status make_rows(batch_rows *out, const ls_trainer *t)
{
    const int n = t->compiled.objective.n;
    size_t bytes = 0;
    *out = (batch_rows){ .rows = ls_sys_calloc(2 * (size_t)n, sizeof *out->rows) };
    LS_TRY(ls_sys_have(out->rows));
    out->targets = out->rows + n;
    for (int pass = 0; pass < 2; pass++, bytes = 0) {
        for (int i = 0; i < 2 * n; i++) {
            const ls_place *from = i < n ? &t->rows[i] : &t->targets[i - n];
            if (pass)
                out->rows[i] = ls_tensor_of(out->memory + bytes, &from->type);
            bytes += ls_place_present(from) ? (ls_type_bytes(&from->type) + 7) / 8 * 8 : 0;
        }
        if (!pass)
            LS_TRY(ls_sys_have(out->memory = ls_sys_malloc(bytes)));
    }
    return LS_OK;
}

static void release_rows(batch_rows *r)
{
    free(r->rows);
    free(r->memory);
}

static ls_status read_rows(const batch_rows *to, const ls_trainer *t)
{
    for (int i = 0; i < t->compiled.objective.n; i++) {
        if (ls_place_present(&t->rows[i]))
            LS_TRY(ls_session_fetch(&t->rows[i], to->rows[i].data, ls_type_bytes(&to->rows[i].type)));
        if (ls_place_present(&t->targets[i]))
            LS_TRY(
                ls_session_fetch(&t->targets[i], to->targets[i].data, ls_type_bytes(&to->targets[i].type)));
    }
    return ls_session_wait(t->session);
}

static int64_t real_of(const ls_order *order, int64_t step, int64_t m)
{
    int64_t real = 0;
    while (real < order->micro_batch && ls_order_sample(order, 0, step, m, real) >= 0)
        real++;
    return real;
}

static ls_status add_batch(split_sums *s, const ls_confusions *pairs, const batch_rows *rows,
                           const ls_trainer *t, const ls_order *order, const ls_loader_step *b, int64_t m)
{
    const ls_objective *o = &t->compiled.objective;
    const int64_t real = real_of(order, b->step, m);
    ls_confusion *next = pairs->at;
    LS_TRY(read_rows(rows, t));
    s->samples += real;
    for (int i = 0; i < o->n; i++) {
        const ls_term *term = &o->terms[i];
        const batch_term of = { .number = i,
                                .term = term,
                                .sums = sums_of(s, o, i),
                                .rows = &rows->rows[i],
                                .targets = ls_term_has_targets(term) ? &rows->targets[i] : NULL,
                                .field = field_of(b, term->field),
                                .pairs = pairs->n && ls_term_classes(term) ? next++ : NULL };
        for (int64_t row = 0; row < real && !term->scalar && ls_term_has_rows(term); row++)
            add_sample(s, &of, ls_order_sample(order, 0, b->step, m, row), row);
        /* a loss of a whole micro-batch: ls_evaluate has refused all other kinds (mixing) */
        if (term->scalar && real) {
            ls_exact_add(&of.sums->rows, row_of(of.rows, 0));
            ls_sums_count(of.sums, 1);
        }
    }
    return LS_OK;
}

static void merge(split_sums *to, const split_sums *from, const ls_objective *o)
{
    to->samples += from->samples;
    if (from->wild < to->wild) {
        to->wild = from->wild;
        to->wild_term = from->wild_term;
        to->wild_row = from->wild_row;
    }
    for (int i = 0; i < o->n; i++)
        ls_sums_merge(sums_of(to, o, i), sums_of(from, o, i), &o->terms[i]);
}

/* Adds the sums of all ranks. */
static ls_status combine(split_sums *s, const ls_trainer *t)
{
    const ls_objective *o = &t->compiled.objective;
    const ls_mesh *mesh = &t->compiled.parallel.mesh;
    const int ranks = ls_group_size(t->group);
    const size_t bytes = sums_bytes(o);
    char *all = ls_sys_malloc(bytes * (size_t)ranks);
    if (!all)
        return ls_fail(LS_E_MEMORY, "out of memory for the sums of %d ranks", ranks);
    const ls_status status = ls_group_all_gather(t->group, s, bytes, all);
    if (status == LS_OK)
        clear(s, o);
    for (int r = 0; r < ranks && status == LS_OK; r++)
        if (ls_mesh_has_results(mesh, r))
            /* the others computed parts of the same samples */
            merge(s, (const split_sums *)(const void *)(all + bytes * (size_t)r), o);
    free(all);
    return status;
}

static void explain(ls_eval_result *out, const char *name, const char *why)
{
    for (int i = 0; i < out->metrics.n; i++)
        if (!strcmp(out->metrics.at[i].name, name))
            out->why[i] = why;
}

static ls_status result(const split_sums *s, const ls_objective *o, double start, ls_eval_result *out)
{
    if (s->wild != INT64_MAX) {
        const ls_term *t = &o->terms[s->wild_term];
        return ls_fail(
            LS_E_NUMERIC,
            "evaluation: the %s%s of sample %lld is %g; the weights are damaged or training diverged",
            t->loss && o->n_losses > 1 ? "loss " : "", t->name, (long long)s->wild,
            isnan(s->wild_row) ? (double)NAN : s->wild_row); /* without the sign that printf would show */
    }
    *out = (ls_eval_result){ .seconds = ls_now() - start, .samples = s->samples };
    ls_metric_list_set(&out->metrics, "loss", 0);
    int counted = 0;
    for (int i = 0; i < o->n; i++) {
        const ls_term *t = &o->terms[i];
        const ls_sums *before = i ? sums_of(s, o, i - 1) : NULL;
        const double x = ls_sums_value(sums_of(s, o, i), before, t);
        const char *why = isnan(x) ? ls_sums_undefined(sums_of(s, o, i), before, t) : NULL;
        out->loss += t->loss ? t->factor * x : 0;
        if (!t->loss || o->n_losses > 1) {
            ls_metric_list_set(&out->metrics, t->name, x);
            explain(out, t->name, why);
        }
        if (t->loss && why)
            explain(out, "loss", why);
        if (!t->loss && !strcmp(t->name, "accuracy"))
            counted = i;
    }
    ls_metric_list_set(&out->metrics, "loss", out->loss);
    out->accuracy = ls_metric_list_find(&out->metrics, "accuracy");
    out->count = (int64_t)ls_exact_value(&sums_of(s, o, counted)->divisor);
    out->correct = isnan(out->accuracy) ? 0 : llround(out->accuracy * (double)out->count);
    return ls_metric_list_status(&out->metrics);
}

void ls_eval_result_release(ls_eval_result *e)
{
    ls_metric_list_release(&e->metrics);
    ls_confusions_release(&e->confusions);
}

/* ---- pairs of a true class and a predicted one */

bool ls_dataset_is_text(const ls_dataset *set)
{
    const ls_field *targets = ls_dataset_field(set, "targets");
    return targets && targets->type.ndim > 0 && targets->type.dtype == LS_I32;
}

/* Pairs of tokens would say nothing. */
static ls_status make_pairs(ls_confusions *out, const ls_objective *o, const ls_dataset *set)
{
    for (int i = 0; i < o->n && !ls_dataset_is_text(set); i++) {
        const int classes = ls_term_classes(&o->terms[i]);
        const ls_field *f = *o->terms[i].field ? ls_dataset_field(set, o->terms[i].field) : NULL;
        if (classes)
            LS_TRY(ls_confusions_add(out, o->terms[i].name, classes,
                                     f && f->names && f->below == classes ? f->names : NULL));
    }
    return LS_OK;
}

/* Adds the counts of all ranks, a part at a time: the matrix of many classes is large. */
static ls_status combine_pairs(ls_confusion *c, const ls_trainer *t)
{
    enum { PART = 1 << 13 };
    const ls_mesh *mesh = &t->compiled.parallel.mesh;
    const int64_t n = (int64_t)c->classes * c->classes;
    ls_status s = LS_OK;
    for (int64_t at = 0; at < n && s == LS_OK; at += PART) {
        const int64_t part = n - at < PART ? n - at : PART;
        int64_t *mine = c->counts + at;
        void *all = NULL;
        s = ls_group_all_gather_new(t->group, mine, sizeof *mine * (size_t)part, &all);
        if (s == LS_OK)
            memset(mine, 0, sizeof *mine * (size_t)part);
        for (int r = 0; r < ls_group_size(t->group) && s == LS_OK; r++)
            for (int64_t i = 0; i < part && ls_mesh_has_results(mesh, r); i++)
                mine[i] += ((const int64_t *)all)[(int64_t)r * part + i];
        free(all);
    }
    return s;
}

static void evaluate_show(const ls_ui *ui, int64_t done, int64_t total, double start)
{
    if (ui && ui->progress)
        ui->progress(ui->context, &(ls_progress){ .what = "evaluating",
                                                  .done = done < total ? done : total,
                                                  .total = total,
                                                  .unit = "samples",
                                                  .rate = (double)done / (ls_now() - start) });
}

/* LS_E_STOPPED if the evaluation ends here, on all ranks. */
static ls_status evaluate_ask(ls_rounds *w, int64_t done, int64_t total)
{
    if (w)
        LS_TRY(ls_rounds_next(w));
    return w && w->asked ? ls_fail(LS_E_STOPPED, "stopped after %lld of %lld samples of an evaluation",
                                   (long long)done, (long long)total)
                         : LS_OK;
}

ls_status ls_evaluate_check(const ls_trainer *t, const ls_dataset *set)
{
    const int64_t batch = t->compiled.eval_batch * ls_mesh_data_ranks(&t->compiled.parallel.mesh);
    LS_TRY(ls_trainer_check_data(t, set));
    return set->n % batch == 0 || !t->compiled.mixing
               ? LS_OK
               : ls_fail(LS_E_USAGE, "evaluation of %lld samples, %lld at once: %s", (long long)set->n,
                         (long long)batch, t->compiled.mixing);
}

ls_status ls_evaluate(ls_trainer *t, const ls_dataset *set, const ls_ui *ui, ls_rounds *rounds,
                      ls_eval_result *out)
{
    double start = ls_now();
    *out = (ls_eval_result){ .seconds = 0 };
    const ls_mesh *mesh = &t->compiled.parallel.mesh;
    const int64_t ranks = ls_mesh_data_ranks(mesh), rank = ls_mesh_data_rank(mesh, t->compiled.parallel.rank);
    const int64_t batch = t->compiled.eval_batch;
    ls_order order = {
        .n = set->n, .global_batch = batch * ranks, .micro_batch = batch, .shuffle = false, .drop_last = false
    };
    const ls_objective *o = &t->compiled.objective;
    order.blocks = ls_objective_is_among(o);
    split_sums *s = ls_sys_malloc(sums_bytes(o));
    batch_rows rows = { 0 };
    ls_confusions pairs = { 0 };
    ls_loader *loader = NULL;
    bool done = false;
    ls_status status = ls_sys_have(s);
    if (status == LS_OK)
        status = make_rows(&rows, t);
    if (status == LS_OK)
        status = ls_evaluate_check(t, set);
    if (status == LS_OK)
        status = make_pairs(&pairs, o, set);
    if (status == LS_OK)
        status = ls_order_check(&order);
    if (status == LS_OK)
        status = ls_loader_create(&loader, set, &order, .epochs = 1, .share = { rank, ranks, 1 });
    if (t->group)
        status = ls_ranks_agree(t->group, status);
    const int64_t steps = status == LS_OK ? ls_order_steps(&order) : 0;
    if (status == LS_OK)
        clear(s, o);
    for (int64_t k = 0; k < steps && status == LS_OK; k++) {
        ls_loader_step b;
        status = evaluate_ask(rounds, k * order.global_batch, set->n);
        if (status == LS_OK)
            status = ls_loader_next(loader, &b, &done);
        if (status == LS_OK)
            status = ls_trainer_feed(t, &b);
        if (status == LS_OK)
            status = ls_trainer_put_real(t, real_of(&order, b.step, rank));
        if (status == LS_OK)
            status = ls_trainer_eval_fed(t);
        if (status == LS_OK && !ls_trainer_has_results(t))
            status = ls_session_wait(t->session);
        else if (status == LS_OK)
            status = add_batch(s, &pairs, &rows, t, &order, &b, rank);
        if (status == LS_OK) {
            evaluate_show(ui, (k + 1) * order.global_batch, set->n, start);
        } else if (t->group && status != LS_E_PEER && status != LS_E_STOPPED)
            ls_group_fail(t->group, status, ls_error_message()); /* the others wait in a collective */
    }
    if (status == LS_OK && t->group)
        status = combine(s, t);
    for (int i = 0; i < pairs.n && status == LS_OK && t->group; i++)
        status = combine_pairs(&pairs.at[i], t);
    if (status == LS_OK)
        status = result(s, o, start, out);
    if (status == LS_OK)
        out->confusions = pairs;
    else
        ls_confusions_release(&pairs);
    if (status != LS_OK)
        ls_eval_result_release(out);
    if (ui && ui->progress)
        ui->progress(ui->context, NULL);
    ls_loader_destroy(&loader);
    release_rows(&rows);
    free(s);
    return status;
}

ls_status ls_trainer_evaluate(ls_trainer *t, const ls_dataset *set, ls_metric *out, int max, int *n)
{
    LS_ARG(t);
    LS_ARG(set);
    LS_ARG(out);
    LS_ARG(n);
    LS_TRAINER_USE(t);
    const ls_objective *o = &t->compiled.objective;
    const int first = o->n_losses > 1 ? 0 : 1; /* a single loss is shown once, as the sum */
    ls_eval_result e;
    LS_TRY(ls_evaluate(t, set, NULL, NULL, &e));
    *n = e.metrics.n;
    for (int i = 0; i < *n && i < max; i++)
        out[i] = (ls_metric){ i ? o->terms[first + i - 1].name : "loss", e.metrics.at[i].value };
    ls_eval_result_release(&e);
    return LS_OK;
}
