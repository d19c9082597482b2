/* A step allocates nothing: malloc and mmap are counted while a training step with strided parts, workspace and an update runs. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "graph/autodiff.h"
#include "lockstep/graph.h"
#include "ops/rules.h"
#include "run/internal.h"
#include "support/support.h"

static atomic_int allocations, mappings;
static atomic_bool counting;

static void count(atomic_int *which)
{
    if (counting)
        (*which)++;
}

#if defined(LS_ASAN) || defined(LS_TSAN)
/* The sanitizers own malloc; they tell. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t), void (*on_free)(const volatile void *));
static void on_malloc(const volatile void *p, size_t n) { (void)p, (void)n, count(&allocations); }
static void on_free(const volatile void *p) { (void)p; }
static void install(void) { __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free); }
#else
/* Ours come before libc's for every caller in the process, shared libraries included. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void *malloc(size_t n) { count(&allocations); return __libc_malloc(n); }
void *calloc(size_t n, size_t size) { count(&allocations); return __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { count(&allocations); return __libc_realloc(p, n); }
void *aligned_alloc(size_t alignment, size_t n) { count(&allocations); return __libc_memalign(alignment, n); }
int posix_memalign(void **p, size_t alignment, size_t n)
{
    count(&allocations);
    *p = __libc_memalign(alignment, n);
    return *p ? 0 : 12;
}
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    count(&mappings);
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}
static void install(void) {}
#endif

static void counters_count(void **state)
{
    (void)state;
    allocations = mappings = 0;
    counting = true;
    void *volatile p = malloc(10);
    free(p);
#if !defined(LS_ASAN) && !defined(LS_TSAN)
    void *volatile q = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(q, 4096);
#else
    mappings++;
#endif
    counting = false;
    assert_int_equal(allocations, 1);
    assert_int_equal(mappings, 1);
}

static void step_allocates_nothing(void **state)
{
    (void)state;
    const char *devices[] = { "ref", "cpu" };
    for (int k = 0; k < 2; k++) {
        ls_device d;
        ASSERT_OK(ls_device_open(&d, devices[k], &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 2 }));
        ls_graph *g[2];
        ls_plan *p[2];
        const ls_type flat = LS_TYPE(LS_F32, 32 * 64 + 64);
        ASSERT_OK(ls_graph_create(&g[0], "micro"));
        ls_value x = ls_input(g[0], "x", LS_TYPE(LS_F32, 8, 16, 64)), root = ls_state(g[0], "unit root", flat, (ls_init){ 0 });
        ls_value w = ls_flat_view(g[0], root, 0, &LS_TYPE(LS_F32, 32, 64)), gain = ls_flat_view(g[0], root, 32 * 64, &LS_TYPE(LS_F32, 32));
        ls_value h = ls_matmul_wt(g[0], x, w, LS_NONE);
        h = ls_layer_norm_op(g[0], h, gain, gain, 1e-5);
        h = ls_attention(g[0], h, h, h, LS_NONE, 16, 0.25, true);
        ls_value both[2] = { ls_gelu(g[0], h), h };
        h = ls_concat(g[0], 2, 2, both);
        ls_value loss = ls_sum_to(g[0], ls_mul(g[0], h, h), 0, NULL), grad;
        g[0]->phase = LS_PHASE_BACKWARD;
        ASSERT_OK(ls_backward(g[0], loss, ls_fill(g[0], LS_SCALAR(LS_F32), 1), 1, &root, &grad));
        ls_output(g[0], "loss", loss);
        ls_output(g[0], "grad.unit root", grad);
        ASSERT_OK(ls_graph_create(&g[1], "update"));
        const ls_adam_attrs adam = { .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 };
        ls_value step = ls_state(g[1], "step", LS_SCALAR(LS_I64), (ls_init){ 0 });
        step = ls_graph_apply(g[1], &ls_op_count_step, 2, (ls_value[]){ step, LS_NONE }, NULL);
        ls_value in[8] = { ls_state(g[1], "unit root", flat, (ls_init){ 0 }), ls_input(g[1], "grad.unit root", flat),
                           ls_state(g[1], "m", flat, (ls_init){ 0 }), ls_state(g[1], "v", flat, (ls_init){ 0 }), step,
                           ls_input(g[1], "lr", LS_SCALAR(LS_F64)) };
        ls_graph_apply(g[1], &ls_op_adam, 8, in, &adam);
        ls_session *s;
        for (int i = 0; i < 2; i++) {
            ASSERT_OK(ls_graph_finish(g[i]));
            ASSERT_OK(ls_plan_create(&p[i], g[i], &d, NULL));
        }
        ASSERT_OK(ls_session_create(&s, 2, p));
        for (int profile = 0; profile < 2; profile++) {
            ls_session_profile(s, profile);
            for (int i = 0; i < 2; i++) /* starts the threads */
                ASSERT_OK(ls_session_run(s, i, false));
            allocations = mappings = 0;
            counting = true;
            for (int run = 0; run < 6; run++)
                if (ls_session_run(s, run % 2, run == 5) != LS_OK)
                    abort();
            counting = false;
            assert_int_equal(allocations, 0);
            assert_int_equal(mappings, 0);
        }
        ls_session_destroy(&s);
        for (int i = 0; i < 2; i++) {
            ls_plan_destroy(&p[i]);
            ls_graph_destroy(&g[i]);
        }
    }
}

int main(void)
{
    install();
    const struct CMUnitTest tests[] = { cmocka_unit_test(counters_count), cmocka_unit_test(step_allocates_nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
