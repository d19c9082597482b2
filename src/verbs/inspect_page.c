/* inspect_page.c - the data of the page; src/pages/scripts/model.js draws it. */
#include "inspect_page.h"

#include "base/file.h"
#include "base/log.h"
#include "pages/page.h"

void ls_inspect_page_begin(ls_json *j, const char *title, const char *about, const char *holder)
{
    ls_json_object(j, NULL);
    ls_json_text(j, "title", title);
    ls_json_text(j, "about", about);
    ls_json_text(j, "holder", holder);
    ls_json_array(j, "tensors");
}

void ls_inspect_page_tensor(ls_json *j, const char *name, const char *dtype, const ls_type *type,
                            uint64_t bytes, const char *where)
{
    ls_json_object(j, NULL);
    ls_json_text(j, "name", name);
    ls_json_text(j, "dtype", dtype);
    ls_json_array(j, "shape");
    for (int d = 0; d < type->ndim; d++)
        ls_json_int(j, NULL, type->dims[d]);
    ls_json_close_array(j);
    ls_json_int(j, "elements", ls_type_count(type));
    ls_json_int(j, "bytes", (int64_t)bytes);
    ls_json_text(j, "where", where);
    ls_json_array(j, "held");
}

void ls_inspect_page_held(ls_json *j, int holder, int64_t count, const char *text)
{
    ls_json_object(j, NULL);
    ls_json_int(j, "by", holder);
    ls_json_int(j, "count", count);
    ls_json_text(j, "what", text);
    ls_json_close_object(j);
}

void ls_inspect_page_tensor_end(ls_json *j)
{
    ls_json_close_array(j);
    ls_json_close_object(j);
}

ls_status ls_inspect_page_write(const char *path, const char *title, ls_json *j, int n,
                                const char *const *names)
{
    ls_str out = { 0 };
    ls_json_close_array(j);
    ls_json_array(j, "holders");
    for (int i = 0; i < n; i++)
        ls_json_text(j, NULL, names[i]);
    ls_json_close_array(j);
    ls_json_close_object(j);
    ls_page_begin(&out, title, true);
    ls_page_data(&out, "data", j);
    ls_page_end(&out, "charts.js model.js");
    const ls_status s = ls_file_write_text(path, &out);
    ls_str_release(&out);
    if (s == LS_OK)
        ls_log_info("the tensors are in %s: open it in a browser", path);
    return s;
}
