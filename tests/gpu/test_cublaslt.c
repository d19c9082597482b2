/* test_cublaslt.c - kernels: cublaslt against ref, over the shim's libcublasLt.so.13, which checks every
 * argument; and that the shim finds arguments that are wrong. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "device/cuda/cublaslt.h"
#include "device/cuda/cuda_own.h"
#include "ops/kernels.h"
#include "support/support.h"

static ls_device device;

/* ---- kernels */

/* linear with nothing to add up is act(bias): our own kernel makes it. */
static void no_depth(void **state)
{
    (void)state;
    kernel_failures = 0;
    const op_case linear = { .op = "linear",
                             .what = "no depth",
                             .attrs = &(ls_linear_attrs){ .act = LS_ACT_RELU },
                             .n_in = 3,
                             .in = { { .ndim = 2, .dtype = DATA, .dims = { 5, 0 } },
                                     { .ndim = 2, .dtype = DATA, .dims = { 7, 0 } },
                                     { .ndim = 1, .dtype = DATA, .dims = { 7 } } },
                             .compare = COMPARE_SUM };
    assert_true(kernel_check(&device, &linear, LS_F32, EXTREME_NONE) > 0);
    assert_int_equal(kernel_failures, 0);
}

static void what_it_refuses(void **state)
{
    const char *why = NULL;
    ls_tensor in[] = { { .type = LS_TYPE(LS_F64, 3, 4) }, { .type = LS_TYPE(LS_F64, 5, 4) } },
              out = { .type = LS_TYPE(LS_F64, 3, 5) };
    ls_kernel_args a = { .n_in = 2,
                         .n_out = 1,
                         .in = in,
                         .out = &out,
                         .attrs = &(ls_linear_attrs){ 0 },
                         .threads = 1,
                         .arch = device.arch };
    (void)state;
    assert_null(ls_device_find(&device, "linear", &a, &why));
    assert_string_equal(why, "only f32, bf16 and f16 (f64 is for device ref)");
    in[0].type = LS_TYPE(LS_BF16, INT64_C(1) << 31, 4);
    in[1].type = LS_TYPE(LS_BF16, 5, 4);
    out.type = LS_TYPE(LS_BF16, INT64_C(1) << 31, 5);
    assert_null(ls_device_find(&device, "linear", &a, &why));
    assert_non_null(strstr(why, "at most 2147483647 rows"));
    in[0].type.dims[0] = out.type.dims[0] = 9;
    const ls_kernel *k = ls_device_find(&device, "linear", &a, &why);
    assert_non_null(k);
    assert_string_equal(k->by, "cublaslt");
}

/* ---- arguments */

enum { A, B, C, D, MATRICES };
typedef struct call {
    int32_t compute, type[MATRICES], batch[MATRICES], trans[2], bias_type;
    uint64_t rows[MATRICES], columns[MATRICES], at[MATRICES];
    int64_t ld[MATRICES], step[MATRICES];
    uint32_t align, epilogue;
    uint64_t bias, workspace, most;
    size_t workspace_bytes;
    float beta;
    bool gone, no_algorithm, device_alpha; /* the layout of A was destroyed; ... */
} call;

static lt_functions lt;
static lt_handle handle;
static cu_stream stream;
static uint64_t room; /* of device memory: 1 MiB */
enum { ROOM = 1 << 20 };

static void *at(uint64_t a) { return (void *)(uintptr_t)a; }

