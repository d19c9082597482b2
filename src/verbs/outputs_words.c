/* outputs_words.c - predictions for the words of texts: a class for each, that of its first token. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/shown.h"
#include "data/weighted_set.h"
#include "outputs_own.h"

/* What is said of a word. */
typedef struct word {
    ls_str text, class;
    char probability[32];
} word;

bool ls_outputs_has_words(const ls_outputs *j) { return j->n_outputs == 1 && j->as[0] == LS_AS_WORDS; }

ls_status ls_outputs_words_open(ls_outputs *j)
{
    if (!ls_outputs_has_words(j))
        return LS_OK;
    return ls_recipe_words(&j->words, j->saved.recipe, j->o->train_split ? LS_SPLIT_TRAIN : LS_SPLIT_EVAL,
                           j->o->n_inputs, j->o->inputs);
}

/* The row of its file. */
static int64_t words_row(const ls_outputs *j, int64_t sample)
{
    const int64_t row = ls_weighted_row(j->set, sample);
    return row < 0 ? sample : row;
}

static int64_t words_count(const ls_outputs *j, int64_t sample)
{
    const int64_t row = words_row(j, sample);
    return row < j->words.rows ? j->words.first[row + 1] - j->words.first[row] : 0;
}

/* Word i of a sample, which is `row` of the batch. A word without a token has neither class nor probability.
 */
static ls_status look(const ls_outputs *j, int64_t sample, int64_t row, int64_t i, word *w)
{
    const ls_array_word *at = &j->words.words[j->words.first[words_row(j, sample)] + i];
    const ls_type *t = &j->outputs[0].tensor.type;
    const int64_t classes = t->dims[t->ndim - 1];
    const float *x = (const float *)j->outputs[0].tensor.data + row * ls_type_count(t);
    double sum = 0;
    int64_t best = 0;
    ls_str_clear(&w->text);
    ls_str_clear(&w->class);
    w->probability[0] = 0;
    ls_str_add_n(&w->text, ls_str_text(&j->words.texts) + at->at, at->n);
    if (at->token >= 0) {
        x += at->token * classes;
        for (int64_t c = 1; c < classes; c++)
            best = x[c] > x[best] ? c : best;
        for (int64_t c = 0; c < classes; c++)
            sum += exp((double)x[c] - (double)x[best]);
        ls_outputs_add_class(&w->class, j, 0, best);
        ls_format_f32(w->probability, (float)(1 / sum));
    }
    LS_TRY(ls_str_status(&w->text));
    return ls_str_status(&w->class);
}

static void release(word *w)
{
    ls_str_release(&w->text);
    ls_str_release(&w->class);
}

void ls_outputs_words_header(const ls_outputs *j, ls_str *out)
{
    ls_str_printf(out, "%s,word,%s,%s.probability\n",
                  ls_weighted_row(j->set, 0) >= 0 ? "sample,row" : "sample", j->outputs[0].name,
                  j->outputs[0].name);
}

static void add_json(const ls_outputs *j, ls_json *json, const word *w)
{
    char name[160];
    const bool has = w->probability[0];
    snprintf(name, sizeof name, "%s.probability", j->outputs[0].name);
    ls_json_object(json, NULL);
    ls_json_text(json, "word", ls_str_text(&w->text));
    ls_json_text(json, j->outputs[0].name, has ? ls_str_text(&w->class) : NULL);
    ls_json_raw(json, name, has ? w->probability : "null");
    ls_json_close_object(json);
}

/* {"sample": 0, "words": [..]} */
static ls_status add_object(const ls_outputs *j, ls_json *json, const char *name, int64_t sample, int64_t row)
{
    word w = { 0 };
    ls_status s = LS_OK;
    ls_json_object(json, NULL);
    if (name)
        ls_json_text(json, "sample", name);
    else
        ls_json_int(json, "sample", sample);
    if (!name && ls_weighted_row(j->set, sample) >= 0)
        ls_json_int(json, "row", words_row(j, sample));
    ls_json_array(json, "words");
    for (int64_t i = 0; i < words_count(j, sample) && s == LS_OK; i++)
        if ((s = look(j, sample, row, i, &w)) == LS_OK)
            add_json(j, json, &w);
    ls_json_close_array(json);
    ls_json_close_object(json);
    release(&w);
    return s;
}

static ls_status add_csv(const ls_outputs *j, ls_str *out, int64_t sample, int64_t row)
{
    word w = { 0 };
    ls_status s = LS_OK;
    for (int64_t i = 0; i < words_count(j, sample) && s == LS_OK; i++) {
        if ((s = look(j, sample, row, i, &w)) != LS_OK)
            break;
        ls_str_printf(out, "%lld,", (long long)sample);
        if (ls_weighted_row(j->set, sample) >= 0)
            ls_str_printf(out, "%lld,", (long long)words_row(j, sample));
        ls_str_add_csv(out, ls_str_text(&w.text));
        ls_str_add(out, ",");
        ls_str_add_csv(out, ls_str_text(&w.class));
        ls_str_printf(out, ",%s\n", w.probability);
    }
    release(&w);
    return s;
}

ls_status ls_outputs_words_line(const ls_outputs *j, ls_str *out, int64_t sample, int64_t row, bool json)
{
    if (!json)
        return add_csv(j, out, sample, row);
    ls_json line = { 0 };
    const ls_status s = add_object(j, &line, NULL, sample, row);
    ls_str_append(out, &line.out);
    ls_str_add(out, "\n");
    ls_str_release(&line.out);
    return s;
}

ls_status ls_outputs_words_show(const ls_outputs *j, ls_table *table, ls_json *json, const char *name,
                                int64_t sample, int64_t row)
{
    word w = { 0 };
    ls_status s = add_object(j, json, name, sample, row);
    for (int64_t i = 0; i < words_count(j, sample) && s == LS_OK; i++)
        if ((s = look(j, sample, row, i, &w)) == LS_OK)
            ls_table_row(table,
                         (const char *[]){ name, ls_str_text(&w.text), ls_str_text(&w.class), w.probability },
                         NULL);
    release(&w);
    return s;
}
