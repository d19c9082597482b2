/* gemm.c - the loops around the tile: blocks of columns, chunks of depth, strips of rows, and how they are
 * shared by threads. gemm.h has the whole picture. */
#include "gemm.h"

static gemm_plan plan_of(const ls_kernel_args *a, gemm_kind kind)
{
    const ls_tensor *x = &a->in[0], *w = &a->in[1];
    gemm_plan p = { .kind = kind };
    p.rows = kind == GEMM_DW ? cols_of(x) : rows_of(x);
    p.cols = kind == GEMM_LINEAR ? rows_of(w) : cols_of(w);
    p.depth = kind == GEMM_DW ? rows_of(x) : cols_of(x);
    /* 5 us of work are not worth waking anyone */
    p.threads = a->threads < 1 || p.rows * p.cols * p.depth <= 1 << 18 ? 1 : a->threads;
    p.mr = a->isa >= LS_ISA_AVX512 ? 14 : a->isa == LS_ISA_AVX2 ? 6 : 4;
    p.nr = a->isa >= LS_ISA_AVX512 ? 32 : a->isa == LS_ISA_AVX2 ? 16 : 8;
    const bool small_dw = kind == GEMM_DW && p.rows * p.cols <= 1 << 17;
    p.split_columns = p.threads > 1 && p.cols > p.nr &&
                      (p.rows < (int64_t)p.mr * p.threads / 2 || (small_dw && p.rows < p.cols));
    p.own_b = p.split_columns || (p.threads > 1 && small_dw);
    p.chunk = small_dw ? GEMM_CHUNK_SMALL_DW : GEMM_CHUNK;
    if (p.depth <= p.chunk * 3 / 2)
        p.chunk = round_up(p.depth, 2);
    p.chunks = p.chunk ? (p.depth + p.chunk - 1) / p.chunk : 1;
    const int64_t l2 = a->isa >= LS_ISA_AVX512 ? 1 << 20 : 1 << 19,
                  tiles = l2 / 2 / (4 * p.mr * (p.chunk + 1));
    p.strip = p.mr * (int)(tiles > GEMM_MAX_TILES ? GEMM_MAX_TILES : tiles < 4 ? 4 : tiles);
    /* With few rows B is used once or twice: pack what stays in L2. With many, A's copies want to be shared
     * by many columns. */
    const int64_t bytes = p.rows <= 64   ? 1 << 18
                          : p.rows < 512 ? 1 << 20
                                         : 4 << 20,
                  panel = p.chunk * p.nr * 4 + 1;
    p.block = min_i64(round_up(p.cols, p.nr), p.nr * (bytes / panel > 1 ? bytes / panel : 1));
    p.scratch_rows = p.chunks > 1 ? min_i64(p.rows, GEMM_SCRATCH_ROWS) : p.rows;
    p.group = p.threads > 1 && !p.own_b && bytes / panel > p.block / p.nr
                  ? min_i64(p.chunks, bytes / (panel * (p.block / p.nr)))
                  : 1;
    p.b_bytes = (size_t)round_up(p.block * p.chunk * p.group * 4, 64);
    p.c_bytes = p.chunks > 1 ? (size_t)round_up(p.scratch_rows * p.block * 4, 64) : 0;
    const int64_t lanes = p.nr / 2, packed = p.strip / p.mr * lanes * p.chunk,
                  copied = p.strip * (p.chunk + GEMM_PAD);
    p.a_bytes = (size_t)round_up((kind == GEMM_DW ? packed : copied) * 4, 64);
    p.t_bytes = (size_t)round_up((int64_t)p.strip * p.nr * 4, 64);
    p.s_bytes = kind == GEMM_DW ? (size_t)round_up(p.rows * 4, 64) : 0;
    return p;
}

static size_t workspace_of(const gemm_plan *p)
{
    const size_t threads = (size_t)p->threads, shared = p->b_bytes + p->c_bytes;
    return (p->own_b ? shared * threads : shared) + (p->a_bytes + p->t_bytes) * threads + p->s_bytes;
}