/* D [24 x 10] = A' B + C + bias, 2 matrices of bf16 */
static call right_call(void)
{
    return (call){ .compute = LT_COMPUTE_32F,
                   .type = { LT_R_16BF, LT_R_16BF, LT_R_16BF, LT_R_16BF },
                   .batch = { 2, 2, 2, 2 },
                   .trans = { LT_OP_T, LT_OP_N },
                   .bias_type = LT_R_16BF,
                   .rows = { 40, 40, 24, 24 },
                   .columns = { 24, 10, 10, 10 },
                   .at = { room, room + (64 << 10), room + (128 << 10), room + (192 << 10) },
                   .ld = { 48, 40, 24, 32 },
                   .step = { 1200, 400, 240, 320 },
                   .align = 16,
                   .epilogue = LT_EPILOGUE_BIAS,
                   .bias = room + (256 << 10),
                   .workspace = room + (512 << 10),
                   .most = 256 << 10,
                   .workspace_bytes = 256 << 10,
                   .beta = 1 };
}

typedef struct described {
    lt_operation operation;
    lt_layout l[MATRICES];
} described;

static lt_status describe(described *o, const call *c)
{
    lt_status r = lt.operation_create(&o->operation, c->compute, LT_R_32F);
    if (r != LT_SUCCESS)
        return r;
    assert_int_equal(lt.operation_set(o->operation, LT_OPERATION_TRANS_A, &c->trans[0], 4), 0);
    assert_int_equal(lt.operation_set(o->operation, LT_OPERATION_TRANS_B, &c->trans[1], 4), 0);
    assert_int_equal(lt.operation_set(o->operation, LT_OPERATION_EPILOGUE, &c->epilogue, 4), 0);
    assert_int_equal(lt.operation_set(o->operation, LT_OPERATION_BIAS_TYPE, &c->bias_type, 4), 0);
    assert_int_equal(lt.operation_set(o->operation, LT_OPERATION_BIAS_POINTER, &c->bias, 8), 0);
    for (int i = 0; i < MATRICES; i++) {
        assert_int_equal(lt.layout_create(&o->l[i], c->type[i], c->rows[i], c->columns[i], c->ld[i]), 0);
        assert_int_equal(lt.layout_set(o->l[i], LT_LAYOUT_BATCH_COUNT, &c->batch[i], 4), 0);
        assert_int_equal(lt.layout_set(o->l[i], LT_LAYOUT_BATCH_STRIDE, &c->step[i], 8), 0);
    }
    return LT_SUCCESS;
}

static void forget(const described *o, const call *c)
{
    for (int i = c->gone; i < MATRICES; i++)
        assert_int_equal(lt.layout_destroy(o->l[i]), 0);
    assert_int_equal(lt.operation_destroy(o->operation), 0);
}

/* The first algorithm for a call whose state says that it is one. */
static lt_algorithm algorithm_for(const call *c)
{
    described o;
    lt_preference p;
    lt_choice list[4];
    const uint32_t reductions = LT_REDUCTION_COMPUTE_TYPE;
    int n = 0, i = 0;
    assert_int_equal(describe(&o, c), 0);
    assert_int_equal(lt.preference_create(&p), 0);
    assert_int_equal(lt.preference_set(p, LT_PREFERENCE_WORKSPACE, &c->most, 8), 0);
    assert_int_equal(lt.preference_set(p, LT_PREFERENCE_REDUCTIONS, &reductions, 4), 0);
    for (int m = 0; m < MATRICES; m++)
        assert_int_equal(lt.preference_set(p, LT_PREFERENCE_ALIGNMENT_A + m, &c->align, 4), 0);
    assert_int_equal(lt.choices(handle, o.operation, o.l[A], o.l[B], o.l[C], o.l[D], p, 4, list, &n), 0);
    while (i < n && list[i].state != LT_SUCCESS)
        i++;
    assert_true(i > 0 && i < n); /* the first result is none */
    assert_int_equal(lt.preference_destroy(p), 0);
    forget(&o, c);
    return list[i].algorithm;
}

