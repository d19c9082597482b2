/* test_updates.c - optimizers that add nothing up give the bits of device cpu on device cuda: Adam, SGD, Lion
 * and the moving average, with gradients and weights of every type, of sizes around a vector and a block, at
 * addresses that allow vectors and at others, applied and skipped. tests/ops compares all optimizers with
 * ref. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/isa.h"
#include "device/queue.h"
#include "graph/update_attrs.h"
#include "support/support.h"

enum { MOST = 9, OUTPUTS = 4, GUARD = 64 };

/* A call: inputs on the host, and which of them the outputs are. */
typedef struct call {
    const char *op;
    const void *attrs;
    int n_in, n_out, out[OUTPUTS];
    ls_tensor in[MOST];
} call;

/* Numbers of both signs over some powers of two. They depend on their place only. */
static void fill(ls_tensor *t, int64_t seed, bool positive)
{
    for (int64_t i = 0; i < ls_type_count(&t->type); i++) {
        const double u = (double)((uint64_t)(i * 7919 + seed * 104729) % 2003) / 2003 - 0.5;
        float x = (float)(ldexp(u, (int)((i + seed) % 9) - 6));
        x = positive ? fabsf(x) : x;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (t->type.dtype == LS_F32)
            ((float *)t->data)[i] = x;
        else if (t->type.dtype == LS_BF16)
            ((uint16_t *)t->data)[i] = (uint16_t)(bits >> 16);
        else /* f16: of a number from 0.5 on to 1, by its exponent and first digits */
            ((uint16_t *)t->data)[i] = (uint16_t)((bits >> 16 & 0x8000) | 0x3800 | (bits >> 13 & 0x3ff));
    }
}

/* n elements in memory that begins `off` elements behind an aligned address. */
static ls_tensor flat(ls_dtype type, int64_t n, int64_t off, int64_t seed, bool positive)
{
    const ls_type t = LS_TYPE(type, n);
    char *memory = aligned_alloc(64, ((size_t)(n + off) * ls_dtype_size(type) + 2 * GUARD + 63) / 64 * 64);
    ls_tensor out = ls_tensor_of(memory + (size_t)off * ls_dtype_size(type), &t);
    fill(&out, seed, positive);
    return out;
}

static ls_tensor scalar(ls_dtype dtype, double x)
{
    const ls_type t = LS_SCALAR(dtype);
    ls_tensor out = ls_tensor_of(aligned_alloc(64, 64), &t);
    if (dtype == LS_F64)
        *(double *)out.data = x;
    else if (dtype == LS_F32)
        *(float *)out.data = (float)x;
    else if (dtype == LS_I64)
        *(int64_t *)out.data = (int64_t)x;
    else
        *(int32_t *)out.data = (int32_t)x;
    return out;
}
static ls_tensor absent(void) { return (ls_tensor){ .type = { .ndim = -1 } }; }
static char *memory_of(const ls_tensor *t, int64_t off)
{
    return (char *)t->data - (size_t)off * ls_dtype_size(t->type.dtype);
}

