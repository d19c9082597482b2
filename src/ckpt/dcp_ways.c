/* dcp_ways.c - which entries of a DCP index are wanted (dcp_ways.h). */
#include "ckpt/dcp_ways.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_ways(const void *a, const void *b)
{
    return ls_pickle_compare(((const ls_dcp_way *)a)->key, ((const ls_dcp_way *)b)->key);
}

/* Removes the prefix from the beginning of a path. The prefix may end inside a word: "model.module." of
 * ("model", "module.net1.weight"). */
static void go_inside(ls_dcp_way *w, const char *prefix)
{
    size_t n = strlen(prefix);
    while (n) {
        char number[24];
        const ls_pickle *step = w->at < w->path->n ? w->path->items[w->at] : NULL;
        const char *word = step ? step->text : "";
        size_t length = step ? step->length : 0;
        if (step && step->kind == LS_PICKLE_INT) {
            length = (size_t)snprintf(number, sizeof number, "%" PRId64, step->number);
            word = number;
        }
        if (length && length < n && prefix[length] == '.' && !memcmp(word, prefix, length)) {
            prefix += length + 1;
            n -= length + 1;
            w->at++;
        } else if (length > n && !memcmp(word, prefix, n)) {
            w->skip = n;
            break;
        } else {
            return;
        }
    }
    w->inside = w->at < w->path->n;
}

static bool is_under(const ls_dcp_way *w, size_t depth, const char *word)
{
    const size_t at = w->at + depth;
    return w->inside && !w->skip && w->path->n > at + 1 && ls_pickle_is(w->path->items[at], word);
}

/* Whether an entry has this word next in its path. */
static bool any_under(const ls_dcp_ways *w, size_t depth, const char *word)
{
    for (size_t i = 0; i < w->n; i++)
        if (is_under(&w->list[i], depth, word))
            return true;
    return false;
}

/* The word under which all entries lie, as "app" when one object of the program was saved; NULL: there is
 * none. */
static bool is_wrapped(const ls_dcp_ways *w)
{
    const ls_pickle *first = NULL;
    for (size_t i = 0; i < w->n; i++) {
        const ls_dcp_way *x = &w->list[i];
        const ls_pickle *word = x->path->items[x->inside ? x->at : 0];
        if (!x->inside)
            continue;
        if (x->skip || x->path->n < x->at + 2 || word->kind != LS_PICKLE_TEXT ||
            (first && ls_pickle_compare(word, first) != 0))
            return false;
        first = word;
    }
    return first;
}

static void find_word(ls_dcp_ways *w)
{
    static const char *const MODEL[] = { "model_state_dict", "state_dict", "model", NULL },
                             *const OPTIMIZER[] = { "optimizer_state_dict", "optim_state_dict", "optimizer",
                                                    "optim", NULL };
    const char *const *words = w->optimizer ? OPTIMIZER : MODEL;
    for (w->depth = 0; w->depth < 2 && !(w->depth && !is_wrapped(w)); w->depth++)
        for (size_t i = 0; words[i]; i++)
            if (any_under(w, w->depth, words[i])) {
                w->under = words[i];
                return;
            }
}

bool ls_dcp_ways_read(ls_dcp_ways *w, ls_arena *scratch, const ls_pickle *planned, const ls_dcp_ask *ask)
{
    const char *prefix = ask && ask->prefix ? ask->prefix : "";
    const size_t length = strlen(prefix), n = planned ? planned->n : 0;
    *w = (ls_dcp_ways){ .ask = ask, .optimizer = ask && ask->optimizer };
    ls_str_printf(&w->prefix, "%s%s", prefix, length && prefix[length - 1] != '.' ? "." : "");
    w->list = LS_ARENA_ARRAY(scratch, ls_dcp_way, n / 2 + 1);
    if (!w->list)
        return false; /* ls_dcp_index_read says why */
    for (size_t i = 0; i < n; i += 2) {
        const ls_pickle *key = planned->items[i], *path = planned->items[i + 1];
        bool sound = key->kind == LS_PICKLE_TEXT && path->kind == LS_PICKLE_TUPLE && path->n > 0;
        for (size_t k = 0; sound && k < path->n; k++)
            sound = path->items[k]->kind == LS_PICKLE_TEXT || path->items[k]->kind == LS_PICKLE_INT;
        if (!sound)
            return false;
        w->list[w->n] = (ls_dcp_way){ .key = key, .path = path, .order = (int64_t)i };
        go_inside(&w->list[w->n++], ls_str_text(&w->prefix));
    }
    if (w->n > 1)
        qsort(w->list, w->n, sizeof *w->list, compare_ways);
    find_word(w);
    return true;
}

