/* sweep_settings.c - from the settings of a command line to the list of runs: a grid, or random draws. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/str.h"
#include "recipe/recipe_fields.h"
#include "recipe/recipe_use.h"
#include "record/remote.h"
#include "sweep.h"
#include "value_list.h"

enum { NAME = 80 }; /* bytes of a run's name before its hash */

/* ---- keys */

static bool read_number(double *out, const char *text, size_t n)
{
    char copy[64], *end;
    if (!n || n >= sizeof copy)
        return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    *out = ls_strtod(copy, &end);
    return end == copy + n;
}

/* LOW..HIGH, or LOW..HIGH:linear; of whole numbers if both ends are written as such */
static bool read_range(ls_sweep_key *k, const char *text)
{
    const char *dots = strstr(text, ".."), *high = dots + 2;
    if (!dots)
        return false;
    const size_t n = strcspn(high, ":");
    if (!read_number(&k->low, text, (size_t)(dots - text)) || !read_number(&k->high, high, n) ||
        (high[n] && strcmp(high + n, ":linear")))
        return false;
    k->linear = high[n];
    k->whole = strspn(text, "-0123456789") == (size_t)(dots - text) && strspn(high, "-0123456789") == n;
    return k->range = true;
}

static ls_status check_range(const ls_sweep *s, const ls_sweep_key *k, const char *text)
{
    if (!s->o->random)
        return ls_fail(LS_E_USAGE,
                       "--set %s: a range needs --random N, which draws N values from it; a grid takes "
                       "values, as --set %s=1e-3,3e-4",
                       text, k->key);
    if (!isfinite(k->low) || !isfinite(k->high) || k->low >= k->high)
        return ls_fail(LS_E_USAGE, "--set %s: the range must go from a smaller to a larger number", text);
    if (!k->linear && k->low <= 0)
        return ls_fail(LS_E_USAGE,
                       "--set %s: a range is logarithmic, so it begins above 0; write %s=%g..%g:linear for "
                       "a uniform one",
                       text, k->key, k->low, k->high);
    return LS_OK;
}

/* 1..25 of a key of whole numbers, where nothing is drawn: all of them. */
static bool sweep_counts(const ls_sweep *s, const ls_sweep_key *k)
{
    const ls_key *row = ls_key_named(k->key);
    return !s->o->random && k->range && k->whole && !k->linear && row && row->kind == LS_KEY_INT &&
           k->low < k->high && k->high - k->low < LS_SWEEP_RUNS && fabs(k->low) < 1e15;
}

static void sweep_count(ls_sweep *s, ls_sweep_key *k)
{
    k->range = false;
    k->n = (int)(k->high - k->low) + 1;
    k->values = LS_ARENA_ARRAY(&s->arena, const char *, k->n);
    for (int i = 0; i < k->n && k->values; i++)
        k->values[i] = ls_arena_printf(&s->arena, "%.0f", k->low + i);
}

static ls_status add_fixed(ls_sweep *s, const char *text)
{
    s->fixed[s->n_fixed++] = text;
    return LS_OK;
}

static ls_status check_key(const ls_sweep *s, const char *key)
{
    if (!strcmp(key, "run.name") || !strcmp(key, "run.storage"))
        return ls_fail(LS_E_USAGE, "--set %s: a sweep names its runs itself, so this key has one value", key);
    for (int i = 0; i < s->n_keys; i++)
        if (!strcmp(s->keys[i].key, key))
            return ls_fail(LS_E_USAGE, "--set %s: this key has two lists of values: give it one", key);
    return s->n_keys < LS_SWEEP_KEYS
               ? LS_OK
               : ls_fail(LS_E_USAGE, "--set: more than %d keys have several values", LS_SWEEP_KEYS);
}

/* A setting with several values is a key of the sweep; others are the same for all runs. */
static ls_status read_setting(ls_sweep *s, const char *text)
{
    ls_value_list l = { 0 };
    ls_sweep_key k = { 0 };
    ls_status st = LS_OK;
    const char *equals = strchr(text, '=');
    if (!equals || !equals[1])
        return add_fixed(s, text); /* the recipe says what is wrong */
    LS_TRY_TO(st, ls_value_list_read(&l, "--set", text, "optimizer.lr=1e-3,3e-4"), done);
    k.key = ls_arena_strdup(&s->arena, l.key);
    if (l.n == 1 && !read_range(&k, l.values[0])) {
        add_fixed(s, text);
        goto done;
    }
    LS_TRY_TO(st, check_key(s, k.key), done);
    if (sweep_counts(s, &k)) {
        sweep_count(s, &k);
    } else if (k.range) {
        LS_TRY_TO(st, check_range(s, &k, text), done);
    } else {
        k.n = l.n;
        k.values = LS_ARENA_ARRAY(&s->arena, const char *, l.n);
        for (int i = 0; i < l.n && k.values; i++)
            k.values[i] = ls_arena_strdup(&s->arena, l.values[i]);
        for (int i = 0; i < l.n && st == LS_OK; i++)
            for (int j = 0; j < i && st == LS_OK; j++)
                if (!strcmp(l.values[i], l.values[j]))
                    st = ls_fail(LS_E_USAGE, "--set %s: %s is there twice", text, l.values[i]);
    }
    s->keys[s->n_keys++] = k;
done:
    ls_value_list_release(&l);
    return st == LS_OK ? ls_arena_status(&s->arena) : st;
}

