/* finite.c - whether a list of tensors may have the elements that it has. A checkpoint of NaN could only fail
 * again, and would push out the ones before it. */
#include <inttypes.h>

#include "base/finite.h"
#include "ckpt/ranges.h"

ls_status ls_ranges_finite(const ls_tensor_list *l, int64_t i, int64_t at, int64_t n, const void *data)
{
    const ls_named_tensor *t = &l->tensors[i];
    const int64_t bad = i < l->numbers ? ls_first_wild(t->tensor.type.dtype, data, n, i >= l->finite) : -1;
    int64_t run;
    return bad < 0 ? LS_OK
                   : ls_fail(LS_E_NUMERIC,
                             "\"%s\" has a NaN or an infinity, the first is element %" PRId64 " of %" PRId64,
                             t->name, ls_range_piece(&l->mine[i], at + bad, &run),
                             ls_type_count(&t->tensor.type));
}
