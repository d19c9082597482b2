/* run_confusion.c - see run_confusion.h. */
#include "run_confusion.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/sys.h"

ls_status ls_run_confusion_write(const char *run_dir, int64_t step, int64_t epoch, const ls_confusions *c)
{
    if (!c->n)
        return LS_OK;
    ls_json j = { 0 };
    char *path = ls_path_join(run_dir, LS_RUN_CONFUSION);
    ls_json_object(&j, NULL);
    ls_json_int(&j, "step", step);
    ls_json_int(&j, "epoch", epoch);
    ls_confusions_write(&j, c);
    ls_json_close_object(&j);
    const ls_status s = ls_json_write(&j, path);
    free(path);
    return s;
}

ls_status ls_run_confusion_read(ls_confusions *out, int64_t *step, const char *run_dir)
{
    char *path = ls_path_join(run_dir, LS_RUN_CONFUSION), *text = NULL;
    json_t *j = NULL;
    size_t n = 0;
    *out = (ls_confusions){ 0 };
    *step = -1;
    ls_status s = ls_sys_have(path);
    if (s == LS_OK && ls_file_exists(path)) {
        s = ls_file_read(&text, &n, path);
        if (s == LS_OK)
            s = ls_json_parse(&j, text, n, path);
        if (s == LS_OK)
            s = ls_confusions_read(out, json_object_get(j, "confusion"), path);
        if (s == LS_OK)
            *step = json_integer_value(json_object_get(j, "step"));
    }
    json_decref(j);
    free(text);
    free(path);
    return s;
}
