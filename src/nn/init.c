/* init.c - initial values from the counter RNG. Element i uses word i % 4 of block i / 4 (uniform), or block
 * i (normal). */
#include "init.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/thread_pool.h"
#include "base/bf16.h"
#include "base/element.h"
#include "base/rng.h"

typedef struct job {
    void *data;
    ls_dtype dtype;
    int64_t first;
    ls_init init;
    ls_rng_key key;
} job;

static void store(const job *j, int64_t i, double x)
{
    if (j->dtype == LS_BF16) {
        ((uint16_t *)j->data)[i] = ls_to_bf16((float)x);
        return;
    }
    if (j->dtype == LS_F16)
        ls_element_write((uint16_t *)j->data + i, LS_F16, (double)(float)x);
    else if (j->dtype == LS_F64)
        ((double *)j->data)[i] = (double)(float)x; /* rounded to f32, so that runs in f64 can be compared */
    else
        ((float *)j->data)[i] = (float)x;
}

/* Normal numbers, truncated to +-b: a number outside is drawn again from the next counter plane. */
static double truncated(const job *j, uint64_t i, double deviation, double cut)
{
    for (uint64_t plane = 0;; plane++) {
        uint32_t w[4];
        ls_rng_block(j->key, i, plane + 1, w);
        double u = ((double)w[0] + 0.5) * 0x1p-32, v = (double)w[1] * 0x1p-32;
        double x = deviation * sqrt(-2.0 * log(u)) * cos(2.0 * M_PI * v);
        if (fabs(x) <= cut)
            return x;
    }
}

/* Uniform, as most parameters are: a + (b - a) * k / 2^24, where k is the upper 24 bits of a word. */
static void fill_uniform(const job *j, int64_t begin, int64_t end)
{
    double a = j->init.a, width = (j->init.b - j->init.a) * 0x1p-24;
    uint32_t words[8][4];
    for (int64_t k = begin; k < end;) {
        uint64_t i = (uint64_t)(j->first + k), group = i / 32;
        ls_rng_blocks8(j->key, 8 * group, 0, words);
        for (uint64_t w = i % 32; w < 32 && k < end; w++, k++)
            store(j, k, a + width * (double)(words[w / 4][w % 4] >> 8));
    }
}

static void fill_normal(const job *j, int64_t begin, int64_t end)
{
    double x[8];
    for (int64_t k = begin; k < end; k += 8) {
        ls_rng_normals8(j->key, (uint64_t)(j->first + k), x);
        for (int64_t i = 0; i < 8 && k + i < end; i++)
            store(j, k + i, j->init.a + j->init.b * x[i]);
    }
}

static void init_fill(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = context;
    if (j->init.kind == LS_INIT_UNIFORM) {
        fill_uniform(j, begin, end);
        return;
    }
    if (j->init.kind == LS_INIT_NORMAL) {
        fill_normal(j, begin, end);
        return;
    }
    for (int64_t k = begin; k < end; k++) {
        uint64_t i = (uint64_t)(j->first + k);
        double x = 0;
        switch (j->init.kind) {
        case LS_INIT_ZERO: break;
        case LS_INIT_ONE: x = 1; break;
        case LS_INIT_CONST: x = j->init.a; break;
        case LS_INIT_TRUNC_NORMAL: x = truncated(j, i, j->init.a, j->init.b); break;
        case LS_INIT_UNIFORM:
        case LS_INIT_NORMAL: break; /* done above */
        }
        store(j, k, x);
    }
}

void ls_init_values(void *data, ls_dtype dtype, int64_t first, int64_t n, ls_init init, uint64_t seed,
                    const char *name, int threads)
{
    job j = { data, dtype, first, init, ls_rng_key_of(seed, ls_hash_text(name)) };
    ls_parallel_for(n < 8192 ? 1 : threads, n, init_fill, &j);
}
