/* step_html.c - see step_html.h. */
#include "step_html.h"

#include "compiled_recipe.h"

ls_status ls_step_html(const char *path, const char *name, const ls_compiled *c, const ls_step_times *times)
{
    ls_str layout = { 0 };
    if (ls_mesh_ranks(&c->parallel.mesh) > 1)
        ls_layout_text(&layout, c);
    ls_status s = ls_str_status(&layout);
    if (s == LS_OK)
        s = ls_step_page_one(
            path,
            &(ls_step_view){ .name = name, .layout = ls_str_text(&layout), .compiled = c, .times = times });
    ls_str_release(&layout);
    return s;
}
