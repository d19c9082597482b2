/* run_checkpoint.c - the checkpoints of a user's program: their contents, their trainer.json, and loading. */
#include <stdlib.h>
#include <string.h>

#include "comm/agree.h"
#include "base/argument.h"
#include "base/check.h"
#include "base/sys.h"
#include "ckpt/checkpoint_head.h"
#include "run_own.h"

enum { MOST_TEXT = 1 << 20 };

/* ---- trainer.json */

char *ls_run_saved_json(const ls_run_saved *s, int ranks)
{
    const ls_checkpoint_head head = { s->step, s->epoch, ranks, s->metrics.n, s->metrics.at, s->text };
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_checkpoint_head_write(&j, &head);
    ls_json_int(&j, "epoch", s->epoch); /* for older versions, which know no last_epoch */
    ls_json_int(&j, "report", s->report);
    ls_json_close_object(&j);
    ls_str_add(&j.out, "\n");
    return ls_str_take(&j.out);
}

ls_status ls_run_saved_read(ls_run_saved *out, const char *json, const char *where)
{
    json_t *j = NULL;
    *out = (ls_run_saved){ 0 };
    LS_TRY(ls_json_parse(&j, json, strlen(json), where));
    ls_checkpoint_head head;
    ls_checkpoint_head_read(&head, j);
    *out = (ls_run_saved){ .step = head.step,
                           .epoch = head.last_epoch,
                           .report = json_integer_value(json_object_get(j, "report")),
                           .metrics = ls_metric_list_read(json_object_get(j, "metrics"), ""),
                           .text = ls_sys_strdup(head.text) };
    json_decref(j);
    return out->text ? ls_metric_list_status(&out->metrics) : ls_sys_have(out->text);
}

void ls_run_saved_release(ls_run_saved *s)
{
    ls_metric_list_release(&s->metrics);
    free(s->text);
    *s = (ls_run_saved){ 0 };
}

/* ---- the latest */

static ls_status run_checkpoint_take(ls_run *r, const char *json)
{
    ls_run_saved new;
    const ls_status s = ls_run_saved_read(&new, json, "trainer.json of the newest checkpoint");
    char *path = s == LS_OK ? ls_snapshots_path(&r->snapshots, new.step) : NULL;
    if (!path) {
        ls_run_saved_release(&new);
        return s == LS_OK ? ls_sys_have(path) : s;
    }
    ls_run_saved_release(&r->saved);
    free((char *)r->latest.path);
    r->saved = new;
    r->latest = (ls_run_checkpoint){ path, new.step, new.epoch, new.metrics.n, new.metrics.at, new.text };
    r->step = new.step;
    r->reports = new.report + 1;
    return LS_OK;
}

ls_status ls_run_point(ls_run *r, const char *json)
{
    uint64_t bytes = json ? strlen(json) + 1 : 0;
    LS_TRY(ls_group_broadcast(r->group, &bytes, sizeof bytes, 0));
    if (!bytes)
        return LS_OK;
    char *text = ls_sys_calloc(bytes, 1);
    ls_status s = ls_ranks_agree(r->group, ls_sys_have(text));
    if (s == LS_OK) {
        memcpy(text, json ? json : "", json ? bytes : 0);
        s = ls_group_broadcast(r->group, text, bytes, 0);
    }
    if (s == LS_OK)
        s = run_checkpoint_take(r, text);
    free(text);
    return s;
}

const ls_run_checkpoint *ls_latest_checkpoint(const ls_run *r)
{
    LS_ARG_OR(r, NULL);
    return r->latest.path ? &r->latest : NULL;
}

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

ls_status ls_run_load(ls_run *r, const char *path, const ls_run_contents *c)
{
    LS_ARG(r);
    LS_ARG(path);
    ls_checkpoint from;
    LS_TRY(ls_run_compare(r, "loading a checkpoint", ls_run_check_contents(c), 0));
    LS_TRY(ls_checkpoint_open(&from, path, r->opts.verify ? LS_VERIFY_FULL : LS_VERIFY_SIZES, r->group));
    ls_status s = LS_OK;
    if (c && c->trainer)
        s = ls_trainer_load_state(c->trainer, &from, NULL);
    else if (c)
        s = ls_ranks_agree(r->group, load_shards(&from, c));
    ls_checkpoint_release(&from);
    return s;
}
