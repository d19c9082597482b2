/* elementwise.cu - a contiguous output, of which each element is computed from the same element of strided
 * inputs. In front of this file stands a text that the host wrote (gpu/elementwise.c):
 *
 *   VALUE: the type of registers
 *
 *   EACH_INPUT(DO): DO(number, type, function from that type to VALUE) for each input; there are INPUTS
 *
 *   chain(x, ..): the result for one element; REGISTERS(e) are its operands, x0[e], x1[e], ...
 *
 *   OUT, OF_VALUE: the output's type, and the function to it
 *
 *   WIDE: neighbours that a thread of `vectors` computes
 *
 * An element is read before it is written, by the same thread, so the output may be an input's memory. */
#include "dialect.h"
#include "elementwise.h"
#include "walk.h"
#include "wide.h"

WIDE_TYPE(f32, WIDE)
WIDE_TYPE(bf16, WIDE)
WIDE_TYPE(f16, WIDE)
WIDE_TYPE(u8, WIDE)
WIDE_TYPE(u16, WIDE)
WIDE_TYPE(u32, WIDE)
WIDE_TYPE(u64, WIDE)
WIDE_TYPE(i32, WIDE)
WIDE_TYPE(i64, WIDE)

/* Where element i of the inputs is; a step in the last dimension is `width` elements. */
DEVICE void places(i64 *from, u64 i, const elementwise_args *a, i64 width)
{
    UNROLL for (int k = 0; k < INPUTS; k++) from[k] = 0;
    for (int d = a->shape.ndim - 1; d >= 0; d--) {
        const i64 at_d = shape_take(&i, &a->shape, d) * (d == a->shape.ndim - 1 ? width : 1);
        UNROLL for (int k = 0; k < INPUTS; k++) from[k] += at_d * a->in[k].strides[d];
    }
}

/* One element of each input; `after`: so many elements behind from[k] */
#define READ_ONE(k, T, TO_VALUE) \
    const VALUE x##k[1] = { TO_VALUE(AT(const T, a.in[k].data)[from[k] + after * a.in[k].strides[last]]) };

#define READ_WIDE(k, T, TO_VALUE)                                                    \
    VALUE x##k[WIDE];                                                                \
    if (a.in[k].strides[last]) {                                                     \
        const wide_##T w = *(const wide_##T *)(AT(const T, a.in[k].data) + from[k]); \
        UNROLL for (int e = 0; e < WIDE; e++) x##k[e] = TO_VALUE(w.v[e]);            \
    } else {                                                                         \
        const VALUE one = TO_VALUE(AT(const T, a.in[k].data)[from[k]]);              \
        UNROLL for (int e = 0; e < WIDE; e++) x##k[e] = one;                         \
    }

#define JOINED_(a, b) a##b
#define WIDE_OF(T) JOINED_(wide_, T)

KERNEL(vectors, elementwise_args, 256)
{
    const i64 i = BLOCK * THREADS + THREAD, first = i * WIDE;
    const int last = a.shape.ndim - 1;
    i64 from[INPUTS];
    if (first >= a.n)
        return;
    places(from, (u64)i, &a, WIDE);
    if (first + WIDE <= a.n) {
        EACH_INPUT(READ_WIDE)
        WIDE_OF(OUT) y;
        UNROLL for (int e = 0; e < WIDE; e++) y.v[e] = OF_VALUE(chain(REGISTERS(e)));
        *(WIDE_OF(OUT) *)(AT(OUT, a.out) + first) = y;
    } else {
        for (i64 after = 0; first + after < a.n; after++) {
            EACH_INPUT(READ_ONE)
            AT(OUT, a.out)[first + after] = OF_VALUE(chain(REGISTERS(0)));
        }
    }
}

KERNEL(each, elementwise_args, 256)
{
    const i64 i = BLOCK * THREADS + THREAD, after = 0;
    const int last = a.shape.ndim - 1;
    i64 from[INPUTS];
    if (i >= a.n)
        return;
    places(from, (u64)i, &a, 1);
    EACH_INPUT(READ_ONE)
    AT(OUT, a.out)[i] = OF_VALUE(chain(REGISTERS(0)));
}