static lt_status make(const call *c, const lt_algorithm *algorithm)
{
    const float one = 1;
    described o;
    lt_status r = describe(&o, c);
    if (r != LT_SUCCESS)
        return r;
    if (c->gone)
        assert_int_equal(lt.layout_destroy(o.l[A]), 0);
    r = lt.matmul(handle, o.operation, c->device_alpha ? at(c->at[A]) : &one, at(c->at[A]), o.l[A],
                  at(c->at[B]), o.l[B], &c->beta, at(c->at[C]), o.l[C], at(c->at[D]), o.l[D],
                  c->no_algorithm ? NULL : algorithm, at(c->workspace), c->workspace_bytes, stream);
    forget(&o, c);
    return r;
}

static const struct {
    const char *says;
    enum {
        GONE,
        COMPUTE,
        TYPE,
        TYPES,
        NO_ROWS,
        LD,
        SHAPE,
        BATCH,
        STEP,
        EPILOGUE,
        NO_BIAS,
        BIAS_TYPE,
        BIAS_ALIGN,
        ALGORITHM,
        OTHER_ALGORITHM,
        ALPHA,
        OUTSIDE,
        TOO_LONG,
        ALIGNMENT,
        OVERLAP,
        IN_PLACE,
        NO_WORKSPACE,
        SHORT_WORKSPACE,
        WORKSPACE_ALIGNMENT,
        WORKSPACE_OVERLAP,
        PLANTED
    } what;
} MISTAKES[] = { { "a is none of the layouts that there are", GONE },
                 { "the shim computes in f32", COMPUTE },
                 { "C: type 3", TYPE },
                 { "types 14, 14, 2, 2 are not one", TYPES },
                 { "D: 0 x 10", NO_ROWS },
                 { "A: columns are 39 apart and have 40 rows", LD },
                 { "24 x 40 times 41 x 10 is not 24 x 10", SHAPE },
                 { "B has 1 matrices, D has 2", BATCH },
                 { "D: matrices are 319 apart", STEP },
                 { "the shim has no epilogue 32", EPILOGUE },
                 { "a bias at 0 of type 14", NO_BIAS },
                 { "of type 0; D has type 14", BIAS_TYPE },
                 { "is not a multiple of 256 bytes", BIAS_ALIGN },
                 { "no algorithm", ALGORITHM },
                 { "the algorithm is for another product", OTHER_ALGORITHM },
                 { "are not the host's", ALPHA },
                 { "B: 1600 bytes at 0x1000 are not within device memory", OUTSIDE },
                 { "are not within device memory", TOO_LONG },
                 { "is not a multiple of 16 bytes", ALIGNMENT },
                 { "A and D overlap", OVERLAP },
                 { "C and D overlap", IN_PLACE },
                 { "0 bytes of workspace; the algorithm needs", NO_WORKSPACE },
                 { "7679 bytes of workspace; the algorithm needs 7680", SHORT_WORKSPACE },
                 { "the workspace at", WORKSPACE_ALIGNMENT },
                 { "the bias and the workspace overlap", WORKSPACE_OVERLAP } };

static void plant(call *c, int what)
{
    switch (what) {
    case GONE: c->gone = true; break;
    case COMPUTE: c->compute = 64; break;
    case TYPE: c->type[C] = 3; break;
    case TYPES: c->type[C] = c->type[D] = LT_R_16F; break;
    case NO_ROWS: c->rows[D] = 0; break;
    case LD: c->ld[A] = 39; break;
    case SHAPE: c->rows[B] = c->ld[B] = 41; break;
    case BATCH: c->batch[B] = 1; break;
    case STEP: c->step[D] = 319; break;
    case EPILOGUE: c->epilogue = 32; break;
    case NO_BIAS: c->bias = 0; break;
    case BIAS_TYPE: c->bias_type = LT_R_32F; break;
    case BIAS_ALIGN: c->bias += 16; break;
    case ALGORITHM: c->no_algorithm = true; break;
    case OTHER_ALGORITHM: c->ld[B] = 48, c->step[B] = 480; break;
    case ALPHA: c->device_alpha = true; break;
    case OUTSIDE: c->at[B] = 4096; break;
    case TOO_LONG: c->at[A] = room + ROOM - 4096; break;
    case ALIGNMENT: c->at[B] += 2; break;
    case OVERLAP: c->at[D] = c->at[A] + 64; break;
    case IN_PLACE: c->at[C] = c->at[D]; break; /* (another ld) */
    case NO_WORKSPACE: c->workspace = c->workspace_bytes = 0; break;
    case SHORT_WORKSPACE: c->workspace_bytes = 7679; break;
    case WORKSPACE_ALIGNMENT: c->workspace += 128; break;
    case WORKSPACE_OVERLAP: c->workspace = c->bias; break;
    default: fail_msg("mistake %d", what);
    }
}

