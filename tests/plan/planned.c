/* planned.c - see planned.h. */
#include "plan/planned.h"
#include <string.h>

#include "tags.h"
#include "support/support.h"

void nothing(const ls_kernel_args *a) { (void)a; }
size_t thousand(const ls_kernel_args *a) { return 1000 * (size_t)a->threads; }
const char *no_f64(const ls_kernel_args *a)
{
    return a->in[0].type.dtype == LS_F64 ? "f64 is for device ref" : NULL;
}

const ls_kernel KERNELS[] = {
    { .op = "copy", .run = nothing, .any_in = 1 },
    { .op = "add", .run = nothing, .rows_in = 3, .rows_out = 1, .supports = no_f64 },
    { .op = "mul", .run = nothing }, /* contiguous only */
    { .op = "relu", .run = nothing, .rows_in = 1, .rows_out = 1 },
    { .op = "exp", .run = nothing }, /* contiguous only */
    { .op = "add_const", .run = nothing },
    { .op = "cast", .run = nothing },
    { .op = "fill", .run = nothing },
    { .op = "pack", .run = nothing, .rows_out = 1 }, /* contiguous parts, or parts in their place */
    { .op = "permute", .run = nothing },
    { .op = "linear", .run = nothing, .rows_in = 1, .rows_out = 1, .workspace = thousand },
    { .op = "linear_dw", .run = nothing, .rows_in = 3 },
    { .op = "adam", .run = nothing },
    { .op = "count_step", .run = nothing },
    { 0 },
};
static const ls_kernel *const *tables(const ls_arch *arch)
{
    static const ls_kernel *const all[] = { KERNELS, NULL };
    (void)arch;
    return all;
}
const ls_device_ops TEST_DEVICE = { .name = "test", .tables = tables, .computes = false };
static const ls_arch ARCH = { .name = "test" };
const ls_device DEVICE = { .ops = &TEST_DEVICE, .arch = &ARCH, .here = true, .threads = 1 };

static const ls_queue_ops APART_QUEUE = { .apart = true };
static const ls_device_ops APART_OPS = {
    .name = "apart", .tables = tables, .queue = &APART_QUEUE, .computes = false
};
const ls_device APART = { .ops = &APART_OPS, .arch = &ARCH, .here = true, .threads = 1 };

ls_graph *new_graph(void)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "test"));
    return g;
}

ls_plan *plan_of(ls_graph *g)
{
    ls_plan *p;
    ASSERT_OK(ls_graph_finish(g));
    ASSERT_OK(ls_plan_create(&p, g, &DEVICE, &(ls_plan_opts){ .gradients_in_arena = true }));
    check_tags(p);
    ls_plan_destroy(&p);
    ASSERT_OK(ls_plan_create(&p, g, &DEVICE, NULL));
    check_tags(p);
    return p;
}

void release(ls_plan *p, ls_graph *g)
{
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);
}

int count_steps(const ls_plan *p, const char *op)
{
    int n = 0;
    for (int i = 0; i < p->n_steps; i++)
        n += !strcmp(p->graph->nodes[p->steps[i].node]->op->name, op);
    return n;
}

const ls_alloc *alloc_named(const ls_plan *p, const char *name)
{
    for (int i = 0; i < p->n_allocs; i++)
        if (p->allocs[i].name && !strcmp(p->allocs[i].name, name))
            return &p->allocs[i];
    return NULL;
}

int value_of(const ls_plan *p, const char *op, int n)
{
    for (int i = 0; i < p->graph->n_nodes; i++)
        if (!strcmp(p->graph->nodes[i]->op->name, op) && n-- == 0)
            return p->graph->nodes[i]->out[0].id;
    fail_msg("no such node: %s", op);
    return 0;
}

const ls_location *place_of(const ls_plan *p, const char *op, int n)
{
    return &p->locations[value_of(p, op, n)];
}

size_t arena_allocs(const ls_plan *p)
{
    size_t n = 0;
    for (int i = 0; i < p->n_allocs; i++)
        n += p->allocs[i].memory == LS_MEM_ARENA;
    return n;
}

const ls_identity GRADIENT = { .what = LS_IS_GRADIENT };
