/* metric_text.c - see metric_text.h. */
#include "metric_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

bool ls_metric_is_share(const char *name) { return strstr(name, "accuracy"); }

int ls_metric_direction(const char *name)
{
    return ls_metric_is_share(name) || strstr(name, "rouge") ? 1 : ls_ends_with(name, "loss") ? -1 : 0;
}

const char *ls_metric_text(char out[32], const char *name, const char *format, double value)
{
    const bool share = ls_metric_is_share(name);
    return isnan(value) ? "" : ls_format_number(out, share ? "%.2f%%" : format, share ? 100 * value : value);
}

const char *ls_metric_title(char out[LS_METRIC_TITLE], const char *name, const char *evaluation)
{
    const bool eval = !strncmp(name, "eval_", 5);
    snprintf(out, LS_METRIC_TITLE, "%s%s", eval ? evaluation : "", eval ? name + 5 : name);
    return out;
}