/* The last word of a key, unless two keys end alike. */
static void label_keys(ls_sweep *s)
{
    for (int i = 0; i < s->n_keys; i++) {
        const char *dot = strrchr(s->keys[i].key, '.');
        s->keys[i].label = dot ? dot + 1 : s->keys[i].key;
    }
    for (int i = 0; i < s->n_keys; i++)
        for (int j = 0; j < s->n_keys; j++) {
            const char *dot = strrchr(s->keys[j].key, '.');
            if (i != j && !strcmp(s->keys[i].label, dot ? dot + 1 : s->keys[j].key))
                s->keys[i].label = s->keys[i].key;
        }
}

/* ---- runs */

static const char *draw_value(ls_sweep *s, const ls_sweep_key *k, uint64_t index)
{
    const ls_rng_key key = ls_rng_key_of((uint64_t)s->o->seed, ls_hash_text(k->key));
    char text[32];
    if (!k->range)
        return k->values[ls_rng_below(key, index, (uint64_t)k->n)];
    const double u = ls_rng_uniform(key, index), low = k->low, high = k->high;
    const double x = k->linear ? low + u * (high - low) : exp(log(low) + u * (log(high) - log(low)));
    if (k->whole) /* both ends are as likely as what lies between */
        ls_snprintf(text, sizeof text, "%.0f",
                    k->linear ? floor(low + u * (high - low + 1)) : fmin(fmax(round(x), low), high));
    else /* four digits: a value that people can read and type is the value that is trained */
        ls_format_number(text, "%.4g", x);
    return ls_arena_strdup(&s->arena, text);
}

/* "lr=0.001,hidden_size=64". What a path or a shell would take amiss becomes '_'; then, or where the name is
 * long, a hash keeps names apart. */
static const char *run_name_of(ls_sweep *s, const ls_sweep_run *r)
{
    ls_str all = { 0 }, name = { 0 };
    for (int i = 0; i < s->n_keys; i++)
        ls_str_printf(&all, "%s%s=%s", i ? "," : "", s->keys[i].label, r->values[i]);
    const char *text = ls_str_text(&all);
    bool same = strlen(text) <= NAME;
    for (size_t i = 0; text[i] && i < NAME; i++) {
        const bool plain = isalnum((unsigned char)text[i]) || strchr("-+._=,", text[i]);
        same = same && plain;
        ls_str_add_n(&name, plain ? &text[i] : "_", 1);
    }
    if (!same)
        ls_str_printf(&name, "-%08x", (unsigned)ls_hash_text(text));
    ls_str_inherit(&name, &all);
    const char *out = ls_str_status(&name) == LS_OK ? ls_arena_strdup(&s->arena, ls_str_text(&name)) : NULL;
    ls_str_release(&all);
    ls_str_release(&name);
    if (!out)
        s->arena.no_memory = true;
    return out;
}

/* A text of YAML, whatever is in the folder's name. */
static const char *storage_of(ls_sweep *s)
{
    ls_str out = { 0 };
    ls_str_add(&out, "run.storage='");
    for (const char *p = s->dir; *p; p++)
        ls_str_add_n(&out, "''", *p == '\'' ? 1 : 0), ls_str_add_n(&out, p, 1);
    ls_str_add(&out, "'");
    const char *text = ls_arena_strdup(&s->arena, ls_str_status(&out) == LS_OK ? out.data : NULL);
    s->arena.no_memory = s->arena.no_memory || out.no_memory;
    ls_str_release(&out);
    return text;
}

static ls_status finish_run(ls_sweep *s, ls_sweep_run *r)
{
    ls_arena *a = &s->arena;
    LS_TRY(ls_arena_status(a));
    r->name = run_name_of(s, r);
    LS_TRY(ls_arena_status(a));
    r->dir = ls_arena_printf(a, "%s/%s", s->dir, r->name);
    r->status = -1;
    r->sets = LS_ARENA_ARRAY(a, const char *, s->n_fixed + s->n_keys + 2);
    LS_TRY(ls_arena_status(a));
    int n = 0;
    for (int i = 0; i < s->n_fixed; i++)
        r->sets[n++] = s->fixed[i];
    for (int i = 0; i < s->n_keys; i++)
        r->sets[n++] = ls_arena_printf(a, "%s=%s", s->keys[i].key, r->values[i]);
    r->sets[n++] = ls_arena_printf(a, "run.name='%s'", r->name);
    r->sets[n++] = storage_of(s);
    return ls_arena_status(a);
}

