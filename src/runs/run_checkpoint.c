/* run_checkpoint.c - what the checkpoints of a user's program hold, loading them, and waiting for one. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "comm/agree.h"
#include "comm/group_calls.h"
#include "base/argument.h"
#include "base/check.h"
#include "base/file.h"
#include "base/sys.h"
#include "record/remote_hosts.h"
#include "run_own.h"

enum { MOST_TEXT = 1 << 20 };

/* ---- contents */

static ls_status check_shard(const ls_shard *s, int64_t i)
{
    if (!s->name || !*s->name)
        return ls_fail(LS_E_ARG, "shard %lld has no name", (long long)i);
    const ls_type *t = &s->type;
    if (!ls_type_is_sound(t))
        return ls_fail(LS_E_ARG, "shard \"%s\": its element type or its shape is not valid", s->name);
    const int64_t all = ls_type_count(t);
    if (s->first < 0 || s->count < 0 || s->first > all || s->count > all - s->first)
        return ls_fail(
            LS_E_ARG,
            "shard \"%s\": %lld elements from number %lld on are not inside a tensor of %lld elements",
            s->name, (long long)s->count, (long long)s->first, (long long)all);
    return s->count > 0 && !s->data ? ls_fail(LS_E_ARG, "shard \"%s\": %lld elements, but data is NULL",
                                              s->name, (long long)s->count)
                                    : LS_OK;
}

ls_status ls_run_check_contents(const ls_run_contents *c)
{
    if (!c)
        return LS_OK;
    if (c->trainer ? c->shards || c->n : !c->shards || c->n < 1)
        return ls_fail(LS_E_ARG, "a checkpoint holds a trainer, or at least one shard, and not both");
    if (c->text && strlen(c->text) > MOST_TEXT)
        return ls_fail(
            LS_E_ARG,
            "a checkpoint's text is %zu bytes, and takes at most %d: what is larger belongs into tensors",
            strlen(c->text), (int)MOST_TEXT);
    for (int64_t i = 0; i < c->n; i++)
        LS_TRY(check_shard(&c->shards[i], i));
    return LS_OK;
}

/* Elements of a tensor that one rank has. */
typedef struct span {
    int64_t first, count;
} span;

static int by_first(const void *a, const void *b)
{
    const span *x = a, *y = b;
    return x->first != y->first ? (x->first > y->first) - (x->first < y->first)
                                : (x->count > y->count) - (x->count < y->count);
}

/* all: [ranks][n], of which shard i is looked at. */
static ls_status check_spans(const span *all, span *sorted, int ranks, const ls_run_contents *c, int64_t i,
                             const char *call)
{
    int64_t at = 0, whole = ls_type_count(&c->shards[i].type);
    for (int k = 0; k < ranks; k++)
        sorted[k] = all[k * c->n + i];
    qsort(sorted, (size_t)ranks, sizeof *sorted, by_first);
    for (int k = 0; k < ranks; k++) {
        if (sorted[k].count && sorted[k].first != at) {
            const bool twice = sorted[k].first < at;
            return ls_fail(LS_E_ARG, "%s: shard \"%s\": element %lld comes from %s", call, c->shards[i].name,
                           (long long)(twice ? sorted[k].first : at), twice ? "two ranks" : "no rank");
        }
        at += sorted[k].count;
    }
    return at == whole ? LS_OK
                       : ls_fail(LS_E_ARG, "%s: shard \"%s\": element %lld comes from no rank", call,
                                 c->shards[i].name, (long long)at);
}

