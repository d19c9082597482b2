/* checkpoint_head.c - see checkpoint_head.h. */
#include "checkpoint_head.h"

static void write_count(ls_json *j, const char *key, int64_t n)
{
    if (n < 0)
        ls_json_text(j, key, NULL);
    else
        ls_json_int(j, key, n);
}

void ls_checkpoint_head_write(ls_json *j, const ls_checkpoint_head *h)
{
    write_count(j, "step", h->step);
    write_count(j, "last_epoch", h->last_epoch);
    ls_json_int(j, "world", h->world);
    ls_json_text(j, "version", LS_VERSION);
    ls_json_object(j, "metrics");
    for (int i = 0; i < h->n_metrics; i++)
        ls_json_f64(j, h->metrics[i].name, h->metrics[i].value);
    ls_json_close_object(j);
    ls_json_text(j, "text", h->text ? h->text : "");
}

char *ls_checkpoint_head_json(const ls_checkpoint_head *h)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_checkpoint_head_write(&j, h);
    ls_json_close_object(&j);
    ls_str_add(&j.out, "\n");
    return ls_str_take(&j.out);
}

static int64_t read_count(const json_t *trainer, const char *key)
{
    const json_t *n = json_object_get(trainer, key);
    return json_is_integer(n) ? json_integer_value(n) : -1;
}

/* Until there was `last_epoch`, `epoch` was this one. The loop's first versions, which wrote `epoch_step`,
 * meant the epoch of the next step by it. */
static int64_t read_last_epoch(const json_t *trainer)
{
    const int64_t epoch = read_count(trainer, "epoch"), next_step = read_count(trainer, "epoch_step");
    return json_object_get(trainer, "last_epoch") ? read_count(trainer, "last_epoch")
           : next_step == 0                       ? epoch - 1
                                                  : epoch;
}

void ls_checkpoint_head_read(ls_checkpoint_head *out, const json_t *trainer)
{
    const char *text = json_string_value(json_object_get(trainer, "text"));
    *out = (ls_checkpoint_head){ .step = read_count(trainer, "step"),
                                 .last_epoch = read_last_epoch(trainer),
                                 .world = json_integer_value(json_object_get(trainer, "world")),
                                 .text = text ? text : "" };
}
