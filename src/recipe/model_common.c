/* model_common.c - functions for the rows of several models. */
#include "model_row.h"

#include <math.h>
#include <stdio.h>

#include "recipe_setting.h"

int64_t ls_recipe_head_dim(const ls_recipe *r)
{
    return r->model.head_dim ? r->model.head_dim : r->model.hidden_size / r->model.heads;
}

ls_status ls_recipe_check_heads(const ls_recipe *r, bool has_head_dim)
{
    if (r->model.head_dim || r->model.hidden_size % r->model.heads == 0)
        return LS_OK;
    return ls_fail(LS_E_USAGE, "%s: %lld heads do not divide hidden_size %lld%s",
                   ls_recipe_where_either(r, "model.heads", "model.hidden_size"), (long long)r->model.heads,
                   (long long)r->model.hidden_size, has_head_dim ? "; or set model.head_dim" : "");
}

void ls_config_real(ls_json *j, const char *key, double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.1f", x);
    if (x == floor(x) && x < 1e6)
        ls_json_raw(j, key, text);
    else
        ls_json_f64(j, key, x);
}
