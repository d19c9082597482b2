/* conv_pack.cu - what conv.cu reads instead of the kernel w: its elements as matrices [depth][channels of the
 * result], one for each phase and group, and of each line of them the place in the source that it meets.
 * Product number k of a sum is element k % (elements of the phase) of source channel k / (that). A block
 * turns CONV_PACK x CONV_PACK. The host defines X, the type. */
#include "place.h"
#include "conv_phase.h"

typedef struct conv_pack_shared {
    X tile[CONV_PACK][CONV_PACK + 1];
} conv_pack_shared;

KERNEL_SHARED(conv_pack, conv_args, CONV_THREADS, conv_pack_shared)
{
    const conv_sizes *c = &a.c;
    const i64 tiles_m = a.m_padded / CONV_PACK, tiles_k = (a.depth + CONV_PACK - 1) / CONV_PACK;
    /* BLOCK: phase, group, tile along k, tile along m */
    const i64 line = BLOCK / tiles_m, m0 = (BLOCK - line * tiles_m) * CONV_PACK, matrix = line / tiles_k,
              k0 = (line - matrix * tiles_k) * CONV_PACK, phase = matrix / c->groups,
              group = matrix % c->groups;
    const conv_axis rows = conv_rows(&a, phase), columns = conv_columns(&a, phase);
    const i64 elements = rows.count * columns.count, taps = c->kh * c->kw, channels = a.back ? c->cg : c->og,
              depth = elements * (a.back ? c->og : c->cg), m_step = a.back ? taps : c->cg * taps,
              k_step = a.back ? c->cg * taps : taps, plane = a.back ? c->oh * c->ow : c->h * c->w,
              width = a.back ? c->ow : c->w;
    const X *w = AT(const X, a.w) + group * c->og * c->cg * taps;
    const int lane = THREAD % CONV_PACK;
    const i64 k = k0 + lane, channel = elements ? k / elements : 0, element = k - channel * elements,
              down = columns.count ? element / columns.count : 0, right = element - down * columns.count;
    for (int i = THREAD / CONV_PACK; i < CONV_PACK; i += CONV_THREADS / CONV_PACK) {
        X v = OF_FLOAT(X, 0.0f);
        if (k < depth && m0 + i < channels)
            v = w[(m0 + i) * m_step + channel * k_step + (rows.tap + down * a.tap_step_h) * c->kw +
                  columns.tap + right * a.tap_step_w];
        s->tile[i][lane] = v;
    }
    if (group == 0 && m0 == 0 && THREAD < CONV_PACK && k < a.depth) {
        conv_tap tap;
        tap.element = channel * plane + down * rows.each * width + right * columns.each;
        tap.row = k < depth ? (i32)(down * rows.each) : CONV_NOWHERE;
        tap.column = (i32)(right * columns.each);
        AT(conv_tap, a.taps)[phase * a.depth + k] = tap;
    }
    BARRIER();
    for (int i = THREAD / CONV_PACK; i < CONV_PACK && k0 + i < a.depth; i += CONV_THREADS / CONV_PACK)
        AT(X, a.packed)[(matrix * a.depth + k0 + i) * a.m_padded + m0 + lane] = s->tile[lane][i];
}
