/* run_latest.c - trainer.json of a user's program, and the latest checkpoint, which all ranks know. */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/sys.h"
#include "ckpt/checkpoint_head.h"
#include "comm/agree.h"
#include "run_own.h"
#include "step/torch_settings.h"

/* ---- trainer.json */

char *ls_run_saved_json(const ls_run_saved *s, int ranks, const ls_trainer *t)
{
    const ls_checkpoint_head head = { s->step, s->epoch, ranks, s->metrics.n, s->metrics.at, s->text };
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_checkpoint_head_write(&j, &head);
    ls_json_int(&j, "epoch", s->epoch); /* for older versions, which know no last_epoch */
    ls_json_int(&j, "report", s->report);
    if (t)
        ls_torch_groups_write(&j, t);
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
    return LS_OK;
}

ls_status ls_run_point(ls_run *r)
{
    uint64_t bytes = r->coming ? strlen(r->coming) + 1 : 0; /* (the text is rank 0's, so is its length) */
    LS_TRY(ls_group_broadcast(r->group, &bytes, sizeof bytes, 0));
    if (!bytes)
        return LS_OK;
    char *text = r->coming ? r->coming : ls_sys_calloc(bytes, 1);
    r->coming = NULL;
    ls_status s = ls_ranks_agree(r->group, ls_sys_have(text));
    if (s == LS_OK)
        s = ls_group_broadcast(r->group, text, bytes, 0);
    if (s == LS_OK)
        s = run_checkpoint_take(r, text);
    free(text);
    return s;
}

ls_status ls_run_settle(ls_run *r)
{
    /* a rank whose thread has failed says so before all else: others may be inside the save already */
    LS_TRY(ls_checkpoint_together(r->group, ls_snapshots_finish(&r->snapshots, r->dir)));
    return ls_run_point(r);
}

const ls_run_checkpoint *ls_latest_checkpoint(const ls_run *r)
{
    LS_ARG_OR(r, NULL);
    return r->latest.path ? &r->latest : NULL;
}
