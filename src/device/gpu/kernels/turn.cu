/* turn.cu - copies a tensor whose contiguous dimension becomes another one, in tiles through shared memory,
 * so that both reads and writes are of neighbours. T: an unsigned type of the elements' size. */
#include "dialect.h"
#include "moves.h"
#include "walk.h"

enum { TILE = 32 };
typedef struct turn_shared {
    T tile[TILE][TILE + 1];
} turn_shared;

KERNEL_SHARED(turn, turn_args, 256, turn_shared)
{
    const int x = THREAD % TILE, y = THREAD / TILE, step = THREADS / TILE;
    const i64 in_tile = BLOCK % a.in_tiles, out_tile = BLOCK / a.in_tiles % a.out_tiles;
    const u64 other = (u64)(BLOCK / a.in_tiles / a.out_tiles);
    const T *in = AT(const T, a.in) + shape_offset(other, &a.others, a.others_in);
    T *out = AT(T, a.out) + shape_offset(other, &a.others, a.others_out);
    const i64 i0 = in_tile * TILE, o0 = out_tile * TILE;
    for (int r = y; r < TILE; r += step)
        if (i0 + x < a.in_size && o0 + r < a.out_size)
            s->tile[r][x] = in[(o0 + r) * a.in_stride + i0 + x];
    BARRIER();
    for (int r = y; r < TILE; r += step)
        if (i0 + r < a.in_size && o0 + x < a.out_size)
            out[(i0 + r) * a.out_stride + o0 + x] = s->tile[x][r];
}
