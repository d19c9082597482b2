/* test_finite.c - a list says which of its tensors may have a NaN or an infinity: others are neither written
 * to a checkpoint, of which nothing stays, nor loaded from one. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "support/support.h"

enum { N = 9000 /* more than two blocks */ };

typedef struct value {
    ls_dtype type;
    uint64_t nan, infinite, most; /* bits */
} value;
static const value VALUES[] = {
    { LS_F32, 0xffc00001, 0x7f800000, 0x7f7fffff },
    { LS_F64, 0x7ff0000000000001, 0xfff0000000000000, 0x7fefffffffffffff },
    { LS_BF16, 0x7f81, 0xff80, 0xff7f },
    { LS_F16, 0xfc01, 0x7c00, 0x7bff },
};

static void put(void *data, ls_dtype d, int64_t i, uint64_t bits)
{
    memcpy((char *)data + (size_t)i * ls_dtype_size(d), &bits, ls_dtype_size(d));
}

/* A list of three tensors: the first finite, the second without NaN, the third of anything. */
typedef struct three {
    double data[3][N];
    ls_named_tensor tensors[3];
    ls_range mine[3];
    ls_tensor_list list;
} three;

static void make(three *t, ls_dtype d, bool strict)
{
    static const char *const NAMES[] = { "weight", "buffer", "other" };
    for (int i = 0; i < 3; i++) {
        const ls_type type = LS_TYPE(d, N);
        memset(t->data[i], 0, sizeof t->data[i]);
        t->tensors[i] = (ls_named_tensor){ NAMES[i], ls_tensor_of(NULL, &type) };
        t->mine[i] = (ls_range){ .count = N, .data = t->data[i] };
    }
    t->list = (ls_tensor_list){ 3, t->tensors, t->mine, strict, strict ? 2 : 0 };
}

static ls_status save(const three *t, const char *dir)
{
    ls_saved saved;
    const ls_checkpoint_contents c = { "{}", "{}", .model = t->list };
    return ls_checkpoint_save(dir, &c, NULL, &saved);
}

static ls_status load(three *t, const char *dir)
{
    ls_checkpoint c;
    LS_TRY(ls_checkpoint_open(&c, dir, LS_VERIFY_LOADED, NULL));
    const ls_status s = ls_ranges_load(c.weights, &t->list,
                                       &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS });
    ls_checkpoint_release(&c);
    return s;
}

static void only_what_may_be(void **state)
{
    (void)state;
    static three t, back;
    static const int64_t AT[] = { 0, 4095, 4096, N - 1 };
    int number = 0;
    for (size_t v = 0; v < sizeof VALUES / sizeof VALUES[0]; v++)
        for (int i = 0; i < 3; i++)
            for (int kind = 0; kind < 3; kind++) {
                const ls_dtype d = VALUES[v].type;
                const uint64_t bits[] = { VALUES[v].nan, VALUES[v].infinite, VALUES[v].most };
                const bool fine = kind == 2 || i == 2 || (i == 1 && kind == 1);
                char dir[300], name[40], element[40];
                const int64_t at = AT[number % 4];
                snprintf(dir, sizeof dir, "%s-%d", ls_test_path("c"), number++);
                snprintf(name, sizeof name, "\"%s\"", i ? "buffer" : "weight");
                snprintf(element, sizeof element, "element %d of 9000", (int)at);
                make(&t, d, true);
                put(t.data[i], d, at, bits[kind]);
                make(&back, d, true);
                if (fine) {
                    ASSERT_OK(save(&t, dir));
                    ASSERT_OK(load(&back, dir));
                    continue;
                }
                const int before = ls_test_count(ls_test_dir());
                ASSERT_FAILS(save(&t, dir), LS_E_NUMERIC, "no checkpoint is made", name, element);
                assert_int_equal(ls_test_count(ls_test_dir()), before);
                make(&t, d, false);
                put(t.data[i], d, at, bits[kind]);
                ASSERT_OK(save(&t, dir));
                ASSERT_FAILS(load(&back, dir), LS_E_NUMERIC, "model.safetensors", name, element);
                make(&back, d, false);
                ASSERT_OK(load(&back, dir));
                assert_memory_equal(back.data[i], t.data[i], N * ls_dtype_size(d));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(only_what_may_be) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