typedef struct gemm {
    gemm_plan p;
    const ls_kernel_args *args;
    const gemm_form *form;
    bool a_in_place, drop_subnormals;
    bool direct; /* f32, and nothing but perhaps a bias to add: tiles store straight to the output */
    const float *bias;
    float *b, *c;     /* packed block of B; sums between chunks, [panel][scratch_rows][nr] */
    float *sums;      /* of A's rows; NULL if not wanted */
    char *per_thread; /* a_bytes + t_bytes each */
    /* the step at hand */
    int64_t j0, j1, i0, i1, chunk0, chunk1;
} gemm;

/* Words of a chunk's depth. */
static int64_t steps_of(const gemm *g, int64_t chunk)
{
    const int64_t left = g->p.depth - chunk * g->p.chunk;
    return min_i64(g->p.chunk, GEMM_PAIRS(g->args->in[0].type.dtype) ? round_up(left, 2) : left) /
           g->form->unit;
}
static float *b_of(const gemm *g, int64_t chunk)
{
    return g->b + (chunk - g->chunk0) * g->p.block * g->p.chunk;
}
static int64_t panels_of(const gemm *g) { return (g->j1 - g->j0 + g->p.nr - 1) / g->p.nr; }

/* Panels [begin, end) of the group, chunk after chunk. */
static void pack_b(const gemm *g, int64_t begin, int64_t end)
{
    const int64_t panels = panels_of(g);
    while (begin < end) {
        const int64_t chunk = g->chunk0 + begin / panels, first = begin % panels,
                      n = min_i64(end - begin, panels - first);
        const int64_t steps = steps_of(g, chunk), j = g->j0 + first * g->p.nr;
        g->form->pack_b(&g->p, b_of(g, chunk) + first * g->p.nr * steps, &g->args->in[1], chunk * g->p.chunk,
                        steps, j, min_i64(g->j1, j + n * g->p.nr));
        begin += n;
    }
}

/* Makes the list of what the tiles of a strip want from memory over `steps`; what finds no room is not asked
 * for. */
typedef struct wanted {
    gemm_ahead list[GEMM_KC / GEMM_AHEAD_STEPS];
    int n, room;
} wanted;

static void want(wanted *w, const char *at, int64_t row_bytes, int64_t bytes)
{
    for (; bytes > 0 && w->n < w->room; bytes -= GEMM_LINE, at += GEMM_LINE)
        w->list[w->n++] = (gemm_ahead){ at, row_bytes };
}
static void want_columns(wanted *w, const ls_tensor *t, int64_t row, int64_t from, int64_t to)
{
    const int64_t size = elem_size(t->type.dtype);
    if (present(t))
        want(w, elem_at(t, row * row_stride(t) + from), row_stride(t) * size, (to - from) * size);
}

/* What finishing the tiles of columns [j, j1) reads and writes. */
static void want_operands(wanted *w, const ls_kernel_args *a, gemm_kind kind, int64_t i0, int64_t j,
                          int64_t j1)
{
    for (int k = kind == GEMM_LINEAR ? 3 : 2; k < a->n_in; k++)
        want_columns(w, &a->in[k], i0, j, j1);
    for (int k = 0; k < a->n_out; k++)
        want_columns(w, &a->out[k], i0, j, j1);
}

/* linear_dw: the next chunk, of which each tile takes GEMM_LINES rows. */
static void want_chunk(wanted *w, const gemm *g, int64_t chunk, int64_t i0, int rows)
{
    want_columns(w, &g->args->in[0], chunk * g->p.chunk, i0, i0 + rows);
    want_columns(w, &g->args->in[1], chunk * g->p.chunk, g->j0, g->j1);
}

