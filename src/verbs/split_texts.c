/* split_texts.c - see split_texts.h. */
#include "split_texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sys.h"
#include "comm/agree.h"
#include "comm/group_calls.h"
#include "text/rouge.h"

/* Rows of a run of `decode`: its time is that of the weights, whatever the rows, up to about so many. So a
 * rank generates at most so many texts at once. */
enum { ROWS = 32 };

typedef struct batch {
    ls_text_model *m;
    const ls_dataset *set;
    int64_t at_once;
    int32_t *ids, *targets; /* of the samples, as the data set gives them */
    ls_tokens *prompts, *texts;
} batch;

static void release(batch *b)
{
    for (int64_t i = 0; b->texts && i < b->at_once; i++)
        free(b->texts[i].ids);
    free(b->ids);
    free(b->targets);
    free(b->prompts);
    free(b->texts);
}

static ls_status agree(ls_group *g, ls_status s) { return g ? ls_ranks_agree(g, s) : s; }
static int64_t ranks_of(const ls_split_opts *o) { return o->group ? ls_group_size(o->group) : 1; }

static ls_status allocate(batch *b)
{
    const int64_t source = ls_type_count(&b->set->fields[0].type),
                  target = ls_type_count(&b->set->fields[1].type);
    b->ids = ls_sys_malloc(sizeof *b->ids * (size_t)(b->at_once * source));
    b->targets = ls_sys_malloc(sizeof *b->targets * (size_t)(b->at_once * target));
    b->prompts = ls_sys_calloc((size_t)b->at_once, sizeof *b->prompts);
    b->texts = ls_sys_calloc((size_t)b->at_once, sizeof *b->texts);
    return b->ids && b->targets && b->prompts && b->texts
               ? LS_OK
               : ls_fail(LS_E_MEMORY, "out of memory for %lld samples", (long long)b->at_once);
}

static ls_status begin(batch *b, const ls_split_opts *o)
{
    const ls_generator_opts g = { LS_GENERATOR_DEFAULTS, .source = ls_type_count(&b->set->fields[0].type),
                                  .places = o->how.tokens, .prompts = b->at_once, .beams = o->beams };
    LS_TRY(agree(o->group, allocate(b)));
    return ls_text_model_generator(b->m, &g);
}

/* Padding behind a source is id 0. */
static ls_status read_samples(batch *b, const ls_split_choice *c, int64_t at, int64_t n)
{
    const int64_t source = ls_type_count(&b->set->fields[0].type),
                  target = ls_type_count(&b->set->fields[1].type);
    for (int64_t i = 0; i < n; i++) {
        int32_t *ids = b->ids + i * source;
        LS_TRY(b->set->read(b->set, ls_split_sample(c, at + i),
                            (void *const[]){ ids, b->targets + i * target }));
        int64_t tokens = source;
        while (tokens > 0 && ids[tokens - 1] == 0)
            tokens--;
        b->prompts[i] = (ls_tokens){ .ids = ids, .n = tokens };
        b->texts[i].n = 0;
    }
    return LS_OK;
}

/* Ids that are not tokens have no text: a model's vocabulary may be larger than the tokenizer's. */
static ls_status decode(const ls_text_model *m, int32_t *ids, int64_t n, char **text, size_t *bytes)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] >= 0 && ids[i] < ls_tokenizer_size(m->tokenizer) && !ls_text_model_is_end(m, ids[i]))
            ids[kept++] = ids[i];
    return ls_tokenizer_decode(m->tokenizer, ids, kept, true, text, bytes);
}

static ls_status give(const batch *b, int64_t sample, int64_t i, const ls_split_opts *o)
{
    char *text = NULL, *target = NULL;
    const int64_t length = ls_type_count(&b->set->fields[1].type);
    ls_sample_text t = { .sample = sample };
    ls_status s = decode(b->m, b->texts[i].ids, b->texts[i].n, &text, &t.text_bytes);
    if (s == LS_OK)
        s = decode(b->m, b->targets + i * length, length, &target, &t.target_bytes);
    t.text = text;
    t.target = target;
    if (s == LS_OK)
        s = o->on_text(o->context, &t);
    free(text);
    free(target);
    return s;
}

static void show(const ls_ui *ui, int64_t done, int64_t total, double start)
{
    if (ui->progress)
        ui->progress(ui->context, &(ls_progress){ .what = "generating",
                                                  .done = done,
                                                  .total = total,
                                                  .unit = "texts",
                                                  .rate = (double)done / (ls_now() - start) });
}

