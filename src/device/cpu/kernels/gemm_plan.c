/* gemm_plan.c - the sizes of a matrix product's blocks, from shapes, instruction set and threads alone, so
 * that a plan for another machine is exact (level.h). gemm.h has the words and the picture. None of these
 * sizes decides a bit of a result: only GEMM_KC does. They were chosen by measuring (bench/gemm.c). */
#include "gemm.h"

enum {
    /* Multiply-adds that one thread does: they take about 5 us, less than waking and awaiting a thread. */
    ALONE_PRODUCTS = 1 << 18,

    /* Panels for each thread from which on it computes columns of its own. What another core has packed comes
     * slowly: in bf16 with AMX this is 1.3 to 1.5 times as fast as a shared B. linear_dw goes on
     * sharing, because each thread would have to copy all of A. */
    WIDE_PANELS = 8,

    /* linear_dw with at most this many results (512 KB of f32). Its operands are
     * large and used little, so moving data limits it, not arithmetic. */
    SMALL_DW_RESULTS = 1 << 17,

    /* A strip's part of A takes half of L2; the panels of B and the results stream through the other half. */
    L2_BYTES = 1 << 19,        /* AVX2 and generic: 512 KB, as AMD Zen 2 and 3 have */
    L2_BYTES_AVX512 = 1 << 20, /* 1 MB (Intel Skylake server and later, AMD Zen 4) */
    MIN_STRIP_TILES = 4,       /* fewer would not pay for reading a panel of B into L1 */

    /* Bytes of B that are packed at a time. With few rows a packed panel is used by one or two strips: it
     * stays in L2 between packing and use. With many rows, a strip's copy of A should serve many columns, and
     * B comes from L3. */
    FEW_ROWS = 64,
    FEW_ROWS_B_BYTES = 1 << 18,
    SOME_ROWS = 512,
    SOME_ROWS_B_BYTES = 1 << 20,
    MANY_ROWS_B_BYTES = 4 << 20,

    /* panels of B from which on AVX2 copies a row-major A as tiles */
    TILE_A_PANELS = 20,
};

static void set_operands(gemm_plan *p, const ls_kernel_args *a)
{
    const ls_tensor *x = &a->in[0], *w = &a->in[1];
    p->rows = p->kind == GEMM_DW ? cols_of(x) : rows_of(x);
    p->cols = p->kind == GEMM_LINEAR ? rows_of(w) : gemm_w_cols(a);
    p->depth = p->kind == GEMM_DW ? rows_of(x) : cols_of(x);
}

/* A tile's sums, two vectors of B and a broadcast element of A fill the vector registers (32 with AVX-512, 16
 * without). */
static void set_tile(gemm_plan *p, ls_isa isa, ls_dtype t)
{
    p->amx = isa >= LS_ISA_AMX && t == LS_BF16;
    p->row_unit = p->amx ? 32 : 1;
    p->depth_unit = p->amx ? 32 : t == LS_BF16 && isa >= LS_ISA_AVX512BF16 ? 2 : 1;
    p->kc = p->amx ? GEMM_AMX_KC : GEMM_KC;
    if (p->amx) {
        p->mr = 32;
        p->nr = 2 * 16;
    } else if (isa >= LS_ISA_AVX512) {
        p->mr = 14;
        p->nr = 2 * 16;
    } else if (isa == LS_ISA_AVX2) {
        p->mr = 6;
        p->nr = 2 * 8;
    } else {
        p->mr = 4;
        p->nr = 2 * 4;
    }
    p->a_step = isa == LS_ISA_AVX2 ? p->mr : p->nr / 2;
}

static bool is_small_dw(const gemm_plan *p)
{
    return p->kind == GEMM_DW && p->rows * p->cols <= SMALL_DW_RESULTS;
}

static void set_threads(gemm_plan *p, int threads)
{
    p->threads = threads < 1 || p->rows * p->cols * p->depth <= ALONE_PRODUCTS ? 1 : threads;
    if (p->threads == 1)
        return;
    const bool few_rows = p->rows <
                          (int64_t)p->mr * p->threads / 2; /* less than half a tile for each thread */
    const bool wide_dw = is_small_dw(p) && p->rows < p->cols;
    const bool wide = p->kind != GEMM_DW && p->cols >= (int64_t)WIDE_PANELS * p->nr * p->threads;
    p->split_columns = p->cols > p->nr && (few_rows || wide_dw || wide);
    p->own_b = p->split_columns || is_small_dw(p);
}

/* Reading tiles of A takes one pointer and pages side by side. With AVX2, that is 2 to 5 % faster if enough
 * panels of B pay for the copy. */
static void set_copy(gemm_plan *p, ls_isa isa)
{
    const int64_t parts = p->split_columns ? p->threads : 1;
    const bool many = p->rows > FEW_ROWS && p->cols >= (int64_t)TILE_A_PANELS * p->nr * parts;
    p->tile_a = p->kind == GEMM_DW ? !p->amx : isa == LS_ISA_AVX2 && many;
}