/* Rows i0 .. i0+rows of the block: all its columns, over one chunk's depth. */
static void strip(const gemm *g, int64_t i0, int rows, int64_t chunk, int worker)
{
    const gemm_plan *p = &g->p;
    const ls_tensor *a = &g->args->in[0];
    const int64_t k0 = chunk * p->chunk, all = steps_of(g, chunk);
    const bool first = chunk == 0, last = chunk == p->chunks - 1;
    float *copy = (float *)(g->per_thread + (size_t)worker * (p->a_bytes + p->t_bytes)),
          *sums = copy + p->a_bytes / 4;
    const int tiles = (rows + p->mr - 1) / p->mr;
    int first_row[GEMM_MAX_TILES + 1];
    for (int t = 0; t <= tiles; t++)
        first_row[t] = (int)(i0 + part_begin(rows, t, tiles));
    const float *from = copy;
    int64_t row_bytes = (p->chunk + GEMM_PAD) * 4;
    if (p->kind == GEMM_DW) {
        g->form->pack_a(copy, g->j0 ? NULL : g->sums, !first, a, first_row, tiles, k0, all);
    } else if (g->a_in_place) {
        row_bytes = row_stride(a) * elem_size(a->type.dtype);
        from = (const float *)(elem_at(a, i0 * row_stride(a) + k0));
    } else {
        g->form->copy_a(copy, row_bytes / 4, a, i0, rows, k0, all);
    }
    /* rows of the next chunk */
    const int64_t coming = p->chunk <= GEMM_CHUNK_SMALL_DW ? min_i64(p->chunk, p->depth - k0 - p->chunk) : 0;
    /* of which are asked for */
    int64_t ahead = 0;
    for (int64_t j = g->j0; j < g->j1; j += p->nr) {
        const int cols = (int)min_i64(p->nr, g->j1 - j);
        const gemm_tile *tile = g->form->tiles[p->kind == GEMM_DW][cols > VF_LANES];
        const float *panel = b_of(g, chunk) + (j - g->j0) * all;
        const bool direct = g->direct && cols % VF_LANES == 0;
        int64_t ldc = p->nr;
        float *c = p->chunks > 1 ? g->c + (j - g->j0) * p->scratch_rows + (i0 - g->i0) * p->nr : sums;
        if (direct) {
            ldc = row_stride(&g->args->out[0]);
            c = (float *)g->args->out[0].data + i0 * ldc + j;
        }
        int64_t k = 0;
        do { /* at least once: depth 0 makes zeros */
            const int64_t steps = min_i64(GEMM_KC / g->form->unit, all - k);
            const bool end = last && k + steps == all;
            wanted w = { .room = (int)((steps + GEMM_AHEAD_STEPS - 1) / GEMM_AHEAD_STEPS) };
            if (p->kind == GEMM_DW && ahead < coming)
                want_chunk(&w, g, chunk + 1, i0, rows);
            if (p->kind != GEMM_DW && j == g->j0 && g->a_in_place) /* the tile below */
                want(&w, (const char *)(from + k) + p->mr * row_bytes, row_bytes, steps * 4);
            if (p->kind != GEMM_DW && (direct ? k == 0 : end))
                want_operands(&w, g->args, p->kind, i0, j, j + cols);
            while (w.n < w.room)
                w.list[w.n++] = (gemm_ahead){ (const char *)panel, 0 };
            for (int t = 0; t < tiles; t++, ahead += GEMM_LINES) {
                const int64_t begin = first_row[t] - i0;
                const int height = first_row[t + 1] - first_row[t];
                const float *at = p->kind == GEMM_DW
                                      ? from + (t * all + k) * VF_LANES
                                      : (const float *)((const char *)from + begin * row_bytes) + k;
                const unsigned control = ls_subnormals_off(g->drop_subnormals);
                tile[height - 1](steps, at, row_bytes, panel + k * p->nr, c + begin * ldc, ldc,
                                 !first || k > 0, direct && end && g->bias ? g->bias + j : NULL, w.list,
                                 p->kind == GEMM_DW ? ahead : begin);
                ls_subnormals_restore(g->drop_subnormals, control);
                if (end && !direct) /* while the sums are in L1 */
                    LS_NAME(ls_gemm_finish)
                (g->args, p->kind, c + begin * ldc, ldc, i0 + begin, height, j, cols);
            }
            k += steps;
        } while (k < all);
    }
}

