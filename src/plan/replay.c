/* replay.c - measures the kernel calls of a plan. They run on a queue of its device, in the plan's order and
 * in memory laid out as the plan says, so each call finds the same data in the caches as in training. A
 * model's layers repeat, and a call that has been timed often enough is left out: so a deep model takes
 * little longer than a few of its layers. No collective runs and no data is read. Operands contain small
 * numbers; no kernel's time depends on their values, but for attention to packed documents: positions of 1
 * are those of one long document, which takes most time. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/stop.h"
#include "base/sys.h"
#include "internal.h"
#include "replay.h"
#include "stopwatch.h"

enum {
    TIMES = 5, /* most measurements of a call; the median counts */
    PASSES = 6,
    PERIOD = 61,           /* sources repeat their numbers after so many elements */
    BLOCK = PERIOD * 2048, /* elements of a block of numbers: less than 1 MiB */
};
static const double ENOUGH = 0.02,   /* seconds in one call after which its TIMES suffice */
    QUICK = 0.7;                     /* a pass is repeated while all of them take less */
static const int64_t FLAT = 1 << 24; /* elements of flat operands (an optimizer's), of which more take longer
                                      * in proportion */

typedef struct timing {
    uint64_t call, kind;
    int node, n, under_way; /* under_way: calls in the queue whose times are not in `seconds` yet */
    bool known;
    double seconds[TIMES], total, scale;
    ls_cost cost;
} timing;

typedef struct replay {
    const ls_plan *plan;
    ls_calibration *c;
    ls_arena scratch;
    ls_stopwatch watch;
    void *block[LS_DTYPE_COUNT]; /* the numbers of sources, made when needed */
    char *region[LS_MEM_COUNT];
    size_t bytes[LS_MEM_COUNT], *at; /* at: [allocations], offsets in their regions */
    timing *timings;
    int n, *of; /* [steps]: index into timings */
    ls_tensor *operands;
} replay;

static ls_status list_calls(replay *r)
{
    const ls_plan *p = r->plan;
    int most = 1;
    r->timings = LS_ARENA_ARRAY(&r->scratch, timing, p->n_steps + 1);
    r->of = LS_ARENA_ARRAY(&r->scratch, int, p->n_steps + 1);
    LS_TRY(ls_arena_status(&r->scratch));
    for (int i = 0; i < p->n_steps; i++) {
        const ls_step *s = &p->steps[i];
        const ls_node *n = p->graph->nodes[s->node];
        uint64_t call, kind;
        most = ls_operands(n) > most ? ls_operands(n) : most;
        if (s->part != LS_PART_RUN)
            continue;
        ls_call_digest(p->graph, n, s->cost.flops, &call, &kind);
        int k = 0;
        while (k < r->n && r->timings[k].call != call)
            k++;
        if (k == r->n)
            r->timings[r->n++] = (timing){ .call = call,
                                           .kind = kind,
                                           .node = s->node,
                                           .known = ls_calibration_has(r->c, call),
                                           .scale = 1,
                                           .cost = s->cost };
        r->of[i] = k;
    }
    r->operands = LS_ARENA_ARRAY(&r->scratch, ls_tensor, most);
    return ls_arena_status(&r->scratch);
}

static ls_memory memory_of(const ls_alloc *a)
{
    return a->memory == LS_MEM_GRADIENT ? LS_MEM_ARENA : a->memory;
}

/* Host memory is mapped and not allocated: only a part of a deep model's memory is touched. */
static ls_status map_region(replay *r, int k)
{
    const ls_queue_ops *q = r->watch.ops;
    char text[32];
    void *at;
    if (q->apart) {
        const ls_status s = q->room(&at, r->watch.device, r->bytes[k]);
        if (s != LS_OK)
            return ls_fail(s, "to measure kernels: %s", ls_error_message());
        q->fill(r->watch.queue, at, 0, r->bytes[k]);
    } else {
        at = ls_sys_mmap(r->bytes[k], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                         0);
        if (at == MAP_FAILED)
            return ls_fail(LS_E_MEMORY, "the system refuses %s to measure kernels in",
                           ls_format_bytes(text, r->bytes[k]));
#ifdef MADV_HUGEPAGE
        madvise(at, r->bytes[k], MADV_HUGEPAGE);
#endif
    }
    r->region[k] = at;
    return LS_OK;
}