/* Runs the call on a device, with copies of the inputs; out[k] is what output k became. */
static void run(const ls_device *d, const call *c, int64_t off, void *out[OUTPUTS])
{
    const ls_queue_ops *q = d->ops->queue;
    ls_tensor in[12], result[OUTPUTS];
    void *room[MOST];
    ls_queue *queue;
    ASSERT_OK(q->open(&queue, d));
    for (int j = 0; j < 12; j++)
        in[j] = j < c->n_in ? c->in[j] : absent();
    for (int j = 0; j < c->n_in; j++) {
        if (in[j].type.ndim < 0)
            continue;
        const size_t bytes = (size_t)ls_type_bytes(&in[j].type),
                     before = in[j].type.ndim ? (size_t)off * ls_dtype_size(in[j].type.dtype) : 0;
        if (q->apart) {
            ASSERT_OK(q->room(&room[j], d, bytes + before + GUARD));
        } else {
            room[j] = aligned_alloc(64, (bytes + before + 2 * GUARD) / 64 * 64);
        }
        in[j].data = (char *)room[j] + before;
        q->copy(queue, in[j].data, c->in[j].data, bytes);
    }
    for (int k = 0; k < c->n_out; k++)
        result[k] = in[c->out[k]];
    const ls_kernel_args a = { .n_in = c->n_in,
                               .n_out = c->n_out,
                               .in = in,
                               .out = result,
                               .attrs = c->attrs,
                               .threads = 1,
                               .arch = d->arch,
                               .queue = queue };
    const char *why = "";
    const ls_kernel *kernel = ls_device_find(d, c->op, &a, &why);
    if (!kernel)
        fail_msg("device %s refuses %s: %s", d->ops->name, c->op, why);
    q->run(queue, kernel, &a);
    for (int k = 0; k < c->n_out; k++) {
        const size_t bytes = (size_t)ls_type_bytes(&result[k].type);
        out[k] = malloc(bytes + 1);
        q->copy(queue, out[k], result[k].data, bytes);
    }
    ASSERT_OK(q->wait(queue, NULL));
    q->close(&queue);
    for (int j = 0; j < c->n_in; j++)
        if (in[j].type.ndim >= 0 && q->apart)
            q->release(room[j], 0);
        else if (in[j].type.ndim >= 0)
            free(room[j]);
}

static ls_device cpu, cuda;

static void compare(const call *c, int64_t off, const char *what)
{
    void *expected[OUTPUTS], *got[OUTPUTS];
    run(&cpu, c, off, expected);
    run(&cuda, c, off, got);
    for (int k = 0; k < c->n_out; k++) {
        const ls_type *t = &c->in[c->out[k]].type;
        const size_t size = ls_dtype_size(t->dtype);
        for (int64_t i = 0; i < ls_type_count(t); i++)
            if (memcmp((char *)expected[k] + (size_t)i * size, (char *)got[k] + (size_t)i * size, size))
                fail_msg("%s, %s, %lld elements from %lld on: output %d, element %lld has other bits than "
                         "device cpu's",
                         c->op, what, (long long)ls_type_count(t), (long long)off, k, (long long)i);
        free(expected[k]);
        free(got[k]);
    }
    for (int j = 0; j < c->n_in; j++)
        if (c->in[j].type.ndim >= 0)
            free(memory_of(&c->in[j], c->in[j].type.ndim ? off : 0));
}

static const int64_t SIZES[] = { 1, 3, 4, 17, 129, 4096, 4099, 9000 };
enum { N_SIZES = sizeof SIZES / sizeof *SIZES };
static const ls_dtype TYPES[] = { LS_F32, LS_BF16, LS_F16 };

/* apply: -1 absent */
static ls_tensor apply_of(int apply) { return apply < 0 ? absent() : scalar(LS_I32, apply); }
static ls_tensor scale_of(bool scaled) { return scaled ? scalar(LS_F32, 0.37) : absent(); }

static void adam_has_the_cpus_bits(void **state)
{
    static const ls_adam_attrs OPTIONS[] = { { 0.9, 0.999, 1e-8, 0, 0 },
                                             { 0.9, 0.98, 1e-6, 0.1, 0 },
                                             { 0.8, 0.999, 1e-8, 0.01, 1 } };
    (void)state;
    for (int k = 0; k < N_SIZES * 18; k++) {
        const int64_t n = SIZES[k % N_SIZES], off = k / N_SIZES % 2;
        const ls_dtype from = TYPES[k / N_SIZES / 2 % 3];
        const int how = k / N_SIZES / 6, apply = k % 3 - 1;
        const call c = { "adam",
                         &OPTIONS[how],
                         9,
                         how ? 4 : 3,
                         { 0, 2, 3, 8 },
                         { flat(LS_F32, n, off, 1, false), flat(from, n, off, 2, false),
                           flat(LS_F32, n, off, 3, false), flat(LS_F32, n, off, 4, true),
                           scalar(LS_I64, how ? 1000 * how + 7 : 1), scalar(LS_F64, 1e-3), scale_of(how == 1),
                           apply_of(apply),
                           how == 0 ? absent() : flat(how == 1 ? LS_BF16 : LS_F16, n, off, 5, false) } };
        compare(&c, off, ls_dtype_name(from));
    }
}