static void rows_part(const gemm *g, int64_t begin, int64_t end, int worker)
{
    const int64_t strips = (end - begin + g->p.strip - 1) / g->p.strip;
    for (int64_t s = 0; s < strips; s++) {
        const int64_t i = begin + part_begin(end - begin, s, strips);
        for (int64_t chunk = g->chunk0; chunk < g->chunk1; chunk++)
            strip(g, i, (int)(begin + part_begin(end - begin, s + 1, strips) - i), chunk, worker);
    }
}

/* Rows are shared out in blocks of a tile's height. */
static int64_t row_blocks(const gemm *g) { return (g->i1 - g->i0 + g->p.mr - 1) / g->p.mr; }

static void pack_task(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    pack_b(context, begin, end);
}
static void rows_task(void *context, int64_t begin, int64_t end, int worker)
{
    const gemm *g = context;
    const int64_t rows = g->i1 - g->i0, blocks = row_blocks(g);
    rows_part(g, g->i0 + part_begin(rows, begin, blocks), g->i0 + part_begin(rows, end, blocks), worker);
}

/* Columns [from, to) of rows [top, bottom), with `threads` sharing each step; or alone, as `worker`, inside a
 * parallel region. */
static void part(gemm *g, int64_t top, int64_t bottom, int64_t from, int64_t to, int threads, int worker)
{
    const gemm_plan *p = &g->p;
    for (g->j0 = from; g->j0 < to; g->j0 = g->j1) {
        g->j1 = min_i64(to, g->j0 + p->block);
        for (g->i0 = top; g->i0 < bottom; g->i0 = g->i1) {
            g->i1 = min_i64(bottom, g->i0 + p->scratch_rows);
            for (g->chunk0 = 0; g->chunk0 < p->chunks; g->chunk0 = g->chunk1) {
                g->chunk1 = min_i64(p->chunks, g->chunk0 + p->group);
                const int64_t panels = panels_of(g) * (g->chunk1 - g->chunk0);
                /* packed sooner than anyone is woken */
                const bool little = panels * p->nr * p->chunk <= 1 << 15;
                if (threads > 1) {
                    ls_parallel_for(little ? 1 : threads, panels, pack_task, g);
                    ls_parallel_for(threads, row_blocks(g), rows_task, g);
                } else {
                    pack_b(g, 0, panels);
                    rows_part(g, g->i0, g->i1, worker);
                }
            }
        }
    }
}

/* One part a thread: each packs B for itself. */
static void own_task(void *context, int64_t begin, int64_t end, int worker)
{
    gemm g = *(const gemm *)context;
    const gemm_plan *p = &g.p;
    const int64_t panels = (p->cols + p->nr - 1) / p->nr;
    g.b = (float *)((char *)g.b + (size_t)worker * p->b_bytes);
    g.c = (float *)((char *)g.c + (size_t)worker * p->c_bytes);
    for (int64_t i = begin; i < end; i++)
        if (p->split_columns)
            part(&g, 0, p->rows, part_begin(panels, i, p->threads) * p->nr,
                 min_i64(p->cols, part_begin(panels, i + 1, p->threads) * p->nr), 1, worker);
        else
            part(&g, part_begin(p->rows, i, p->threads), part_begin(p->rows, i + 1, p->threads), 0, p->cols,
                 1, worker);
}

static const gemm_form *form_of(ls_dtype t)
{
#ifdef LS_LEVEL_avx512bf16
    if (GEMM_PAIRS(t)) {
        int use = LS_NAME(ls_gemm_use_dot);
        if (use < 0) {
            __builtin_cpu_init();
            use = !__builtin_cpu_is("intel");
        }
        if (use)
            return &LS_NAME(ls_gemm_dot_form);
    }
#endif
    (void)t;
    return &LS_NAME(ls_gemm_f32_form);
}

static bool is_row(const ls_kernel_args *a, gemm_kind kind)
{
    return kind == GEMM_LINEAR && rows_of(&a->in[0]) == 1;
}

