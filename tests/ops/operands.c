/* operands.c - makes, fills and reads the operands of a case; runs one op on one device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cases.h"
#include "device/ref/ref.h"
#include "support/support.h"

ls_type case_type(const op_case *c, int operand, ls_dtype data)
{
    const case_operand *o = &c->in[operand];
    ls_type t = { .ndim = o->ndim };
    t.dtype = o->dtype == DATA   ? data
              : o->dtype == STAT ? (data == LS_F64 ? LS_F64 : LS_F32)
                                 : (ls_dtype)o->dtype;
    memcpy(t.dims, o->dims, sizeof t.dims);
    return t;
}

void *exact_alloc(size_t bytes)
{
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, 64, bytes ? bytes : 1), 0);
    memset(p, 0xff, bytes);
    return p;
}

double element_get(const ls_tensor *t, int64_t flat) { return flat_get(t, flat); }
void element_put(const ls_tensor *t, int64_t flat, double x) { flat_put(t, flat, x); }

/* f32's limits: infinities, NaN (also with all bits set), zeros, smallest subnormal and normal, largest; what
 * f16 and bf16 round to 0 or infinity; halves of ulps. */
#define NAN_ALL_BITS __builtin_nan("0xfffffffffffff")
static const double SPECIAL[] = {
    0.0,       -0.0,      1.0,  -1.0,    0x1p-149, -0x1p-126, 0x1p-133,    0x1.fffffep127, -0x1.fffffep127,
    HUGE_VAL,  -HUGE_VAL, NAN,  65504.0, 65519.9,  65520.0,   -6e-8,       3e-8,           88.8,
    -87.4,     -104.0,    1e-3, 5.5,     -13.25,   1e10,      -1e10,       0x1.01p0,       0x1.03p0,
    0x1.002p0, 0x1.006p0, 20.0, -9.5,    0.1,      -0.75,     NAN_ALL_BITS
};

static double draw(const case_operand *o, ls_rng_key key, uint64_t i, case_extreme extreme, bool grid)
{
    double x = ls_rng_normal(key, 2 * i);
    switch (extreme) {
    case EXTREME_SPECIAL: return SPECIAL[ls_rng_below(key, 2 * i + 1, sizeof SPECIAL / sizeof *SPECIAL)];
    case EXTREME_WIDE: x *= exp2((double)ls_rng_below(key, 2 * i + 1, 21) - 10); break;
    case EXTREME_LARGE: x *= i % 7 == 0 ? 3000 : 30; break;
    case EXTREME_NONE: break;
    }
    x = grid ? rint(x * 1024) / 1024 : x;
    if (fabs(x) < 0.05)
        x += x < 0 ? -0.0625 : 0.0625;
    return o->fill == FILL_POSITIVE ? 0.5 + fabs(x) : x;
}

static void fill(const case_operand *o, const ls_tensor *t, ls_rng_key key, case_extreme extreme, bool grid)
{
    const int64_t n = ls_type_count(&t->type);
    for (int64_t i = 0; i < n; i++)
        switch (o->fill) {
        case FILL_NORMAL:
        case FILL_POSITIVE: element_put(t, i, draw(o, key, (uint64_t)i, extreme, grid)); break;
        case FILL_PLAIN: element_put(t, i, draw(o, key, (uint64_t)i, EXTREME_NONE, grid)); break;
        case FILL_CONST: element_put(t, i, o->value); break;
        case FILL_INDEX:
            element_put(t, i, i % 5 == 4 ? -100 : (double)ls_rng_below(key, (uint64_t)i, (uint64_t)o->value));
            break;
        case FILL_ID: element_put(t, i, (double)ls_rng_below(key, (uint64_t)i, (uint64_t)o->value)); break;
        case FILL_RESULT: break;
        }
}

void case_inputs(const op_case *c, ls_dtype data, case_extreme extreme, uint64_t seed,
                 ls_tensor in[CASE_MAX_IN])
{
    for (int j = 0; j < c->n_in; j++) {
        const ls_type t = case_type(c, j, data);
        if (t.ndim < 0) {
            in[j] = (ls_tensor){ .type = t };
            continue;
        }
        in[j] = ls_tensor_of(exact_alloc(ls_type_bytes(&t)), &t);
        fill(&c->in[j], &in[j], ls_rng_key_of(seed, (uint64_t)j), extreme, data == LS_F64);
    }
    if (c->prepare)
        c->prepare(c, in);
}

void case_free(int n, ls_tensor *t)
{
    for (int j = 0; j < n; j++) {
        free(t[j].data);
        t[j].data = NULL;
    }
}

int case_outputs(const op_case *c, const ls_tensor *in, ls_type out[LS_MAX_OUT])
{
    const ls_op *op = ls_op_find(c->op);
    ls_type types[CASE_MAX_IN];
    for (int j = 0; j < c->n_in; j++)
        types[j] = in[j].type;
    ls_infer i = {
        .op = op, .n_in = c->n_in, .in = types, .attrs = c->attrs, .at = c->at, .n_out = op->n_out
    };
    ASSERT_OK(op->infer(&i));
    memcpy(out, i.out, sizeof i.out);
    return i.n_out;
}

void run_op(const ls_device *d, const char *op, const void *attrs, int n_in, const ls_tensor *in, int n_out,
            const ls_tensor *out)
{
    run_op_at(d, op, attrs, NULL, n_in, in, n_out, out);
}