static void sgd_has_the_cpus_bits(void **state)
{
    static const ls_sgd_attrs OPTIONS[] = { { 0, 0, 0, 0 }, { 0.9, 0.1, 0.1, 0 }, { 0.9, 0, 0.01, 1 } };
    (void)state;
    for (int k = 0; k < N_SIZES * 18; k++) {
        const int64_t n = SIZES[k % N_SIZES], off = k / N_SIZES % 2;
        const ls_dtype from = TYPES[k / N_SIZES / 2 % 3];
        const int how = k / N_SIZES / 6, apply = k % 3 - 1;
        const call c = { "sgd",
                         &OPTIONS[how],
                         7,
                         how ? 2 : 1,
                         { 0, 2 },
                         { flat(LS_F32, n, off, 1, false), flat(from, n, off, 2, false),
                           how ? flat(LS_F32, n, off, 3, false) : absent(), scalar(LS_I64, 1 + k % 2),
                           scalar(LS_F64, 1e-2), scale_of(how == 1), apply_of(apply) } };
        compare(&c, off, ls_dtype_name(from));
    }
}

static void lion_has_the_cpus_bits(void **state)
{
    static const ls_lion_attrs OPTIONS[] = { { 0.9, 0.99, 0 }, { 0.95, 0.98, 0.1 } };
    (void)state;
    for (int k = 0; k < N_SIZES * 12; k++) {
        const int64_t n = SIZES[k % N_SIZES], off = k / N_SIZES % 2;
        const ls_dtype from = TYPES[k / N_SIZES / 2 % 3];
        const int how = k / N_SIZES / 6, apply = k % 3 - 1;
        const call c = { "lion",
                         &OPTIONS[how],
                         6,
                         2,
                         { 0, 2 },
                         { flat(LS_F32, n, off, 1, false), flat(from, n, off, 2, false),
                           flat(LS_F32, n, off, 3, false), scalar(LS_F64, 1e-3), scale_of(how == 1),
                           apply_of(apply) } };
        compare(&c, off, ls_dtype_name(from));
    }
}

static void the_average_has_the_cpus_bits(void **state)
{
    static const ls_ema_attrs OPTIONS = { 0.999 };
    (void)state;
    for (int k = 0; k < N_SIZES * 4; k++) {
        const int64_t n = SIZES[k % N_SIZES], off = k / N_SIZES % 2;
        const call c = { "ema",
                         &OPTIONS,
                         4,
                         1,
                         { 0 },
                         { flat(LS_F32, n, off, 1, false), flat(LS_F32, n, off, 2, false),
                           scalar(LS_I64, k / N_SIZES / 2 ? 1 : 8), apply_of(k % 3 - 1) } };
        compare(&c, off, "f32");
    }
}

static int open_devices(void **state)
{
    (void)state;
    ASSERT_OK(ls_device_open(&cpu, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    ASSERT_OK(ls_device_open(&cuda, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adam_has_the_cpus_bits),
        cmocka_unit_test(sgd_has_the_cpus_bits),
        cmocka_unit_test(lion_has_the_cpus_bits),
        cmocka_unit_test(the_average_has_the_cpus_bits),
    };
    setenv("LOCKSTEP_CUDA_LIBRARIES", LS_TEST_SHIMS, 0);
    setenv("LOCKSTEP_KERNEL_CACHE", LS_TEST_KERNELS, 0);
    if (ls_isa_best() < LS_ISA_AVX2) {
        print_message(
            "skipped: this machine has only portable kernels, which round between a product and a sum\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, open_devices, NULL);
}