/* Whether a kernel uses the allocation. On a device whose memory is its own only collectives use PINNED
 * memory, and only transfers use offloaded values. */
static bool is_used(const replay *r, const ls_alloc *a)
{
    return a->memory != LS_MEM_PINNED && !(a->host && r->watch.ops->apart && a->bytes > LS_NUMBER_BYTES);
}

/* Gives allocations their places: those of the plan, but allocations that no kernel uses leave no gaps. */
static ls_status map_regions(replay *r)
{
    const ls_plan *p = r->plan;
    r->at = LS_ARENA_ARRAY(&r->scratch, size_t, p->n_allocs + 1);
    LS_TRY(ls_arena_status(&r->scratch));
    for (int i = 0; i < p->n_allocs; i++) {
        const ls_alloc *a = &p->allocs[i];
        size_t *bytes = &r->bytes[memory_of(a)];
        if (!is_used(r, a))
            continue;
        r->at[i] = ls_is_lasting(a) ? *bytes : a->offset;
        const size_t end = r->at[i] + ls_align_up(a->bytes);
        *bytes = end > *bytes ? end : *bytes;
    }
    for (int k = 0; k < LS_MEM_COUNT; k++)
        if (r->bytes[k])
            LS_TRY(map_region(r, k));
    return LS_OK;
}

static char *address(const replay *r, int alloc)
{
    const ls_alloc *a = &r->plan->allocs[alloc], *of = a->inside ? a->inside : a;
    return r->region[memory_of(of)] + r->at[of - r->plan->allocs] + (a->inside ? a->inside_at : 0);
}

/* Touches the host's pages before the measured part, so that it does not count their first faults. */
static void populate(const replay *r, void *at, size_t bytes)
{
    if (r->watch.ops->apart)
        return;
#ifdef MADV_POPULATE_WRITE
    const uintptr_t page = 4096, begin = (uintptr_t)at / page * page;
    if (!madvise((void *)begin, (uintptr_t)at + bytes - begin, MADV_POPULATE_WRITE))
        return;
#endif
    for (size_t i = 0; i < bytes; i += 4096) {
        volatile char *p = (volatile char *)at + i;
        *p = *p;
    }
}

/* The numbers in sources: small positive floats; integers 1, which are a valid token, class and count. */
static void numbers(void *block, ls_dtype type)
{
    for (int64_t i = 0; i < BLOCK; i++)
        switch (type) {
        case LS_F32: ((float *)block)[i] = (float)(i % PERIOD + 1) / 610; break;
        case LS_F64: ((double *)block)[i] = 0.5; break;
        case LS_BF16:
        case LS_F16: ((uint16_t *)block)[i] = (uint16_t)(0x3c00 + i % PERIOD); break;
        case LS_I32: ((int32_t *)block)[i] = 1; break;
        case LS_I64: ((int64_t *)block)[i] = 1; break;
        default: ((uint8_t *)block)[i] = 1;
        }
}

static ls_status replay_fill(replay *r, const ls_tensor *t)
{
    const size_t size = BLOCK * ls_dtype_size(t->type.dtype);
    void **block = &r->block[t->type.dtype];
    if (!*block) {
        LS_TRY(ls_sys_have(*block = ls_sys_malloc(size)));
        numbers(*block, t->type.dtype);
    }
    ls_stopwatch_fill(&r->watch, t->data, ls_type_bytes(&t->type), *block, size);
    return LS_OK;
}

/* The arguments of a step. Flat operands are shortened to FLAT elements, and *scale is the factor by which
 * the real ones are longer. */
