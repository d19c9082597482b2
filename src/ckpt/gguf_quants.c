/* gguf_quants.c - packs blocks of 32 elements: f16 scale, then integers. The scale maps the element of the
 * largest magnitude to the end of the range. */
#include <math.h>

#include "ckpt/gguf_own.h"

static const float TINY = 1e-37f; /* smaller scales have no finite inverse */

/* 127 steps to each side: f16 scale, 32 x int8. */
void ls_gguf_pack_q8_0(const float *x, uint8_t *out)
{
    float most = 0;
    for (int i = 0; i < 32; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    const float scale = most / 127, inverse = fabsf(scale) > TINY ? 1 / scale : 0;
    ls_gguf_put_f16(out, scale);
    for (int i = 0; i < 32; i++)
        out[2 + i] = (uint8_t)(int8_t)roundf(x[i] * inverse);
}

/* The element of the largest magnitude, with its sign. It becomes -`levels` / 2, the end of the range that
 * has one step more. */
static float farthest(const float *x)
{
    float most = 0, is = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            is = x[i];
        }
    return is;
}

/* Product and sum are rounded once, as in a fused multiply-add, so that the bytes do not depend on whether
 * the compiler of the other side makes one. */
static uint8_t step_of(float x, float inverse, float half, int last)
{
    const float at = (float)((double)x * inverse + half + 0.5);
    return (uint8_t)(at < (float)last ? (int)at : last);
}

/* f16 scale; of elements i and i + 16 the steps are the lower and the upper half of byte i. */
void ls_gguf_pack_q4_0(const float *x, uint8_t *out)
{
    const float scale = farthest(x) / -8, inverse = fabsf(scale) > TINY ? 1 / scale : 0;
    ls_gguf_put_f16(out, scale);
    for (int i = 0; i < 16; i++)
        out[2 + i] = (uint8_t)(step_of(x[i], inverse, 8, 15) | step_of(x[i + 16], inverse, 8, 15) << 4);
}

/* The same with a fifth bit of each step, in four bytes after the scale. */
void ls_gguf_pack_q5_0(const float *x, uint8_t *out)
{
    const float scale = farthest(x) / -16, inverse = fabsf(scale) > TINY ? 1 / scale : 0;
    uint32_t fifth = 0;
    ls_gguf_put_f16(out, scale);
    for (int i = 0; i < 16; i++) {
        const uint8_t low = step_of(x[i], inverse, 16, 31), high = step_of(x[i + 16], inverse, 16, 31);
        out[6 + i] = (uint8_t)((low & 15) | (high & 15) << 4);
        fifth |= (uint32_t)(low >> 4) << i | (uint32_t)(high >> 4) << (i + 16);
    }
    for (int i = 0; i < 4; i++)
        out[2 + i] = (uint8_t)(fifth >> (8 * i));
}

/* ---- the table of types */

static void pack_f32(const float *x, uint8_t *out) { ls_element_write(out, LS_F32, *x); }
static void pack_f16(const float *x, uint8_t *out) { ls_gguf_put_f16(out, *x); }
static void pack_bf16(const float *x, uint8_t *out) { ls_element_write(out, LS_BF16, *x); }

static const ls_gguf_kind KINDS[] = {
    { 0, "F32", 1, 4, LS_F32, pack_f32 },
    { 1, "F16", 1, 2, LS_F16, pack_f16 },
    { 2, "Q4_0", 32, 18, -1, ls_gguf_pack_q4_0 },
    { 3, "Q4_1", 32, 20, -1, NULL },
    { 6, "Q5_0", 32, 22, -1, ls_gguf_pack_q5_0 },
    { 7, "Q5_1", 32, 24, -1, NULL },
    { 8, "Q8_0", 32, 34, -1, ls_gguf_pack_q8_0 },
    { 10, "Q2_K", 256, 84, -1, NULL },
    { 11, "Q3_K", 256, 110, -1, NULL },
    { 12, "Q4_K", 256, 144, -1, ls_gguf_pack_q4_k },
    { 13, "Q5_K", 256, 176, -1, NULL },
    { 14, "Q6_K", 256, 210, -1, ls_gguf_pack_q6_k },
    { 16, "IQ2_XXS", 256, 66, -1, NULL },
    { 17, "IQ2_XS", 256, 74, -1, NULL },
    { 18, "IQ3_XXS", 256, 98, -1, NULL },
    { 19, "IQ1_S", 256, 50, -1, NULL },
    { 20, "IQ4_NL", 32, 18, -1, NULL },
    { 21, "IQ3_S", 256, 110, -1, NULL },
    { 22, "IQ2_S", 256, 82, -1, NULL },
    { 23, "IQ4_XS", 256, 136, -1, NULL },
    { 24, "I8", 1, 1, -1, NULL },
    { 25, "I16", 1, 2, -1, NULL },
    { 26, "I32", 1, 4, LS_I32, NULL },
    { 27, "I64", 1, 8, LS_I64, NULL },
    { 28, "F64", 1, 8, LS_F64, NULL },
    { 29, "IQ1_M", 256, 56, -1, NULL },
    { 30, "BF16", 1, 2, LS_BF16, pack_bf16 },
    { 34, "TQ1_0", 256, 54, -1, NULL },
    { 35, "TQ2_0", 256, 66, -1, NULL },
    { 39, "MXFP4", 32, 17, -1, NULL },
};

const ls_gguf_kind *ls_gguf_kind_at(uint32_t id)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (KINDS[i].id == id)
            return &KINDS[i];
    return NULL;
}

const ls_gguf_kind *ls_gguf_kind_named(const char *name)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (!strcmp(KINDS[i].name, name))
            return &KINDS[i];
    return NULL;
}
