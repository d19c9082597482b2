/* dcp_ended.c - metadata.json in a DCP directory (dcp.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/sys.h"
#include "ckpt/dcp.h"

static ls_status read_ended(int64_t *epoch, int64_t *step, const char *path)
{
    json_t *j = NULL;
    char *text = NULL;
    size_t n;
    ls_status s = ls_file_read(&text, &n, path);
    if (s == LS_OK)
        s = ls_json_parse(&j, text, n, path);
    const json_t *e = json_object_get(j, "epoch");
    if (s == LS_OK && e && !(json_is_integer(e) && json_integer_value(e) >= 0))
        s = ls_fail(LS_E_FORMAT,
                    "%s: epoch must be the number of the epoch that has ended, from 0: correct it, or delete "
                    "the file",
                    path);
    if (s == LS_OK && e)
        *epoch = json_integer_value(e);
    *step = json_integer_value(json_object_get(j, "step"));
    json_decref(j);
    free(text);
    return s;
}

ls_status ls_dcp_ended(int64_t *epoch, int64_t *step, const char *dir)
{
    *epoch = -1;
    *step = 0;
    char *path = ls_path_join(dir, LS_DCP_ENDED);
    LS_TRY(ls_sys_have(path));
    const ls_status s = ls_file_exists(path) ? read_ended(epoch, step, path) : LS_OK;
    free(path);
    return s;
}

ls_status ls_dcp_put_ended(const ls_dcp_writer *w, int64_t epoch, int64_t step)
{
    ls_str text = { 0 };
    ls_str_printf(&text, "{\"epoch\": %" PRId64 ", \"step\": %" PRId64 "}\n", epoch, step);
    char *path = ls_path_join(w->folder.unfinished, LS_DCP_ENDED);
    const ls_status s = path ? ls_file_write_text(path, &text) : ls_sys_have(path);
    free(path);
    ls_str_release(&text);
    return s;
}