ls_status ls_run_check_cover(ls_group *g, const ls_run_contents *c, const char *call)
{
    const int ranks = ls_group_size(g);
    span *mine = ls_sys_calloc((size_t)c->n + 1, sizeof *mine), *all = NULL,
         *sorted = ls_sys_calloc((size_t)ranks, sizeof *sorted);
    ls_status s = ls_ranks_agree(g, mine && sorted ? LS_OK : ls_fail(LS_E_MEMORY, "%s: out of memory", call));
    for (int64_t i = 0; s == LS_OK && i < c->n; i++)
        mine[i] = (span){ c->shards[i].first, c->shards[i].count };
    if (s == LS_OK)
        s = ls_group_all_gather_new(g, mine, sizeof *mine * (size_t)c->n, (void **)&all);
    if (s == LS_OK) {
        ls_status found = LS_OK;
        for (int64_t i = 0; found == LS_OK && i < c->n && ls_group_rank(g) == 0; i++)
            found = check_spans(all, sorted, ranks, c, i, call);
        s = ls_ranks_agree(g, found);
    }
    free(all);
    free(sorted);
    free(mine);
    return s;
}

ls_tensor_list ls_run_list(ls_arena *a, const ls_run_contents *c)
{
    ls_named_tensor *tensors = LS_ARENA_ARRAY(a, ls_named_tensor, c->n);
    ls_range *mine = LS_ARENA_ARRAY(a, ls_range, c->n);
    for (int64_t i = 0; mine && i < c->n; i++) {
        const ls_shard *s = &c->shards[i];
        tensors[i] = (ls_named_tensor){ s->name, ls_tensor_of(NULL, &s->type) };
        mine[i] = (ls_range){ .first = s->first, .count = s->count, .data = s->data };
    }
    return (ls_tensor_list){ .n = mine ? c->n : 0, .tensors = tensors, .mine = mine };
}

/* ---- loading */

static ls_status load_shards(const ls_checkpoint *from, const ls_run_contents *c)
{
    ls_arena a;
    ls_arena_init(&a);
    const ls_tensor_list list = ls_run_list(&a, c);
    ls_status s = ls_arena_status(&a);
    if (s == LS_OK)
        s = ls_ranges_load(from->weights, &list, &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS });
    ls_arena_release(&a);
    return s;
}

static ls_status load(ls_run *r, const char *path, const ls_run_contents *c)
{
    ls_checkpoint from;
    char here[4096];
    snprintf(here, sizeof here, "%s", path);
    LS_TRY(ls_remote_fetch(r->remote, r->apart, here, r->group, NULL));
    LS_TRY(ls_checkpoint_open(&from, here, r->opts.verify ? LS_VERIFY_FULL : LS_VERIFY_SIZES, r->group));
    ls_status s = LS_OK;
    if (c && c->trainer)
        s = ls_trainer_load_state(c->trainer, &from, NULL);
    else if (c)
        s = ls_ranks_agree(r->group, load_shards(&from, c));
    ls_checkpoint_release(&from);
    return s;
}

/* The save that the call waited for may have removed the checkpoint, which was the latest until then. */
static ls_status check_kept(const ls_run *r, const char *name, bool was_latest)
{
    if (!was_latest || !strcmp(name, r->latest.path) || ls_dir_exists(name))
        return LS_OK;
    return ls_fail(
        LS_E_USAGE,
        "%s was removed when the checkpoint of step %lld was complete (keep %lld): call ls_run_wait, "
        "then ls_latest_checkpoint",
        name, (long long)r->latest.step, (long long)r->opts.keep);
}

ls_status ls_run_load(ls_run *r, const char *path, const ls_run_contents *c)
{
    LS_ARG(r);
    LS_ARG(path);
    const bool was_latest = r->latest.path && !strcmp(path, r->latest.path);
    char *name = ls_sys_strdup(path); /* it may be that of the latest checkpoint, which may change now */
    ls_status s = name ? ls_run_check_contents(c) : ls_sys_have(name);
    s = ls_run_compare(r, "loading a checkpoint", s, 0);
    if (s == LS_OK)
        s = ls_run_settle(r);
    if (s == LS_OK)
        s = ls_ranks_agree(r->group, check_kept(r, name, was_latest));
    if (s == LS_OK)
        s = load(r, name, c);
    free(name);
    return s;
}

ls_status ls_run_wait(ls_run *r)
{
    LS_ARG(r);
    LS_TRY(ls_run_compare(r, "a wait for its checkpoint", LS_OK, 0));
    return ls_run_settle(r);
}
