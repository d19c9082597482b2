/* nf4.h - numbers of 4 bits (Dettmers et al. 2023, QLoRA): blocks of 64 numbers with one scale, and the
 * scales again as bytes. Bytes and numbers are those of bitsandbytes on a CPU (0.50), in its order.
 *
 *   number 2i    NF4[code[i] >> 4] * scale     the scale of a block is the largest |x| in it
 *   number 2i+1  NF4[code[i] & 15] * scale
 *   scale        map[byte] * nested + offset   nested: one for 256 scales; offset: the mean of the scales */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
    LS_NF4_BLOCK = 64,   /* numbers of a scale */
    LS_NF4_NESTED = 256, /* scales of a scale of scales */
    LS_NF4_CODES = 16,
    LS_NF4_MAP = 256
};

extern const float ls_nf4_numbers[LS_NF4_CODES];

/* The values of a scale's byte, ascending from -0.993 to 1. */
void ls_nf4_map(float map[LS_NF4_MAP]);
/* The largest |x| of a block; NaN if one is. */
float ls_nf4_largest(const float x[LS_NF4_BLOCK]);
void ls_nf4_codes(uint8_t to[LS_NF4_BLOCK / 2], const float x[LS_NF4_BLOCK], float largest);
/* n scales as bytes, one nested scale for each 256 of them, and their offset. */
void ls_nf4_scales(uint8_t *to, float *nested, float *offset, const float *scales, int64_t n);
/* The scale of byte `byte`, rounded as bitsandbytes does. */
static inline float ls_nf4_scale(const float map[LS_NF4_MAP], uint8_t byte, float nested, float offset)
{
    return map[byte] * nested + offset;
}
/* A weight NAME of a model has these parts besides: NAME.absmax, NAME.nested_absmax, NAME.nested_offset.
 * Returns the length of NAME for the name of a part, else 0. */
size_t ls_nf4_part(const char *name);
static inline int64_t ls_nf4_nested(int64_t scales) { return (scales + LS_NF4_NESTED - 1) / LS_NF4_NESTED; }