static void set_chunks(gemm_plan *p, ls_isa isa)
{
    p->chunk = isa == LS_ISA_AVX2 && p->rows > FEW_ROWS ? GEMM_CHUNK_AVX2 : GEMM_CHUNK;
    if (is_small_dw(p))
        p->chunk = GEMM_CHUNK_SMALL_DW;
    if (p->depth <= p->chunk * 3 / 2) /* a second chunk of less than half the size does not pay */
        p->chunk = round_up(p->depth, p->amx ? p->depth_unit : 2);
    p->chunk_words = p->amx ? p->chunk / 2 : p->chunk;
    p->chunks = p->chunk ? (p->depth + p->chunk - 1) / p->chunk : 1;
    p->scratch_rows = p->chunks > 1 ? min_i64(round_up(p->rows, p->row_unit), GEMM_SCRATCH_ROWS) : p->rows;
}

static void set_strip(gemm_plan *p, ls_isa isa)
{
    const int64_t l2 = isa >= LS_ISA_AVX512 ? L2_BYTES_AVX512 : L2_BYTES;
    const int64_t tile_bytes = (int64_t)sizeof(float) * p->mr * (p->chunk_words + 1);
    int64_t tiles = l2 / 2 / tile_bytes;
    if (tiles > GEMM_MAX_TILES)
        tiles = GEMM_MAX_TILES;
    if (tiles < MIN_STRIP_TILES)
        tiles = MIN_STRIP_TILES;
    p->strip = p->mr * (int)tiles;
}

static int64_t packed_b_bytes(int64_t rows)
{
    if (rows <= FEW_ROWS)
        return FEW_ROWS_B_BYTES;
    return rows < SOME_ROWS ? SOME_ROWS_B_BYTES : MANY_ROWS_B_BYTES;
}

static void set_block(gemm_plan *p, ls_isa isa)
{
    const int64_t panel_bytes = p->chunk_words * p->nr * (int64_t)sizeof(float) +
                                1; /* (+ 1: depth may be 0) */
    const int64_t panels = packed_b_bytes(p->rows) / panel_bytes;
    const int64_t all = (p->cols + p->nr - 1) / p->nr, parts = p->split_columns ? p->threads : 1;
    p->block = p->nr * min_i64((all + parts - 1) / parts, panels > 1 ? panels : 1);
    /* Where the columns do not fill a block, threads that share B pack several chunks between two meetings.
     */
    const int64_t block_panels = p->block / p->nr;
    p->group = 1;
    if (p->threads > 1 && !p->own_b && panels > block_panels)
        p->group = min_i64(p->chunks, packed_b_bytes(p->rows) / (panel_bytes * block_panels));
    p->fetch_ahead = isa == LS_ISA_AVX2 && block_panels * panel_bytes > L2_BYTES / 2;
}

/* `n` f32 in whole cache lines. */
static size_t f32_bytes(int64_t n) { return (size_t)round_up(n * (int64_t)sizeof(float), GEMM_LINE); }

static void set_bytes(gemm_plan *p)
{
    p->b_bytes = f32_bytes(p->block * p->chunk_words * p->group);
    p->c_bytes = p->chunks > 1 ? f32_bytes(p->scratch_rows * p->block) : 0;
    const int64_t tile = p->a_step * p->chunk_words + p->nr / 2 - p->a_step; /* packed_tile */
    const int64_t packed_a = p->strip / p->mr * tile;
    const int64_t copied_a = p->strip * (p->chunk_words + GEMM_PAD); /* [row][k, padded] */
    p->a_bytes = f32_bytes(p->tile_a ? packed_a : copied_a);
    p->t_bytes = f32_bytes((int64_t)p->strip * p->nr);
    p->s_bytes = p->kind == GEMM_DW ? f32_bytes(p->rows) : 0;
}

gemm_plan LS_NAME(ls_gemm_plan)(const ls_kernel_args *a, gemm_kind kind)
{
    gemm_plan p = { .kind = kind };
    set_operands(&p, a);
    const ls_isa isa = ls_isa_of(a->arch);
    set_tile(&p, isa, a->in[0].type.dtype);
    set_threads(&p, a->threads);
    set_copy(&p, isa);
    set_chunks(&p, isa);
    set_strip(&p, isa);
    set_block(&p, isa);
    set_bytes(&p);
    return p;
}

size_t LS_NAME(ls_gemm_workspace)(const gemm_plan *p)
{
    const size_t threads = (size_t)p->threads, packed = p->b_bytes + p->c_bytes;
    return packed * (p->own_b ? threads : 1) + (p->a_bytes + p->t_bytes) * threads + p->s_bytes;
}