void ls_dcp_ways_release(ls_dcp_ways *w) { ls_str_release(&w->prefix); }

static void add_step(ls_str *name, const ls_pickle *step, size_t skip)
{
    ls_str_add(name, name->len ? "." : "");
    if (step->kind == LS_PICKLE_TEXT)
        ls_str_add_n(name, step->text + skip, step->length - skip);
    else
        ls_str_printf(name, "%" PRId64, step->number);
}

/* The number of a parameter, if the word is a number; -1: it is a name. */
static int64_t number_of(const ls_dcp_ask *ask, const ls_pickle *of)
{
    int64_t number = 0;
    if (of->kind == LS_PICKLE_INT)
        return of->number >= 0 ? of->number : INT64_MAX;
    for (size_t i = 0; i < of->length; i++) {
        if (of->text[i] < '0' || of->text[i] > '9' || i == 9)
            return -1;
        number = 10 * number + of->text[i] - '0';
    }
    for (int64_t i = 0; i < ask->n; i++) /* a parameter of that name, as a ParameterList has them */
        if (ls_pickle_is(of, ask->parameters[i]))
            return -1;
    return of->length ? number : -1;
}

/* Reads an entry of the optimizer's state: "state", NAME or number, "exp_avg"; or, with
 * flatten_optimizer_state_dict, one word "state.NAME.exp_avg". The name is "exp_avg.NAME". False: it is not
 * an entry of a parameter. */
static bool add_state(ls_str *name, const ls_dcp_ways *w, const ls_pickle *path, size_t at)
{
    static const char STATE[] = "state.";
    const size_t begin = sizeof STATE - 1;
    const ls_pickle *first = path->items[at];
    if (path->n == at + 3 && ls_pickle_is(first, "state")) {
        const ls_pickle *of = path->items[at + 1];
        add_step(name, path->items[at + 2], 0);
        const int64_t number = number_of(w->ask, of);
        if (number < 0)
            add_step(name, of, 0);
        else if (number < w->ask->n)
            ls_str_printf(name, ".%s", w->ask->parameters[number]);
        else
            ls_str_clear(name);
        return true;
    }
    if (path->n != at + 1 || first->kind != LS_PICKLE_TEXT || first->length <= begin ||
        memcmp(first->text, STATE, begin) != 0)
        return false;
    const char *dot = memrchr(first->text + begin, '.', first->length - begin);
    if (!dot)
        return false;
    const size_t end = (size_t)(dot - first->text);
    ls_str_add_n(name, dot + 1, first->length - end - 1);
    ls_str_add(name, ".");
    ls_str_add_n(name, first->text + begin, end - begin);
    return true;
}

bool ls_dcp_ways_name(ls_str *name, int64_t *order, const ls_dcp_ways *w, const ls_pickle *key)
{
    const ls_dcp_way wanted = { .key = key },
                     *x = w->n ? bsearch(&wanted, w->list, w->n, sizeof wanted, compare_ways) : NULL;
    *order = x ? x->order : *order;
    if (w->under ? !x || !is_under(x, w->depth, w->under) : w->optimizer || (x && !x->inside))
        return false;
    if (!x) {
        const size_t n = w->prefix.len;
        const bool inside = key->length > n && !memcmp(key->text, ls_str_text(&w->prefix), n);
        ls_str_add_n(name, key->text + (inside ? n : 0), inside ? key->length - n : 0);
        return inside;
    }
    size_t at = x->at + (w->under ? w->depth + 1 : 0);
    if (w->optimizer && add_state(name, w, x->path, at))
        return true;
    for (size_t skip = w->under ? 0 : x->skip; at < x->path->n; at++, skip = 0)
        add_step(name, x->path->items[at], skip);
    return true;
}

void ls_dcp_ways_begin(ls_str *out, const ls_dcp_ways *w)
{
    enum { SHOWN = 6 };
    int shown = 0;
    const ls_pickle *last = NULL;
    for (size_t i = 0; i < w->n && shown <= SHOWN; i++) {
        const ls_pickle *word = w->list[i].path->items[0];
        if (word->kind != LS_PICKLE_TEXT || (last && !ls_pickle_compare(word, last)))
            continue;
        last = word;
        if (shown++ < SHOWN)
            ls_str_printf(out, "%s\"%.*s\"", out->len ? ", " : "",
                          (int)(word->length < 60 ? word->length : 60), word->text);
        else
            ls_str_add(out, ", ...");
    }
}
