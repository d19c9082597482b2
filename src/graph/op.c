/* op.c - messages of shape rules. */
#include "op.h"
#include "base/c_locale.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ls_type_text(char buffer[128], const ls_type *t)
{
    if (t->ndim < 0)
        return strcpy(buffer, "(absent)");
    int n = snprintf(buffer, 128, "%s [", ls_dtype_name(t->dtype));
    for (int d = 0; d < t->ndim && n < 100; d++)
        n += snprintf(buffer + n, 128 - (size_t)n, "%s%lld", d ? ", " : "", (long long)t->dims[d]);
    snprintf(buffer + n, 128 - (size_t)n, "]");
    return buffer;
}

ls_status ls_infer_fail(const ls_infer *i, const char *format, ...)
{
    char why[512], operands[768] = "", one[128];
    va_list ap;
    va_start(ap, format);
    ls_vsnprintf(why, sizeof why, format, ap);
    va_end(ap);
    size_t n = 0;
    for (int k = 0; k < i->n_in && k < 6; k++)
        n += (size_t)snprintf(operands + n, sizeof operands - n, "%s%s", k ? ", " : "",
                              ls_type_text(one, &i->in[k]));
    return ls_fail(LS_E_SHAPE, "%s(%s%s): %s", i->op->name, operands, i->n_in > 6 ? ", ..." : "", why);
}
