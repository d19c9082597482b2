/* split_texts.c - see split_texts.h. */
#include "split_texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sys.h"

/* Rows of a run of `decode`: its time is that of the weights, whatever the rows, up to about so many. */
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

static ls_status begin(batch *b, const ls_split_opts *o)
{
    const int64_t source = ls_type_count(&b->set->input), target = ls_type_count(&b->set->target);
    const ls_generator_opts g = { LS_GENERATOR_DEFAULTS, .source = source, .places = o->how.tokens,
                                  .prompts = b->at_once, .beams = o->beams };
    b->ids = ls_sys_malloc(sizeof *b->ids * (size_t)(b->at_once * source));
    b->targets = ls_sys_malloc(sizeof *b->targets * (size_t)(b->at_once * target));
    b->prompts = ls_sys_calloc((size_t)b->at_once, sizeof *b->prompts);
    b->texts = ls_sys_calloc((size_t)b->at_once, sizeof *b->texts);
    if (!b->ids || !b->targets || !b->prompts || !b->texts)
        return ls_fail(LS_E_MEMORY, "out of memory for %lld samples", (long long)b->at_once);
    return ls_text_model_generator(b->m, &g);
}

/* Padding behind a source is id 0. */
static ls_status read_samples(batch *b, int64_t first, int64_t n)
{
    const int64_t source = ls_type_count(&b->set->input), target = ls_type_count(&b->set->target);
    for (int64_t i = 0; i < n; i++) {
        int32_t *ids = b->ids + i * source;
        LS_TRY(b->set->read(b->set, first + i, ids, b->targets + i * target));
        int64_t tokens = source;
        while (tokens > 0 && ids[tokens - 1] == 0)
            tokens--;
        b->prompts[i] = (ls_tokens){ .ids = ids, .n = tokens };
        b->texts[i].n = 0;
    }
    return LS_OK;
}

/* Ids that are no tokens have no text: a model's vocabulary may be larger than the tokenizer's. */
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
    const int64_t length = ls_type_count(&b->set->target);
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

static ls_status run(batch *b, const ls_split_opts *o, int64_t count, const ls_ui *ui)
{
    const ls_generate_opts how = ls_text_model_options(b->m, &o->how);
    const double start = ls_now();
    LS_TRY(begin(b, o));
    for (int64_t at = 0; at < count; at += b->at_once) {
        const int64_t n = count - at < b->at_once ? count - at : b->at_once;
        if (ui->stop && *ui->stop)
            return ls_fail(LS_E_STOPPED, "stopped after %lld of %lld texts", (long long)at, (long long)count);
        LS_TRY(read_samples(b, o->first + at, n));
        LS_TRY(ls_generate_all(b->m->generator, n, b->prompts, &how, b->texts));
        for (int64_t i = 0; i < n; i++)
            LS_TRY(give(b, o->first + at + i, i, o));
        show(ui, at + n, count, start);
    }
    return LS_OK;
}

ls_status ls_split_texts(ls_text_model *m, const ls_dataset *set, const ls_split_opts *o, const ls_ui *ui)
{
    if (o->first < 0 || o->count < 1 || o->first >= set->n)
        return ls_fail(LS_E_USAGE, "--first %lld --count %lld: the split has samples 0 to %lld",
                       (long long)o->first, (long long)o->count, (long long)set->n - 1);
    const int64_t count = o->count < set->n - o->first ? o->count : set->n - o->first,
                  fit = o->beams < ROWS ? ROWS / o->beams : 1;
    batch b = { .m = m, .set = set, .at_once = fit < count ? fit : count };
    const ls_status s = run(&b, o, count, ui);
    if (ui->progress)
        ui->progress(ui->context, NULL);
    release(&b);
    return s;
}

/* ---- ROUGE */

static ls_status compare(void *context, const ls_sample_text *t)
{
    ls_split_rouge *r = context;
    ls_rouge one;
    LS_TRY(ls_rouge_of(&one, t->target, t->target_bytes, t->text, t->text_bytes));
    r->mean.rouge1 += one.rouge1;
    r->mean.rouge2 += one.rouge2;
    r->mean.rougeL += one.rougeL;
    r->samples++;
    return LS_OK;
}

ls_status ls_split_rouge_of(ls_split_rouge *out, const ls_recipe_arg *target, const ls_split_opts *o,
                            const ls_ui *ui)
{
    const double start = ls_now();
    ls_split_opts all = *o;
    ls_text_model m;
    ls_dataset *set = NULL;
    *out = (ls_split_rouge){ .samples = 0 };
    all.on_text = compare;
    all.context = out;
    LS_TRY(ls_text_model_open(&m, target, true));
    ls_status s = ls_setup_data(&set, m.target.recipe, &m.setup, LS_SPLIT_EVAL, ui);
    if (s == LS_OK)
        s = ls_split_texts(&m, set, &all, ui);
    ls_dataset_close(&set);
    ls_text_model_release(&m);
    LS_TRY(s);
    out->mean.rouge1 /= (double)out->samples;
    out->mean.rouge2 /= (double)out->samples;
    out->mean.rougeL /= (double)out->samples;
    out->seconds = ls_now() - start;
    return LS_OK;
}