static ls_kernel_args args_of(replay *r, int step, double *scale)
{
    const ls_plan *p = r->plan;
    const ls_step *s = &p->steps[step];
    const ls_node *n = p->graph->nodes[s->node];
    ls_kernel_args a = ls_planner_args(p->graph, n, &p->device, r->operands);
    int64_t flat = -1;
    for (int j = 0; j < ls_operands(n); j++) {
        const ls_value v = ls_operand_value(n, j);
        ls_tensor *t = &r->operands[j];
        if (!ls_present(v))
            continue;
        memcpy(t->strides, p->locations[v.id].strides, sizeof t->strides);
        t->data = address(r, p->locations[v.id].alloc) + p->locations[v.id].offset;
        const int64_t count = ls_type_count(&t->type);
        if (t->type.ndim == 1 && count > FLAT && (flat == -1 || flat == count))
            flat = count;
        else if (count > 1)
            flat = 0;
    }
    *scale = flat > 0 && !s->kernel->workspace ? (double)flat / (double)FLAT : 1;
    for (int j = 0; j < ls_operands(n) && *scale > 1; j++)
        if (ls_present(ls_operand_value(n, j)) && r->operands[j].type.ndim == 1 &&
            r->operands[j].type.dims[0] == flat)
            r->operands[j].type.dims[0] = FLAT;
    a.workspace = s->workspace < 0 ? NULL : address(r, s->workspace);
    a.queue = r->watch.queue;
    return a;
}

static ls_status replay_prepare(replay *r, int step)
{
    const ls_step *s = &r->plan->steps[step];
    const ls_node *n = r->plan->graph->nodes[s->node];
    for (int j = 0; j < ls_operands(n); j++) {
        const ls_value v = ls_operand_value(n, j);
        const ls_tensor *t = &r->operands[j];
        if (!ls_present(v))
            continue;
        int64_t last = 0;
        for (int d = 0; d < t->type.ndim; d++)
            last += (t->type.dims[d] - 1) * t->strides[d];
        populate(r, t->data, (size_t)(last + 1) * ls_dtype_size(t->type.dtype));
        const ls_memory m = r->plan->allocs[r->plan->locations[v.id].alloc].memory;
        if (j < n->n_in && m != LS_MEM_ARENA && ls_tensor_is_contiguous(t))
            LS_TRY(replay_fill(r, t));
    }
    if (s->workspace >= 0)
        populate(r, address(r, s->workspace), r->plan->allocs[s->workspace].bytes);
    return LS_OK;
}

/* Waits for the calls that are under way, and adds their times. */
static ls_status collect(replay *r)
{
    ls_stopwatch *w = &r->watch;
    const ls_plan *p = r->plan;
    int64_t step = 0;
    const ls_status s = w->ops->wait(w->queue, &step);
    if (s != LS_OK)
        return ls_fail(s, "while kernels of program \"%s\" were measured, at step %lld of %d (%s): %s",
                       p->graph->name, (long long)step, p->n_steps,
                       p->graph->nodes[p->steps[step].node]->op->name, ls_error_message());
    for (int i = 0; i < w->n; i++) {
        timing *t = &r->timings[w->laps[i].of];
        const double seconds = ls_stopwatch_seconds(w, i);
        t->seconds[t->n++ % TIMES] = seconds;
        t->total += seconds;
        t->under_way = 0;
    }
    w->n = 0;
    return LS_OK;
}

/* Whether the node writes integers. Other kernels use them as row numbers, so it runs in every pass, also
 * when its time is known. */
static bool makes_numbers(const ls_plan *p, const ls_node *n)
{
    for (int k = 0; k < n->n_out; k++)
        if (!ls_dtype_is_float(ls_type_of(p->graph, n->out[k])->dtype))
            return true;
    return false;
}