/* From the tensor's first element to its last one. */
static op_range range_of(const ls_tensor *t)
{
    int64_t first = 0, last = 0;
    const size_t size = t->type.ndim < 0 ? 0 : ls_dtype_size(t->type.dtype);
    if (!t->data || t->type.ndim < 0 || !ls_type_count(&t->type))
        return (op_range){ NULL, 0 };
    for (int d = 0; d < t->type.ndim; d++)
        *(t->strides[d] < 0 ? &first : &last) += (t->type.dims[d] - 1) * t->strides[d];
    return (op_range){ (char *)t->data + first * (int64_t)size, (size_t)(last - first + 1) * size };
}

void run_op_at(const ls_device *d, const char *op, const void *attrs, const ls_box *at, int n_in,
               const ls_tensor *in, int n_out, const ls_tensor *out)
{
    op_range ranges[OP_RANGES];
    int n = 0;
    for (int j = 0; j < n_in + n_out; j++) {
        const op_range r = range_of(j < n_in ? &in[j] : &out[j - n_in]);
        bool known = !r.base;
        for (int k = 0; k < n; k++)
            known |= (char *)r.base >= (char *)ranges[k].base &&
                     (char *)r.base < (char *)ranges[k].base + ranges[k].bytes;
        assert_true(known || n < OP_RANGES);
        if (!known)
            ranges[n++] = r;
    }
    run_op_in(d, op, attrs, at, n_in, in, n_out, out, n, ranges);
}

/* ---- on a device with memory of its own */

/* Each seed of the shim (tests/gpu) has a queue, which stays open. */
static ls_queue *queue_of(const ls_device *d)
{
    enum { SEEDS = 4 };
    static struct {
        const ls_device_ops *ops;
        ls_queue *q;
    } open[SEEDS];
    const int i = d->threads % SEEDS;
    if (open[i].ops != d->ops) {
        const char *seed = getenv("LS_TEST_SEED");
        char settings[64];
        snprintf(settings, sizeof settings, "seed=%d,delay=0us", (seed ? atoi(seed) : 1) + i);
        setenv("LOCKSTEP_SHIM", settings, 1);
        if (open[i].q)
            open[i].ops->queue->close(&open[i].q);
        ASSERT_OK(d->ops->queue->open(&open[i].q, d));
        open[i].ops = d->ops;
    }
    return open[i].q;
}

static void *in_room(const void *p, int n, const op_range *ranges, void *const *rooms)
{
    for (int i = 0; i < n; i++)
        if ((const char *)p >= (const char *)ranges[i].base &&
            (const char *)p < (const char *)ranges[i].base + ranges[i].bytes)
            return (char *)rooms[i] + ((const char *)p - (const char *)ranges[i].base);
    return n ? rooms[0] : NULL; /* it is empty */
}

static void run_apart(const ls_device *d, const ls_kernel *k, ls_kernel_args *a, ls_tensor *in, int slots,
                      ls_tensor *out, size_t workspace, int n, const op_range *ranges)
{
    const ls_queue_ops *ops = d->ops->queue;
    ls_queue *q = queue_of(d);
    void *rooms[OP_RANGES], *scratch = NULL;
    for (int i = 0; i < n; i++) {
        ASSERT_OK(ops->room(&rooms[i], d, ranges[i].bytes + !ranges[i].bytes));
        ops->copy(q, rooms[i], ranges[i].base, ranges[i].bytes);
    }
    for (int j = 0; j < slots; j++)
        if (in[j].data)
            in[j].data = in_room(in[j].data, n, ranges, rooms);
    for (int o = 0; o < a->n_out; o++)
        if (out[o].data)
            out[o].data = in_room(out[o].data, n, ranges, rooms);
    if (workspace) {
        ASSERT_OK(ops->room(&scratch, d, workspace));
        ops->fill(q, scratch, 0xff, workspace);
    }
    a->workspace = scratch;
    ops->run(q, k, a);
    for (int i = 0; i < n; i++)
        ops->copy(q, ranges[i].base, rooms[i], ranges[i].bytes);
    ls_status s = ops->wait(q, NULL);
    if (s != LS_OK)
        fail_msg("%s on device %s: %s", k->op, d->ops->name, ls_error_message());
    for (int i = 0; i < n; i++)
        ops->release(rooms[i], ranges[i].bytes + !ranges[i].bytes);
    if (scratch)
        ops->release(scratch, workspace);
}

void run_op_in(const ls_device *d, const char *op, const void *attrs, const ls_box *at, int n_in,
               const ls_tensor *in, int n_out, const ls_tensor *out, int n_ranges, const op_range *ranges)
{
    const int max_in = ls_op_find(op)->max_in, slots = max_in > n_in ? max_in : n_in;
    /* trailing optional operands that were left out are there, and absent: as the planner does it */
    ls_tensor all[slots + 1], results[LS_MAX_OUT];
    for (int j = 0; j < slots; j++)
        all[j] = j < n_in ? in[j] : (ls_tensor){ .type.ndim = -1 };
    for (int o = 0; o < n_out; o++)
        results[o] = out[o];
    ls_kernel_args a = { .n_in = n_in,
                         .n_out = n_out,
                         .in = all,
                         .out = results,
                         .attrs = attrs,
                         .at = at,
                         .threads = d->threads,
                         .arch = d->arch };
    const char *why = NULL;
    const ls_kernel *k = ls_device_find(d, op, &a, &why);
    if (!k)
        fail_msg("device %s refuses %s: %s", d->ops->name, op, why);
    const size_t bytes = k->workspace ? k->workspace(&a) : 0;
    if (ls_device_apart(d)) {
        run_apart(d, k, &a, all, slots, results, bytes, n_ranges, ranges);
        return;
    }
    a.workspace = bytes ? exact_alloc(bytes) : NULL;
    k->run(&a);
    free(a.workspace);
}