static void run(const ls_kernel_args *a, gemm_kind kind)
{
    if (is_row(a, kind)) {
        LS_NAME(ls_gemm_row)(a);
        return;
    }
    gemm g = { .p = plan_of(a, kind), .args = a };
    const gemm_plan *p = &g.p;
    const size_t copies = p->own_b ? (size_t)p->threads : 1;
    g.b = a->workspace;
    g.c = (float *)((char *)a->workspace + copies * p->b_bytes);
    g.per_thread = (char *)g.c + copies * p->c_bytes;
    if (kind == GEMM_DW && ((const ls_linear_dw_attrs *)a->attrs)->bias)
        g.sums = (float *)(g.per_thread + (size_t)p->threads * (p->a_bytes + p->t_bytes));
    g.form = form_of(a->in[0].type.dtype);
    g.drop_subnormals = GEMM_PAIRS(a->in[0].type.dtype);
    /* The elements are whole words as they lie; rows a multiple of 4 KB apart would fight for one cache set.
     */
    g.a_in_place = kind != GEMM_DW && (a->in[0].type.dtype == LS_F32 || g.form->unit == 2) &&
                   p->depth % g.form->unit == 0 &&
                   row_stride(&a->in[0]) * elem_size(a->in[0].type.dtype) % 4096 != 0;
    const bool more = kind != GEMM_DW &&
                      (((const ls_linear_attrs *)a->attrs)->act != LS_ACT_NONE || a->in[3].type.ndim >= 0);
    g.direct = a->out[0].type.dtype == LS_F32 && !more;
    g.bias = kind == GEMM_LINEAR && a->in[2].type.ndim >= 0 ? a->in[2].data : NULL;
    if (p->own_b)
        ls_parallel_for(p->threads, p->threads, own_task, &g);
    else
        part(&g, 0, p->rows, 0, p->cols, p->threads, 0);
    if (g.sums && p->depth == 0)
        memset(g.sums, 0, p->s_bytes);
    if (g.sums)
        LS_NAME(ls_gemm_store)(&a->out[1], g.sums);
}

static void run_linear(const ls_kernel_args *a) { run(a, GEMM_LINEAR); }
static void run_dx(const ls_kernel_args *a) { run(a, GEMM_DX); }
static void run_dw(const ls_kernel_args *a) { run(a, GEMM_DW); }

static size_t workspace(const ls_kernel_args *a, gemm_kind kind)
{
    const gemm_plan p = plan_of(a, kind);
    return is_row(a, kind) ? LS_NAME(ls_gemm_row_workspace)(a) : workspace_of(&p);
}
static size_t workspace_linear(const ls_kernel_args *a) { return workspace(a, GEMM_LINEAR); }
static size_t workspace_dx(const ls_kernel_args *a) { return workspace(a, GEMM_DX); }
static size_t workspace_dw(const ls_kernel_args *a) { return workspace(a, GEMM_DW); }

static const char *supports(const ls_kernel_args *a)
{
    for (int i = 0; i < a->n_in + a->n_out; i++) {
        const ls_tensor *t = i < a->n_in ? &a->in[i] : &a->out[i - a->n_in];
        if (t->type.ndim >= 0 && !is_float16_or_32(t->type.dtype))
            return "only f32, bf16 and f16 (f64 is for device ref)";
        if (t->type.ndim >= 0 && t->type.dtype != a->in[0].type.dtype)
            return "all operands must have one type";
    }
    return NULL;
}

const ls_kernel LS_NAME(ls_gemm_kernels)[] = {
    { .op = "linear",
      .run = run_linear,
      .workspace = workspace_linear,
      .supports = supports,
      .rows_in = 0xb,
      .rows_out = 0x3 },
    { .op = "linear_dx",
      .run = run_dx,
      .workspace = workspace_dx,
      .supports = supports,
      .rows_in = 0xf,
      .rows_out = 0x1 },
    { .op = "linear_dw",
      .run = run_dw,
      .workspace = workspace_dw,
      .supports = supports,
      .rows_in = 0x3,
      .rows_out = 0x1 },
    { 0 },
};