static ls_status one_pass(replay *r, int pass, int *ran)
{
    const ls_plan *p = r->plan;
    ls_stopwatch *w = &r->watch;
    *ran = 0;
    for (int i = 0; i < p->n_steps; i++) {
        const ls_step *s = &p->steps[i];
        if (s->part != LS_PART_RUN)
            continue;
        timing *t = &r->timings[r->of[i]];
        if (t->under_way == w->ahead)
            LS_TRY(collect(r));
        const bool timed = t->known || (t->n >= TIMES && t->total > ENOUGH);
        if (timed && !makes_numbers(p, p->graph->nodes[s->node]) && t->n + t->under_way)
            continue;
        if (ls_stop_asked())
            return ls_fail(LS_E_STOPPED, "stopped while kernels were measured");
        const ls_kernel_args a = args_of(r, i, &t->scale);
        w->ops->number(w->queue, i);
        if (!pass)
            LS_TRY(replay_prepare(r, i));
        LS_TRY(ls_stopwatch_begin(w, r->of[i]));
        w->ops->run(w->queue, s->kernel, &a);
        ls_stopwatch_end(w);
        t->under_way++;
        *ran += !timed;
    }
    return collect(r);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static ls_status replay_keep(replay *r)
{
    for (int k = 0; k < r->n; k++) {
        timing *t = &r->timings[k];
        const int n = t->n < TIMES ? t->n : TIMES;
        if (t->known || !n)
            continue;
        qsort(t->seconds, (size_t)n, sizeof *t->seconds, by_size);
        ls_str text = { 0 };
        ls_node_text(&text, r->plan->graph, r->plan->graph->nodes[t->node]);
        LS_TRY(ls_calibration_add(r->c, (ls_kernel_time){ .call = t->call,
                                                          .kind = t->kind,
                                                          .flops = t->cost.flops,
                                                          .bytes = t->cost.bytes,
                                                          .seconds = t->seconds[n / 2] * t->scale,
                                                          .text = ls_str_take(&text) }));
    }
    return LS_OK;
}

static ls_status measure(replay *r)
{
    LS_TRY(list_calls(r));
    int missing = 0, ran = 1;
    for (int k = 0; k < r->n; k++)
        missing += !r->timings[k].known;
    if (!missing)
        return LS_OK;
    LS_TRY(map_regions(r));
    const double start = ls_now();
    for (int pass = 0; pass < PASSES && ran; pass++) {
        const double began = ls_now();
        LS_TRY(one_pass(r, pass, &ran));
        if (!pass && 2 * (ls_now() - start) < QUICK)
            for (int k = 0; k < r->n; k++) /* the first run had cold caches and code */
                r->timings[k].n = 0, r->timings[k].total = 0;
        else if (ls_now() - start + (ls_now() - began) > QUICK)
            break;
    }
    return replay_keep(r);
}

ls_status ls_calibration_replay(ls_calibration *all, const ls_plan *p)
{
    ls_calibration wanted, *c = all->host && !ls_device_apart(&p->device) ? all->host : all;
    ls_calibration_of(&wanted, &p->device);
    if (!ls_device_measured(&p->device) || !p->device.here || strcmp(wanted.device, c->device) ||
        strcmp(wanted.arch, c->arch) || p->device.threads != c->threads)
        return ls_fail(LS_E_UNSUPPORTED,
                       "kernels are measured on the machine that has them: this plan is for "
                       "%s, %s",
                       p->device.ops->name, p->device.arch->name);
    replay r = { .plan = p, .c = c };
    LS_TRY(ls_stopwatch_open(&r.watch, &p->device));
    ls_arena_init(&r.scratch);
    const ls_status s = measure(&r);
    const ls_queue_ops *q = r.watch.ops;
    ls_stopwatch_close(&r.watch); /* after what is still in its queue */
    for (int k = 0; k < LS_MEM_COUNT; k++)
        if (r.region[k])
            q->release(r.region[k], r.bytes[k]);
    for (int k = 0; k < LS_DTYPE_COUNT; k++)
        free(r.block[k]);
    ls_arena_release(&r.scratch);
    return s;
}