static bool is_new(const ls_sweep *s, const ls_sweep_run *r)
{
    for (int i = 0; i < s->n; i++) {
        int same = 0;
        for (int k = 0; k < s->n_keys; k++)
            same += !strcmp(s->runs[i].values[k], r->values[k]);
        if (same == s->n_keys)
            return false;
    }
    return true;
}

/* Combination `index` of the grid, whose last key varies fastest, or draw `index`. */
static ls_status choose_values(ls_sweep *s, ls_sweep_run *r, uint64_t index)
{
    r->values = LS_ARENA_ARRAY(&s->arena, const char *, s->n_keys);
    LS_TRY(ls_arena_status(&s->arena));
    for (int k = s->n_keys - 1; k >= 0; k--) {
        r->values[k] = s->o->random ? draw_value(s, &s->keys[k], index)
                                    : s->keys[k].values[index % (uint64_t)s->keys[k].n];
        index = s->o->random ? index : index / (uint64_t)s->keys[k].n;
    }
    return ls_arena_status(&s->arena);
}

/* Draw i is a function of the seed and of i alone, so `--random 20` begins with the runs of `--random 10`. */
static ls_status make_runs(ls_sweep *s)
{
    int64_t grid = 1;
    bool ranges = false;
    for (int i = 0; i < s->n_keys; i++) {
        ranges = ranges || s->keys[i].range;
        grid *= s->keys[i].range ? 1 : s->keys[i].n;
        if (grid > LS_SWEEP_RUNS && !s->o->random)
            return ls_fail(LS_E_USAGE,
                           "these lists have more than %d combinations: --random N takes N of them",
                           LS_SWEEP_RUNS);
        grid = grid > INT32_MAX ? INT32_MAX : grid;
    }
    if (s->o->random && !ranges && s->o->random > grid)
        return ls_fail(LS_E_USAGE, "--random %lld: these lists have only %lld combinations",
                       (long long)s->o->random, (long long)grid);
    const int64_t wanted = s->o->random ? s->o->random : grid;
    s->runs = LS_ARENA_ARRAY(&s->arena, ls_sweep_run, wanted);
    LS_TRY(ls_arena_status(&s->arena));
    for (uint64_t i = 0; s->n < wanted; i++) {
        ls_sweep_run *r = &s->runs[s->n];
        if (i > 1000 * (uint64_t)wanted + 100000)
            return ls_fail(LS_E_USAGE, "--random %lld: these values have too few combinations",
                           (long long)wanted);
        LS_TRY(choose_values(s, r, i));
        if (s->o->random && !is_new(s, r))
            continue;
        LS_TRY(finish_run(s, r));
        s->n++;
    }
    return LS_OK;
}

/* The folder STORAGE/NAME-sweep, of the run's name that the recipe has for all of them. */
static ls_status find_folder(ls_sweep *s)
{
    ls_recipe *r = NULL;
    const ls_status st = ls_recipe_load_to_continue(&r, s->o->recipe.name, s->n_fixed, s->fixed);
    if (st == LS_OK && strstr(r->run.storage, "://")) {
        const ls_status refused = ls_fail(LS_E_USAGE,
                                          "%s: %s: the runs of a sweep need a folder; copy them to a bucket "
                                          "afterwards",
                                          ls_recipe_where(r, "run.storage"), r->run.storage);
        ls_recipe_destroy(&r);
        return refused;
    }
    if (st == LS_OK) {
        s->recipe_name = ls_arena_strdup(&s->arena, r->run.name);
        s->dir = ls_arena_printf(&s->arena, "%s/%s-sweep", r->run.storage, r->run.name);
    }
    ls_recipe_destroy(&r);
    return st == LS_OK ? ls_arena_status(&s->arena) : st;
}

ls_status ls_sweep_make(ls_sweep *s)
{
    const ls_sweep_opts *o = s->o;
    s->fixed = LS_ARENA_ARRAY(&s->arena, const char *, o->recipe.n_sets + 1);
    LS_TRY(ls_arena_status(&s->arena));
    for (int i = 0; i < o->recipe.n_sets; i++)
        LS_TRY(read_setting(s, o->recipe.sets[i]));
    if (!s->n_keys)
        return ls_fail(LS_E_USAGE,
                       "nothing varies: give a key several values, as --set optimizer.lr=1e-3,3e-4,1e-4, or "
                       "a range with --random 10, as --set optimizer.lr=1e-5..1e-2");
    label_keys(s);
    LS_TRY(find_folder(s));
    return make_runs(s);
}