/* Generates the texts of n samples, from number `at` of those taken. */
static ls_status generate(batch *b, const ls_split_opts *o, const ls_generate_opts *how, int64_t at,
                          int64_t n)
{
    if (n < 1)
        return LS_OK;
    const ls_split_choice *c = &o->samples;
    LS_TRY(read_samples(b, c, at, n));
    ls_generate_opts here = *how;
    here.sampling.seed += (uint64_t)(c->first + at); /* a text's random numbers do not depend on its batch */
    LS_TRY(ls_generate_all(b->m->generator, n, b->prompts, &here, b->texts));
    for (int64_t i = 0; i < n; i++)
        LS_TRY(give(b, ls_split_sample(c, at + i), i, o));
    return LS_OK;
}

/* LS_E_STOPPED if the work ends here, on all ranks. */
static ls_status ask(const ls_split_opts *o, int64_t done, int64_t count)
{
    if (!o->rounds)
        return LS_OK;
    LS_TRY(ls_rounds_next(o->rounds));
    return o->rounds->asked
               ? ls_fail(LS_E_STOPPED, "stopped after %lld of %lld texts", (long long)done, (long long)count)
               : LS_OK;
}

/* In rounds, so that no rank waits for another longer than a batch takes. A rank that is asked to stop ends
 * its batch at once, and then waits for what the others say. */
static ls_status split_texts_run(batch *b, const ls_split_opts *o, int64_t count, const ls_ui *ui)
{
    const ls_generate_opts how = ls_text_model_options(b->m, &o->how);
    const int64_t ranks = ranks_of(o), mine = o->group ? ls_group_rank(o->group) * b->at_once : 0,
                  round = ranks * b->at_once;
    const double start = ls_now();
    LS_TRY(begin(b, o));
    LS_TRY(ask(o, 0, count));
    for (int64_t at = 0; at < count; at += round) {
        const int64_t left = count - at - mine, all = count - at < round ? count - at : round;
        const ls_status s = generate(b, o, &how, at + mine, left < b->at_once ? left : b->at_once);
        LS_TRY(agree(o->group, s == LS_E_STOPPED && o->rounds ? LS_OK : s));
        LS_TRY(ask(o, at, count));
        LS_TRY(s);
        if (o->on_round)
            LS_TRY(o->on_round(o->context, all, b->at_once));
        show(ui, at + all, count, start);
    }
    return LS_OK;
}

ls_status ls_split_texts(ls_text_model *m, const ls_dataset *set, const ls_split_opts *o, const ls_ui *ui)
{
    const int64_t rest = set->n - o->samples.first, count = o->samples.n < rest ? o->samples.n : rest,
                  fit = o->beams < ROWS ? ROWS / o->beams : 1, ranks = ranks_of(o),
                  share = (count + ranks - 1) / ranks;
    batch b = { .m = m, .set = set, .at_once = fit < share ? fit : share };
    const ls_status s = split_texts_run(&b, o, count, ui);
    if (ui->progress)
        ui->progress(ui->context, NULL);
    release(&b);
    return s;
}

/* ---- ROUGE */

typedef struct comparison {
    ls_group *group;
    ls_rouge mine[ROWS]; /* of this rank in this round */
    int n;
    ls_rouge sum; /* in the order of the split */
    int64_t texts;
} comparison;

static ls_status compare(void *context, const ls_sample_text *t)
{
    comparison *c = context;
    return ls_rouge_of(&c->mine[c->n++], t->target, t->target_bytes, t->text, t->text_bytes);
}

static ls_status add_round(void *context, int64_t n, int64_t each)
{
    comparison *c = context;
    ls_rouge *all = NULL;
    if (c->group)
        LS_TRY(ls_group_all_gather_new(c->group, c->mine, sizeof c->mine, (void **)&all));
    for (int64_t i = 0; i < n; i++) {
        const ls_rouge *one = all ? &all[i / each * ROWS + i % each] : &c->mine[i];
        c->sum.rouge1 += one->rouge1;
        c->sum.rouge2 += one->rouge2;
        c->sum.rougeL += one->rougeL;
    }
    free(all);
    c->texts += n;
    c->n = 0;
    return LS_OK;
}

ls_status ls_split_compare(ls_metric_list *metrics, ls_texts_made *made, ls_text_model *m,
                           const ls_dataset *set, const ls_split_opts *o, const ls_ui *ui)
{
    const double start = ls_now();
    comparison c = { .group = o->group };
    ls_split_opts all = *o;
    all.on_text = compare;
    all.on_round = add_round;
    all.context = &c;
    *made = (ls_texts_made){ .texts = 0 };
    LS_TRY(ls_split_texts(m, set, &all, ui));
    const double n = (double)c.texts;
    *made = (ls_texts_made){ .texts = c.texts, .seconds = ls_now() - start };
    ls_metric_list_set(metrics, "rouge1", c.sum.rouge1 / n);
    ls_metric_list_set(metrics, "rouge2", c.sum.rouge2 / n);
    ls_metric_list_set(metrics, "rougeL", c.sum.rougeL / n);
    return ls_metric_list_status(metrics);
}
