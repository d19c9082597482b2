/* test_nf4.c - weights of 4 bits: a file of bitsandbytes (tools/golden/nf4.py) is read as the numbers that it
 * stands for; a model takes its bytes, or the same bytes made of ordinary numbers; other states are refused.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/nf4.h"
#include "ckpt/checkpoint.h"
#include "ckpt/safetensors.h"
#include "support/support.h"

#define GOLDEN LS_TEST_SOURCE_DIR "/tests/golden/nf4.safetensors"

enum { ROWS = 16, COLUMNS = 128, ALL = ROWS * COLUMNS, BLOCKS = ALL / LS_NF4_BLOCK };

typedef struct model {
    uint8_t codes[ALL / 2], bytes[BLOCKS];
    float nested[1], offset[1];
} model;

static ls_weights *open_golden(void)
{
    ls_weights *w;
    ASSERT_OK(ls_weights_open(&w, GOLDEN));
    return w;
}

/* Loads the weight of this name into a model's tensors, this rank's part of them: codes first .. first + n.
 */
static ls_status load(model *m, const ls_weights *w, const char *name, int64_t first, int64_t n)
{
    char names[4][64];
    static const char *const ENDS[] = { "", ".absmax", ".nested_absmax", ".nested_offset" };
    const ls_type types[] = { LS_TYPE(LS_U8, ROWS, COLUMNS / 2), LS_TYPE(LS_U8, ROWS, COLUMNS / 64),
                              LS_TYPE(LS_F32, 1), LS_TYPE(LS_F32, 1) };
    void *data[] = { m->codes + first, m->bytes, m->nested, m->offset };
    ls_named_tensor tensors[4];
    ls_range mine[4];
    for (int k = 0; k < 4; k++) {
        snprintf(names[k], sizeof names[k], "%s%s", name, ENDS[k]);
        tensors[k] = (ls_named_tensor){ names[k], ls_tensor_of(NULL, &types[k]) };
        mine[k] = (ls_range){ .count = ls_type_count(&types[k]), .data = data[k] };
    }
    mine[0].first = first;
    mine[0].count = n;
    const ls_tensor_list l = { .n = 4, .tensors = tensors, .mine = mine };
    return ls_ranges_load(w, &l,
                          &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS, .allow_unexpected = true });
}

static void read_as_numbers(void **state)
{
    (void)state;
    ls_weights *w = open_golden();
    const ls_weight *t = ls_weights_find(w, "layer.weight");
    float want[ALL], have[ALL];
    assert_int_equal(ls_weights_count(w), 3); /* layer.weight, plain.weight, expected */
    assert_string_equal(t->stored, "NF4");
    assert_true(t->type.ndim == 2 && t->type.dims[0] == ROWS && t->type.dims[1] == COLUMNS);
    ASSERT_OK(ls_weight_read(ls_weights_find(w, "expected"), LS_F32, want));
    ASSERT_OK(ls_weight_read(t, LS_F32, have));
    assert_memory_equal(have, want, sizeof want);
    for (int64_t first = 1; first < 200; first += 37) {
        memset(have, 0, sizeof have);
        ASSERT_OK(ls_weight_read_range(t, LS_F32, first, 300, have));
        assert_memory_equal(have, want + first, 300 * sizeof *want);
    }
    ls_weights_close(&w);
}

static void the_same_bytes(void **state)
{
    (void)state;
    ls_weights *w = open_golden();
    static model theirs, ours, parts;
    ASSERT_OK(load(&theirs, w, "layer.weight", 0, ALL / 2));
    ASSERT_OK(load(&ours, w, "plain.weight", 0, ALL / 2));
    assert_memory_equal(&theirs, &ours, sizeof ours);
    for (int64_t first = 0, n; first < ALL / 2; first += n) { /* ranks whose ranges begin inside of blocks */
        n = ALL / 2 - first < 333 ? ALL / 2 - first : 333;
        ASSERT_OK(load(&parts, w, "plain.weight", first, n));
    }
    assert_memory_equal(&parts, &ours, sizeof ours);
    ls_weights_close(&w);
}

/* Opens the file with one text in place of another of the same length. */
static ls_status open_with(ls_weights **w, char **bytes, const char *from, const char *to)
{
    size_t n;
    ASSERT_OK(ls_file_read(bytes, &n, GOLDEN));
    char *at = memmem(*bytes, n, from, strlen(from));
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    return ls_weights_open_memory(w, *bytes, n, "changed");
}

static void other_states(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *says;
    } OTHERS[] = {
        { "\"blocksize\": 64", "\"blocksize\": 32", "nf4 of bitsandbytes in blocks of 32" },
        { "\"quant_type\": \"nf4\"", "\"quant_type\": \"fp4\"", "fp4 of bitsandbytes in blocks of 64" },
        { "\"nested_blocksize\": 256", "\"nested_blocksize\": 128", "nf4 of bitsandbytes in blocks of 64" },
    };
    static model m;
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
        ls_weights *w;
        char *bytes;
        ASSERT_OK(open_with(&w, &bytes, OTHERS[i].from, OTHERS[i].to));
        ASSERT_FAILS(load(&m, w, "layer.weight", 0, ALL / 2), LS_E_SHAPE, OTHERS[i].says);
        ls_weights_close(&w);
        free(bytes);
    }
    static const char *const DAMAGED[][3] = {
        { "{\"quant_type\"", "[\"quant_type\"", "is not the state of a quantised weight" },
        { "[16, 128]", "[16, 129]", "do not have the sizes" },
        { "[16, 128]", "[-6, 128]", "has no quant_type, shape" },
        { "layer.weight.absmax", "layer.weight.absmin", "do not have the sizes" },
        { "layer.weight.quant_map", "layer.weight.quant_mop", "has no quant_map" },
    };
    for (size_t i = 0; i < sizeof DAMAGED / sizeof *DAMAGED; i++) {
        ls_weights *w;
        char *bytes;
        ASSERT_FAILS(open_with(&w, &bytes, DAMAGED[i][0], DAMAGED[i][1]), LS_E_FORMAT, DAMAGED[i][2]);
        free(bytes);
    }
}

static void not_finite(void **state)
{
    (void)state;
    static model m;
    static float x[ALL];
    const char *path = ls_test_path("a.safetensors");
    ls_weights *w;
    x[700] = NAN;
    const ls_type type = LS_TYPE(LS_F32, ROWS, COLUMNS);
    const ls_named_tensor t = { "a.weight", ls_tensor_of(x, &type) };
    ASSERT_OK(ls_weights_save(path, 1, &t));
    ASSERT_OK(ls_weights_open(&w, path));
    ASSERT_FAILS(load(&m, w, "a.weight", 0, ALL / 2), LS_E_NUMERIC,
                 "\"a.weight\" has a NaN or an infinity, in row 5");
    ls_weights_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_as_numbers),
        cmocka_unit_test(the_same_bytes),
        cmocka_unit_test(other_states),
        cmocka_unit_test(not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
