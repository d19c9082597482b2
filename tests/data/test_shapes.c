/* test_shapes.c - the built-in set has the same bytes everywhere and all classes, and a small network learns
 * it. */
#include "files.h"

#include <math.h>

#include "base/hash.h"
#include "base/rng.h"
#include "data/known.h"

enum { PIXELS = 784, HIDDEN = 32, CLASSES = 10 };

static void test_same_bytes_everywhere(void **state)
{
    (void)state;
    uint8_t image[PIXELS];
    uint64_t h[2] = { 0, 0 };
    for (int split = 0; split < 2; split++)
        for (int64_t i = 0; i < 200; i++) {
            uint8_t label = (uint8_t)ls_shapes_draw(split, i, image);
            h[split] = ls_hash64_more(h[split], image, sizeof image);
            h[split] = ls_hash64_more(h[split], &label, 1);
        }
    if (h[0] != 0x389e5b1c3fee93ceull || h[1] != 0xe9c30c33082f00d6ull)
        fail_msg("drawn bytes changed: 0x%016llx 0x%016llx", (unsigned long long)h[0],
                 (unsigned long long)h[1]);
}

static void test_classes_are_balanced(void **state)
{
    (void)state;
    ls_dataset *set;
    assert_ok(ls_dataset_open(&set, "shapes", LS_SPLIT_EVAL));
    int count[CLASSES] = { 0 };
    uint8_t image[PIXELS];
    int32_t label;
    for (int64_t i = 0; i < 2000; i++) {
        assert_ok(set->read(set, i, (void *const[]){ image, &label }));
        assert_in_range(label, 0, 9);
        count[label]++;
    }
    for (int k = 0; k < CLASSES; k++)
        assert_in_range(count[k], 150, 250);
    assert_true(set->builtin);
    assert_string_equal(set->fields[1].names[0], "disk");
    ls_dataset_close(&set);
}

/* 784 -> 32 ReLU -> 10, plain SGD, one sample at a time: enough to tell that labels and pictures belong
 * together. */
static float w1[HIDDEN][PIXELS], b1[HIDDEN], w2[CLASSES][HIDDEN], b2[CLASSES];

static int forward(const uint8_t *image, float *x, float *h, float *p)
{
    int best = 0;
    float largest = -1e30f, sum = 0;
    for (int i = 0; i < PIXELS; i++)
        x[i] = (float)image[i] / 128.0f - 0.5f;
    for (int j = 0; j < HIDDEN; j++) {
        float a[8] = { b1[j] };
        for (int i = 0; i < PIXELS; i++)
            a[i % 8] += w1[j][i] * x[i];
        float total = a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
        h[j] = total > 0 ? total : 0;
    }
    for (int k = 0; k < CLASSES; k++) {
        p[k] = b2[k];
        for (int j = 0; j < HIDDEN; j++)
            p[k] += w2[k][j] * h[j];
        if (p[k] > largest)
            largest = p[k], best = k;
    }
    for (int k = 0; k < CLASSES; k++)
        sum += p[k] = expf(p[k] - largest);
    for (int k = 0; k < CLASSES; k++)
        p[k] /= sum;
    return best;
}

static void test_learnable(void **state)
{
    (void)state;
    ls_rng_key key = ls_rng_key_of(1, 1);
    for (int i = 0; i < HIDDEN * PIXELS; i++)
        w1[i / PIXELS][i % PIXELS] = 0.03f * (float)ls_rng_normal(key, (uint64_t)i);
    for (int i = 0; i < CLASSES * HIDDEN; i++)
        w2[i / HIDDEN][i % HIDDEN] = 0.15f * (float)ls_rng_normal(key, (uint64_t)(1000000 + i));
    uint8_t image[PIXELS];
    float x[PIXELS], h[HIDDEN], p[CLASSES];
    for (int64_t i = 0; i < 40000; i++) {
        int label = ls_shapes_draw(LS_SPLIT_TRAIN, i, image);
        float rate = i < 30000 ? 0.01f : 0.002f;
        forward(image, x, h, p);
        float dh[HIDDEN] = { 0 };
        for (int k = 0; k < CLASSES; k++) {
            float d = rate * (p[k] - (k == label ? 1.0f : 0.0f));
            for (int j = 0; j < HIDDEN; j++) {
                dh[j] += d * w2[k][j];
                w2[k][j] -= d * h[j];
            }
            b2[k] -= d;
        }
        for (int j = 0; j < HIDDEN; j++) {
            if (h[j] <= 0)
                continue;
            for (int n = 0; n < PIXELS; n++)
                w1[j][n] -= dh[j] * x[n];
            b1[j] -= dh[j];
        }
    }
    int right = 0;
    for (int64_t i = 0; i < 2000; i++) {
        int label = ls_shapes_draw(LS_SPLIT_EVAL, i, image);
        right += forward(image, x, h, p) == label;
    }
    print_message("a network with %d hidden units: %d of 2000 right\n", HIDDEN, right);
    assert_true(right >= 1900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bytes_everywhere),
        cmocka_unit_test(test_classes_are_balanced),
        cmocka_unit_test(test_learnable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
