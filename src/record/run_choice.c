/* run_choice.c - see run_choice.h. */
#include "run_choice.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sys.h"
#include "ckpt/checkpoint.h"

/* The best step of a run that early stopping ended; -1: it ended otherwise, or has not ended. */
static int64_t stopped_early(const char *run_dir)
{
    char *path = ls_path_join(run_dir, "result.json"), *text = NULL;
    json_t *j = NULL;
    size_t n = 0;
    int64_t step = -1;
    if (path && ls_file_exists(path) && ls_file_read(&text, &n, path) == LS_OK &&
        ls_json_parse(&j, text, n, path) == LS_OK) {
        const char *ended = json_string_value(json_object_get(j, "ended"));
        const json_t *best = json_object_get(json_object_get(j, "best"), "step");
        if (ended && !strncmp(ended, "early stopping", strlen("early stopping")) && json_is_integer(best))
            step = json_integer_value(best);
    }
    json_decref(j);
    free(text);
    free(path);
    return step;
}

ls_status ls_run_choose(char **out, const char *run_dir, bool best)
{
    char *latest = ls_path_join(run_dir, "checkpoints/latest"),
         *top = ls_path_join(run_dir, "checkpoints/best");
    const int64_t step = best ? -1 : stopped_early(run_dir);
    const bool takes_best = best || (step >= 0 && ls_checkpoint_is(top));
    ls_status s = ls_sys_have(latest ? top : NULL);
    *out = NULL;
    if (s == LS_OK && !ls_checkpoint_is(latest))
        s = ls_fail(
            LS_E_IO,
            "%s: the run has no checkpoint yet; train it further (checkpoint.every_epochs, every_steps)",
            run_dir);
    else if (s == LS_OK && takes_best && !ls_checkpoint_is(top))
        s = ls_fail(
            LS_E_IO,
            "%s: the run has no best checkpoint: no evaluation has measured checkpoint.best.metric yet",
            run_dir);
    if (s == LS_OK && takes_best && step >= 0)
        ls_log_info("early stopping ended %s: this is its best checkpoint, step %lld; its last one is %s",
                    run_dir, (long long)step, latest);
    if (s == LS_OK)
        *out = takes_best ? top : latest;
    free(*out == latest ? NULL : latest);
    free(*out == top ? NULL : top);
    return s;
}
