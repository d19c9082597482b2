/* accumulate.c - the balanced tree over micro-batches. */
#include "accumulate.h"

#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"

ls_status ls_tree_create(ls_tree *t, const ls_device *d, ls_type type, int levels, bool running)
{
    *t = (ls_tree){ .device = *d, .type = type, .levels = levels, .running = running };
    if (!levels)
        return LS_OK;
    const char *why;
    ls_tensor ops[2] = { ls_tensor_of(NULL, &type), ls_tensor_of(NULL, &type) },
              sum = ls_tensor_of(NULL, &type);
    ls_kernel_args shapes = {
        .n_in = 2, .n_out = 1, .in = ops, .out = &sum, .threads = d->threads, .arch = d->arch
    };
    t->add = ls_device_find(d, "add", &shapes, &why);
    if (!t->add)
        return ls_fail(LS_E_UNSUPPORTED, "adding gradients of micro-batches: %s", why);
    t->stride = (ls_type_bytes(&type) + 63) / 64 * 64;
    t->bytes = t->stride * (size_t)levels;
    t->memory = ls_sys_mmap(t->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (t->memory == MAP_FAILED) {
        t->memory = NULL;
        return ls_fail(LS_E_MEMORY,
                       "no memory for %d gradient buffers of %zu bytes; use a larger micro_batch or "
                       "the running accumulation",
                       levels, t->stride);
    }
    return LS_OK;
}

void ls_tree_release(ls_tree *t)
{
    if (t->memory)
        munmap(t->memory, t->bytes);
    *t = (ls_tree){ 0 };
}

void ls_tree_begin(ls_tree *t) { t->occupied = 0; }

static void *level(const ls_tree *t, int k) { return (char *)t->memory + (size_t)k * t->stride; }

/* grad = left + grad */
static void add(const ls_tree *t, void *left, void *grad)
{
    ls_tensor in[2] = { ls_tensor_of(left, &t->type), ls_tensor_of(grad, &t->type) }, out = in[1];
    t->add->run(&(ls_kernel_args){
        .n_in = 2, .n_out = 1, .in = in, .out = &out, .threads = t->device.threads, .arch = t->device.arch });
}

void ls_tree_add(ls_tree *t, void *grad, bool last)
{
    if (!t->levels)
        return;
    int k = 0;
    /* after the last micro-batch all occupied levels are added, whatever lies between them */
    while ((t->occupied & (uint64_t)1 << k) || (last && t->occupied >> k)) {
        if (t->occupied & (uint64_t)1 << k) {
            add(t, level(t, k), grad);
            t->occupied &= ~((uint64_t)1 << k);
        }
        k++;
    }
    if (last)
        return;
    if (t->running)
        k = 0;
    memcpy(level(t, k), grad, ls_type_bytes(&t->type));
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