/* What a call writes to stderr. */
static lt_status listen(char *text, size_t bytes, const call *c, const lt_algorithm *algorithm)
{
    FILE *f = tmpfile();
    const int old = dup(2);
    assert_non_null(f);
    dup2(fileno(f), 2);
    const lt_status r = make(c, algorithm);
    dup2(old, 2);
    close(old);
    rewind(f);
    text[fread(text, 1, bytes - 1, f)] = 0;
    fclose(f);
    return r;
}

static void mistakes_are_found(void **state)
{
    const cu_driver *cu;
    char text[1024];
    (void)state;
    const call right = right_call();
    const lt_algorithm algorithm = algorithm_for(&right);
    ASSERT_OK(ls_cuda_enter(&cu));
    assert_int_equal(cu->fill(room, 0, ROOM, stream), 0);
    assert_int_equal(listen(text, sizeof text, &right, &algorithm), LT_SUCCESS);
    assert_string_equal(text, "");
    assert_int_equal(cu->stream_wait(stream), 0);
    assert_int_equal(sizeof MISTAKES / sizeof *MISTAKES, PLANTED);
    for (int i = 0; i < PLANTED; i++) {
        call wrong = right;
        plant(&wrong, MISTAKES[i].what);
        const lt_status r = listen(text, sizeof text, &wrong, &algorithm);
        if (r == LT_SUCCESS || !strstr(text, MISTAKES[i].says))
            fail_msg("mistake %d: status %d, and it says \"%s\" instead of \"%s\"", i, r, text,
                     MISTAKES[i].says);
    }
    /* without the bias, and C in the place of D: as it may be */
    call in_place = right;
    in_place.ld[C] = in_place.ld[D];
    in_place.step[C] = in_place.step[D];
    in_place.at[C] = in_place.at[D];
    in_place.epilogue = LT_EPILOGUE_DEFAULT;
    const lt_algorithm own = algorithm_for(&in_place);
    assert_int_equal(make(&in_place, &own), LT_SUCCESS);
    assert_int_equal(cu->stream_wait(stream), 0);
}

static int open_device(void **state)
{
    const cu_driver *cu;
    (void)state;
    ASSERT_OK(ls_device_open(&device, "cuda",
                             &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1, .kernels = "cublaslt" }));
    const ls_cuda_symbol symbols[] = {
#define SYMBOL(field, symbol, arguments) { #symbol, &lt.field },
        LT_FUNCTIONS(SYMBOL){ NULL, NULL }
    };
    void *library = dlopen(LS_TEST_SHIMS "/libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    assert_null(ls_cuda_symbols(library, symbols));
    ASSERT_OK(ls_cuda_enter(&cu));
    assert_int_equal(lt.create(&handle), 0);
    assert_int_equal(cu->stream_create(&stream, CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cu->allocate(&room, ROOM), 0);
    return 0;
}
static int close_device(void **state)
{
    const cu_driver *cu;
    (void)state;
    ASSERT_OK(ls_cuda_enter(&cu));
    assert_int_equal(cu->stream_destroy(stream), 0);
    assert_int_equal(cu->release(room), 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_depth), cmocka_unit_test(what_it_refuses),
                                        cmocka_unit_test(mistakes_are_found) };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
