/* data_chat.c - see data_chat.h. */
#include "data_chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/sys.h"

/* A window of ids; token i is a target if targets[i - 1] is. */
typedef struct window {
    const int32_t *ids, *targets, *positions; /* positions NULL: one conversation */
    int64_t n;
} window;

static const int32_t *numbers_of(const ls_data_view *v, const char *field, int64_t k)
{
    for (int f = 0; f < v->set->n_fields; f++)
        if (!strcmp(v->set->fields[f].name, field))
            return (const int32_t *)(const void *)v->drawn[f] + k * ls_type_count(&v->set->fields[f].type);
    return NULL;
}

static bool is_target(const window *w, int64_t i) { return i > 0 && w->targets[i - 1] >= 0; }
static bool begins(const window *w, int64_t i) { return i == 0 || (w->positions && w->positions[i] == 0); }

static window window_of(const ls_data_view *v, int64_t k)
{
    window w = { numbers_of(v, "ids", k), numbers_of(v, "targets", k), numbers_of(v, "positions", k),
                 ls_type_count(&v->set->fields[0].type) };
    const int32_t end = v->set->end_token ? *v->set->end_token : -1;
    while (w.n > 1 && w.ids[w.n - 1] == end && !is_target(&w, w.n - 1)) /* padding */
        w.n--;
    return w;
}

/* Appends tokens [begin, end) of the conversation that begins at `from`: what they add to the text before. */
static ls_status add_tokens(const ls_data_view *v, const window *w, int64_t from, int64_t begin, int64_t end,
                            ls_str *out)
{
    char *before = NULL, *all = NULL;
    size_t n_before = 0, n_all = 0;
    ls_str some = { 0 };
    ls_status s = ls_tokenizer_decode(v->tokenizer, w->ids + from, begin - from, false, &before, &n_before);
    if (s == LS_OK)
        s = ls_tokenizer_decode(v->tokenizer, w->ids + from, end - from, false, &all, &n_all);
    if (s == LS_OK && n_all > n_before)
        ls_str_add_n(&some, all + n_before, n_all - n_before);
    ls_str_add_shown(out, ls_str_text(&some), true);
    ls_str_inherit(out, &some);
    ls_str_release(&some);
    free(before);
    free(all);
    return s;
}

static ls_status print_window(const ls_data_view *v, const window *w, const ls_ui *ui)
{
    const char *on = ui->colour ? "\033[32m" : "\xe2\x9f\xa6", *off = ui->colour ? "\033[0m" : "\xe2\x9f\xa7";
    ls_str text = { 0 };
    ls_status s = LS_OK;
    for (int64_t i = 0, from = 0, end; i < w->n && s == LS_OK; i = end) {
        const bool target = is_target(w, i);
        if (begins(w, i)) {
            ls_str_add(&text, i ? "\n--- another conversation, which sees none of the others\n" : "");
            from = i;
        }
        for (end = i + 1; end < w->n && is_target(w, end) == target && !begins(w, end);)
            end++;
        ls_str_add(&text, target ? on : "");
        s = add_tokens(v, w, from, i, end, &text);
        ls_str_add(&text, target ? off : "");
    }
    if (s == LS_OK)
        s = ls_print_result(ui->out, &text);
    ls_str_release(&text);
    return s;
}

ls_status ls_data_chat_print(const ls_data_view *v, const ls_ui *ui)
{
    int64_t all = 0;
    ls_status s = LS_OK;
    for (int64_t i = 0; i < v->set->n; i++)
        all += v->set->count(v->set, i, 1);
    fprintf(ui->out, "%lld tokens of the split are targets; here they are %s.\n\n", (long long)all,
            ui->colour ? "green" : "in \xe2\x9f\xa6 \xe2\x9f\xa7");
    for (int64_t k = 0; k < v->n && s == LS_OK; k++) {
        const window w = window_of(v, k);
        int64_t targets = 0;
        for (int64_t i = 1; i < w.n; i++)
            targets += is_target(&w, i);
        fprintf(ui->out, "step %lld, sample %lld: %lld tokens, %lld targets\n", (long long)v->samples[k].step,
                (long long)v->samples[k].sample, (long long)w.n, (long long)targets);
        s = print_window(v, &w, ui);
        fputs("\n", ui->out);
    }
    return s;
}
