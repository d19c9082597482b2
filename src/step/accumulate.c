/* accumulate.c - adds micro-batches in a balanced tree (accumulate.h). */
#include "accumulate.h"

#include "base/check.h"

ls_status ls_tree_init(ls_tree *t, const ls_device *d, const ls_place *grad, int first, int levels,
                       bool running)
{
    *t = (ls_tree){ .grad = *grad, .first = first, .levels = levels, .running = running };
    if (!levels)
        return LS_OK;
    const char *why;
    const ls_tensor ops[2] = { ls_tensor_of(NULL, &grad->type), ls_tensor_of(NULL, &grad->type) };
    ls_tensor sum = ops[0];
    ls_kernel_args shapes = {
        .n_in = 2, .n_out = 1, .in = ops, .out = &sum, .threads = d->threads, .arch = d->arch
    };
    t->add = ls_device_find(d, "add", &shapes, &why);
    const ls_type level = ls_session_spare(grad->session, first).type;
    LS_CHECK(ls_type_equal(&level, &grad->type), "the levels of a tree are of its gradient's type");
    return t->add ? LS_OK : ls_fail(LS_E_UNSUPPORTED, "adding gradients of micro-batches: %s", why);
}

void ls_tree_begin(ls_tree *t) { t->occupied = 0; }

static ls_place level(const ls_tree *t, int k) { return ls_session_spare(t->grad.session, t->first + k); }

void ls_tree_add(ls_tree *t, bool last)
{
    if (!t->levels)
        return;
    int k = 0;
    /* after the last micro-batch all occupied levels are added, whatever lies between them */
    while ((t->occupied & (uint64_t)1 << k) || (last && t->occupied >> k)) {
        if (t->occupied & (uint64_t)1 << k) {
            const ls_place left = level(t, k);
            ls_session_call(t->add, 2, (const ls_place *const[]){ &left, &t->grad }, &t->grad, NULL);
            t->occupied &= ~((uint64_t)1 << k);
        }
        k++;
    }
    if (last)
        return;
    if (t->running)
        k = 0;
    const ls_place to = level(t, k);
    ls_session_copy(&to, &t->grad);
    t->occupied |= (uint64_t)1 << k;
}

double ls_tree_sum(const double *x, int64_t n, bool running)
{
    if (n < 2)
        return n ? x[0] : 0;
    int64_t left = running ? n - 1 : 1;
    while (!running && 2 * left < n)
        left *= 2;
    return ls_tree_sum(x, left, running) + ls_tree_sum(x + left, n - left, running);
}
