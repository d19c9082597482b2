/* gemm.c - the loops around the tile, and how threads share them. gemm.h has the words and the picture,
 * gemm_plan.c the sizes.
 *
 *   for each block of columns [j0, j1)
 *     for each range of rows [i0, i1)               all rows if there is one chunk
 *       for each group of chunks [chunk0, chunk1)
 *         pack the panels of B                      threads share panels
 *         for each strip of rows                    threads share rows
 *           for each chunk of the group
 *             copy A, unless it is read in place
 *             for each panel
 *               for each block of depth             GEMM_KC
 *                 for each tile of the strip: multiply; after the last block of depth, finish
 */
#include "gemm.h"
#include "gemm_ahead.h"
#include "linear_loss.h"

enum {
    LITTLE_TO_PACK = 1 << 15, /* elements: packing them takes less time than waking a thread */
    /* AVX2: all tiles of a strip are finished at once, so that constants of activations are loaded once. */
    FINISH_STRIPS = VF_LANES == 8,
    CACHE_SET_BYTES = 4096 /* addresses a multiple of this apart share a set of L1 (64 sets of 64 bytes) */
};

typedef struct gemm {
    gemm_plan p;
    const ls_kernel_args *args;
    const gemm_form *form;
    bool a_in_place; /* tiles read A where it lies */
    bool drop_subnormals;
    bool add; /* to the output, which is direct */
    /* The output is f32 and at most a bias is added: tiles store to the output, and nothing is left to
     * finish. */
    bool direct;
    const float *bias; /* of a direct output; NULL: none */
    float *b;          /* packed part of B: [chunk of the group][panel][k][nr] */
    float *c;          /* sums between chunks: [panel][row of scratch_rows][nr] */
    float *sums;       /* [rows]: A summed over depth (linear_dw's bias gradient); NULL: not wanted */
    char *per_thread;  /* a_bytes + t_bytes for each thread */
    /* where the outer loops are */
    int64_t j0, j1, i0, i1, chunk0, chunk1;
} gemm;

/* Words of depth in a chunk (the last may be shorter). */
static int64_t steps_of(const gemm *g, int64_t chunk)
{
    const int64_t left = g->p.depth - chunk * g->p.chunk;
    return min_i64(g->p.chunk, round_up(left, g->p.depth_unit)) / g->form->unit;
}
static float *b_of(const gemm *g, int64_t chunk)
{
    return g->b + (chunk - g->chunk0) * g->p.block * g->p.chunk_words;
}
/* part_begin, at a multiple of row_unit. */
static int64_t row_begin(const gemm *g, int64_t rows, int64_t part, int64_t parts)
{
    return min_i64(rows, round_up(part_begin(rows, part, parts), g->p.row_unit));
}
static int64_t panels_of(const gemm *g) { return (g->j1 - g->j0 + g->p.nr - 1) / g->p.nr; }

/* ---- packing B */

/* Packs panels [begin, end), counted over the group: those of its first chunk, then those of the next. */
static void pack_b(const gemm *g, int64_t begin, int64_t end)
{
    const int64_t panels = panels_of(g);
    while (begin < end) {
        const int64_t chunk = g->chunk0 + begin / panels, first = begin % panels;
        const int64_t n = min_i64(end - begin, panels - first);
        const int64_t steps = steps_of(g, chunk), j = g->j0 + first * g->p.nr;
        float *to = b_of(g, chunk) + first * g->p.nr * steps;
        const int64_t end_j = min_i64(g->j1, j + n * g->p.nr);
        if (gemm_has_codes(g->args))
            LS_NAME(ls_gemm_pack_nf4)(g->form, &g->p, to, g->args, chunk * g->p.chunk, steps, j, end_j);
        else
            g->form->pack_b(&g->p, to, &g->args->in[1], chunk * g->p.chunk, steps, j, end_j);
        begin += n;
    }
}

/* ---- what tiles prefetch (gemm_ahead.h) */

/* What finishing the tiles of columns [j, j1) reads and writes: residual or addend, activations, results. */
static void prefetch_finish(prefetches *f, const gemm *g, int64_t i0, int64_t j, int64_t j1)
{
    const ls_kernel_args *a = g->args;
    for (int k = g->p.kind == GEMM_LINEAR ? 3 : 2; k < a->n_in && k < GEMM_SCALES; k++)
        prefetch_columns(f, &a->in[k], i0, j, j1);
    for (int k = 0; k < a->n_out; k++)
        prefetch_columns(f, &a->out[k], i0, j, j1);
}

/* linear_dw: both operands of the next chunk. Each tile prefetches GEMM_LINES of its rows. */
static void prefetch_chunk(prefetches *f, const gemm *g, int64_t chunk, int64_t i0, int rows)
{
    prefetch_columns(f, &g->args->in[0], chunk * g->p.chunk, i0, i0 + rows);
    prefetch_columns(f, &g->args->in[1], chunk * g->p.chunk, g->j0, g->j1);
}

/* ---- a strip: `rows` rows from i0 on, all columns of the block, one chunk of depth */

typedef struct strip {
    int64_t i0;
    int rows, tiles;
    /* tile t has the rows [first_row[t], first_row[t + 1]) of the output */
    int first_row[GEMM_MAX_TILES + 1];
    int64_t chunk, steps; /* steps: words of depth in the chunk */
    const float *a;       /* the strip's part of A; for linear_dw packed by tile */
    int64_t a_row_bytes;  /* from row to row of a row-major A */
    float *tile_sums;     /* [rows][nr], this thread's */
    /* linear_dw with small chunks: rows of the next chunk, and how many of them have been prefetched */
    int64_t next_rows, prefetched;
    int set_rows; /* the height for which the form is set up; 0: none */
} strip;

/* A block of a panel's depth: steps [k, k + steps) of the chunk. */
typedef struct depth_block {
    int64_t k, steps;
    bool first, last; /* of the whole depth */
} depth_block;

/* Columns [j, j + cols) of the output, their panel, and where the tiles' sums go. */
typedef struct strip_panel {
    int64_t j;
    int cols;
    const float *b;        /* [k][nr] */
    const gemm_tile *tile; /* [rows - 1] */
    bool direct;           /* the sums go to the output */
    float *c;              /* sums of the strip's first row */
    int64_t ldc;
} strip_panel;

static void cut_tiles(strip *s, const gemm *g)
{
    s->tiles = (s->rows + g->p.mr - 1) / g->p.mr;
    for (int t = 0; t <= s->tiles; t++)
        s->first_row[t] = (int)(s->i0 + row_begin(g, s->rows, t, s->tiles));
}

/* Finds the strip's part of A: where it lies, or copied to this thread's scratch. */
static void take_a(strip *s, const gemm *g, float *scratch)
{
    const gemm_plan *p = &g->p;
    const ls_tensor *a = &g->args->in[0];
    const int64_t k0 = s->chunk * p->chunk;
    s->a = scratch;
    const int64_t ld = p->chunk_words + GEMM_PAD;
    s->a_row_bytes = ld * (int64_t)sizeof(float);
    if (p->kind == GEMM_DW) {
        float *sums = g->j0 == 0 ? g->sums
                                 : NULL; /* every block of columns packs A; the first one also sums it */
        g->form->pack_a(scratch, ld, sums, s->chunk > 0, a, s->first_row, s->tiles, k0, s->steps);
    } else if (p->tile_a) {
        g->form->pack_rows(scratch, a, s->first_row, s->tiles, k0, s->steps);
    } else if (g->a_in_place) {
        s->a_row_bytes = row_stride(a) * elem_size(a->type.dtype);
        s->a = (const float *)(elem_at(a, s->i0 * row_stride(a) + k0));
    } else {
        g->form->copy_a(scratch, ld, a, s->i0, s->rows, k0, s->steps);
    }
}

static strip_panel panel_at(const strip *s, const gemm *g, int64_t j)
{
    const gemm_plan *p = &g->p;
    strip_panel q = { .j = j, .cols = (int)min_i64(p->nr, g->j1 - j), .ldc = p->nr };
    q.b = b_of(g, s->chunk) + (j - g->j0) * s->steps;
    q.tile = g->form->tiles[p->tile_a][q.cols > VF_LANES];
    q.direct = g->direct && q.cols % VF_LANES == 0;
    if (q.direct) {
        q.ldc = row_stride(&g->args->out[0]);
        q.c = (float *)g->args->out[0].data + s->i0 * q.ldc + j;
    } else if (p->chunks > 1) {
        q.c = g->c + (j - g->j0) * p->scratch_rows + (s->i0 - g->i0) * p->nr;
    } else {
        q.c = s->tile_sums;
    }
    return q;
}

/* What the tiles of this block of depth prefetch for later ones. */
static void list_prefetches(prefetches *f, const strip *s, const strip_panel *q, const depth_block *d,
                            const gemm *g)
{
    const gemm_plan *p = &g->p;
    if (p->kind == GEMM_DW) {
        if (s->prefetched < s->next_rows)
            prefetch_chunk(f, g, s->chunk + 1, s->i0, s->rows);
    } else {
        if (q->j == g->j0 && g->a_in_place) /* A's rows of the tile below */
            prefetch_lines(f, (const char *)(s->a + d->k) + p->mr * s->a_row_bytes, s->a_row_bytes,
                           d->steps * (int64_t)sizeof(float));
        if (q->direct ? d->k == 0 : d->last)
            prefetch_finish(f, g, s->i0, q->j, q->j + q->cols);
    }
    if (p->fetch_ahead && s->next_rows <= 0) {
        if (!q->direct && d->k == 0 && !d->first) /* sums of the chunk before */
            prefetch_lines(f, (const char *)q->c, q->ldc * (int64_t)sizeof(float), GEMM_LINE);
        prefetch_panel(f, (const char *)(q->b + (d->k + d->steps) * p->nr),
                       d->steps * p->nr * (int64_t)sizeof(float), s->rows);
    }
    if (f->n)
        prefetch_nothing_more(f, q->b);
}

/* Multiplies tile t: its sums of one block of depth are stored in, or added to, q->c. */
static void multiply_tile(strip *s, const strip_panel *q, const depth_block *d, const gemm *g, int t,
                          const gemm_ahead *ahead)
{
    const int64_t row = s->first_row[t] - s->i0;
    const int height = s->first_row[t + 1] - s->first_row[t];
    const float *a, *bias = q->direct && d->last && g->bias ? g->bias + q->j : NULL;
    const int64_t ahead_row = s->next_rows > 0 ? s->prefetched : row;
    if (g->p.tile_a)
        a = s->a + t * packed_tile(s->steps) + d->k * GEMM_A_STEP;
    else
        a = (const float *)((const char *)s->a + row * s->a_row_bytes) + d->k;
    if (g->form->set_rows && height != s->set_rows)
        g->form->set_rows(s->set_rows = height);
    const unsigned control = ls_subnormals_off(g->drop_subnormals);
    q->tile[height - 1](d->steps, a, s->a_row_bytes, q->b + d->k * g->p.nr, q->c + row * q->ldc, q->ldc,
                        !d->first, bias, ahead, ahead_row);
    ls_subnormals_restore(g->drop_subnormals, control);
}

/* Makes outputs of the sums of tiles [first, end), which are still in L1, or in L2. */
static void finish_tiles(const strip *s, const strip_panel *q, const gemm *g, int first, int end)
{
    const int row = s->first_row[first], rows = s->first_row[end] - row;
    LS_NAME(ls_gemm_finish)
    (g->args, g->p.kind, q->c + (row - s->i0) * q->ldc, q->ldc, row, rows, q->j, q->cols);
}

static void multiply_panel(strip *s, const strip_panel *q, const gemm *g)
{
    const bool first_chunk = s->chunk == 0, last_chunk = s->chunk == g->p.chunks - 1;
    depth_block d = { 0 };
    do { /* at least once: with depth 0 the results are zeros */
        d.steps = min_i64(g->p.kc / g->form->unit, s->steps - d.k);
        d.first = first_chunk && d.k == 0 && !g->add;
        d.last = last_chunk && d.k + d.steps == s->steps;
        prefetches f;
        prefetch_nothing_yet(&f, d.steps);
        list_prefetches(&f, s, q, &d, g);
        const bool finish = d.last && !q->direct;
        for (int t = 0; t < s->tiles; t++, s->prefetched += GEMM_LINES) {
            multiply_tile(s, q, &d, g, t, f.n ? f.list : NULL);
            if (finish && !FINISH_STRIPS)
                finish_tiles(s, q, g, t, t + 1);
        }
        if (finish && FINISH_STRIPS)
            finish_tiles(s, q, g, 0, s->tiles);
        d.k += d.steps;
    } while (d.k < s->steps);
}

static void multiply_strip(const gemm *g, int64_t i0, int rows, int64_t chunk, int worker)
{
    const gemm_plan *p = &g->p;
    float *scratch = (float *)(g->per_thread + (size_t)worker * (p->a_bytes + p->t_bytes));
    strip s = { .i0 = i0,
                .rows = rows,
                .chunk = chunk,
                .steps = steps_of(g, chunk),
                .tile_sums = scratch + p->a_bytes / sizeof(float) };
    if (p->chunk <= GEMM_CHUNK_SMALL_DW)
        s.next_rows = min_i64(p->chunk, p->depth - (chunk + 1) * p->chunk);
    cut_tiles(&s, g);
    take_a(&s, g, scratch);
    for (int64_t j = g->j0; j < g->j1; j += p->nr) {
        const strip_panel q = panel_at(&s, g, j);
        multiply_panel(&s, &q, g);
    }
    if (g->form->leave)
        g->form->leave();
}

/* Rows [begin, end) with all chunks of the group, in strips of nearly equal height. */
static void multiply_rows(const gemm *g, int64_t begin, int64_t end, int worker)
{
    const int64_t strips = (end - begin + g->p.strip - 1) / g->p.strip;
    for (int64_t s = 0; s < strips; s++) {
        const int64_t i = begin + row_begin(g, end - begin, s, strips),
                      stop = begin + row_begin(g, end - begin, s + 1, strips);
        for (int64_t chunk = g->chunk0; chunk < g->chunk1; chunk++)
            multiply_strip(g, i, (int)(stop - i), chunk, worker);
    }
}

/* ---- threads */

static void pack_task(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    pack_b(context, begin, end);
}

/* A task is as many rows as a tile has. */
static int64_t row_tasks(const gemm *g) { return (g->i1 - g->i0 + g->p.mr - 1) / g->p.mr; }
static void rows_task(void *context, int64_t begin, int64_t end, int worker)
{
    const gemm *g = context;
    const int64_t rows = g->i1 - g->i0, tasks = row_tasks(g);
    multiply_rows(g, g->i0 + row_begin(g, rows, begin, tasks), g->i0 + row_begin(g, rows, end, tasks),
                  worker);
}

/* One group of chunks: `threads` threads share packing, meet, and share rows. */
static void multiply_group(gemm *g, int threads, int worker)
{
    const int64_t panels = panels_of(g) * (g->chunk1 - g->chunk0);
    if (threads == 1) {
        pack_b(g, 0, panels);
        multiply_rows(g, g->i0, g->i1, worker);
        return;
    }
    const bool little = panels * g->p.nr * g->p.chunk <= LITTLE_TO_PACK;
    ls_parallel_for(little ? 1 : threads, panels, pack_task, g);
    ls_parallel_for(threads, row_tasks(g), rows_task, g);
}

/* The outer loops: rows [top, bottom) and columns [from, to) of the output. With threads == 1 it runs as
 * `worker`, which may be one thread of a parallel loop. */
static void multiply_part(gemm *g, int64_t top, int64_t bottom, int64_t from, int64_t to, int threads,
                          int worker)
{
    const gemm_plan *p = &g->p;
    for (g->j0 = from; g->j0 < to; g->j0 = g->j1) {
        g->j1 = min_i64(to, g->j0 + p->block);
        for (g->i0 = top; g->i0 < bottom; g->i0 = g->i1) {
            g->i1 = min_i64(bottom, g->i0 + p->scratch_rows);
            for (g->chunk0 = 0; g->chunk0 < p->chunks; g->chunk0 = g->chunk1) {
                g->chunk1 = min_i64(p->chunks, g->chunk0 + p->group);
                multiply_group(g, threads, worker);
            }
        }
    }
}

/* own_b: task i is a part of the columns or of the rows, for which the thread packs B itself. */
static void own_task(void *context, int64_t begin, int64_t end, int worker)
{
    gemm g = *(const gemm *)context;
    const gemm_plan *p = &g.p;
    const int64_t panels = (p->cols + p->nr - 1) / p->nr, parts = p->threads;
    g.b = (float *)((char *)g.b + (size_t)worker * p->b_bytes);
    g.c = (float *)((char *)g.c + (size_t)worker * p->c_bytes);
    for (int64_t i = begin; i < end; i++) {
        if (p->split_columns)
            multiply_part(&g, 0, p->rows, part_begin(panels, i, parts) * p->nr,
                          min_i64(p->cols, part_begin(panels, i + 1, parts) * p->nr), 1, worker);
        else
            multiply_part(&g, row_begin(&g, p->rows, i, parts), row_begin(&g, p->rows, i + 1, parts), 0,
                          p->cols, 1, worker);
    }
}

/* ---- the three ops */

static const gemm_form *form_of(ls_dtype t)
{
#ifdef LS_LEVEL_amx
    if (GEMM_PAIRS(t))
        return &LS_NAME(ls_gemm_amx_form);
#elif defined(LS_BF16_PAIRS)
    if (GEMM_PAIRS(t)) {
        int use = LS_NAME(ls_gemm_use_dot);
        if (use < 0) {
            __builtin_cpu_init();
            use = !__builtin_cpu_is("intel"); /* see gemm_form */
        }
        if (use)
            return &LS_NAME(ls_gemm_dot_form);
    }
#endif
    (void)t;
    return &LS_NAME(ls_gemm_f32_form);
}

/* Tiles can read A where it lies if its elements are words already, and if its rows do not all compete for
 * the same cache set. */
static bool reads_a_in_place(const gemm *g)
{
    const ls_tensor *a = &g->args->in[0];
    const bool words = a->type.dtype == LS_F32 || g->form->unit == 2;
    const int unit = g->p.amx ? g->p.depth_unit : g->form->unit;
    return g->p.kind != GEMM_DW && !g->p.tile_a && words && g->p.depth % unit == 0 &&
           row_stride(a) * elem_size(a->type.dtype) % CACHE_SET_BYTES != 0;
}

static bool is_direct(const ls_kernel_args *a, gemm_kind kind)
{
    if (a->out[0].type.dtype != LS_F32)
        return false;
    return kind == GEMM_DW ||
           (((const ls_linear_attrs *)a->attrs)->act == LS_ACT_NONE && !present(&a->in[3]));
}

/* Workspace: packed B, sums between chunks, the threads' scratch, A's sums (ls_gemm_workspace counts the
 * bytes). */
static void place_workspace(gemm *g)
{
    const gemm_plan *p = &g->p;
    const ls_kernel_args *a = g->args;
    const size_t copies = p->own_b ? (size_t)p->threads : 1;
    g->b = a->workspace;
    g->c = (float *)((char *)a->workspace + copies * p->b_bytes);
    g->per_thread = (char *)g->c + copies * p->c_bytes;
    if (p->kind == GEMM_DW && ((const ls_linear_dw_attrs *)a->attrs)->bias)
        g->sums = (float *)(g->per_thread + (size_t)p->threads * (p->a_bytes + p->t_bytes));
}

/* linear of one row: gemm_row.c */
static bool is_row(const ls_kernel_args *a, gemm_kind kind)
{
    return kind == GEMM_LINEAR && rows_of(&a->in[0]) == 1;
}

static void gemm_run(const ls_kernel_args *a, gemm_kind kind, bool add)
{
    if (is_row(a, kind)) {
        LS_NAME(ls_gemm_row)(a);
        return;
    }
    gemm g = {
        .p = LS_NAME(ls_gemm_plan)(a, kind), .args = a, .add = add, .form = form_of(a->in[0].type.dtype)
    };
    const gemm_plan *p = &g.p;
    place_workspace(&g);
    g.drop_subnormals = GEMM_PAIRS(a->in[0].type.dtype) && !p->amx; /* (tiles drop them by themselves) */
    g.a_in_place = reads_a_in_place(&g);
    g.direct = is_direct(a, kind);
    g.bias = kind == GEMM_LINEAR && present(&a->in[2]) ? a->in[2].data : NULL;
    if (p->own_b)
        ls_parallel_for(p->threads, p->threads, own_task, &g);
    else
        multiply_part(&g, 0, p->rows, 0, p->cols, p->threads, 0);
    if (g.sums && p->depth == 0)
        memset(g.sums, 0, p->s_bytes);
    if (g.sums)
        LS_NAME(ls_gemm_store)(&a->out[1], g.sums);
}

static void run_linear(const ls_kernel_args *a) { gemm_run(a, GEMM_LINEAR, false); }
static void run_dx(const ls_kernel_args *a) { gemm_run(a, GEMM_DX, false); }
static void run_dw(const ls_kernel_args *a) { gemm_run(a, GEMM_DW, false); }

void LS_NAME(ls_gemm_add_dw)(const ls_kernel_args *a, bool add) { gemm_run(a, GEMM_DW, add); }

static size_t gemm_workspace(const ls_kernel_args *a, gemm_kind kind)
{
    if (is_row(a, kind))
        return LS_NAME(ls_gemm_row_workspace)(a);
    const gemm_plan p = LS_NAME(ls_gemm_plan)(a, kind);
    return LS_NAME(ls_gemm_workspace)(&p);
}
static size_t workspace_linear(const ls_kernel_args *a) { return gemm_workspace(a, GEMM_LINEAR); }
static size_t workspace_dx(const ls_kernel_args *a) { return gemm_workspace(a, GEMM_DX); }
static size_t workspace_dw(const ls_kernel_args *a) { return gemm_workspace(a, GEMM_DW); }

static const char *supports(const ls_kernel_args *a)
{
    for (int i = 0; i < a->n_in + a->n_out; i++) {
        const ls_tensor *t = i < a->n_in ? &a->in[i] : &a->out[i - a->n_in];
        if (i < a->n_in && gemm_has_codes(a) && (i == 1 || i == GEMM_SCALES))
            continue; /* (their types follow from the shape rule) */
        if (present(t) && !is_float16_or_32(t->type.dtype))
            return "only f32, bf16 and f16 (f64 is for device ref)";
        if (present(t) && t->type.dtype != a->in[0].type.dtype)
            return "all operands must have one type";
    }
    return NULL;
}

/* Operands that may be row-strided: all matrices. (The bias is a vector.) */
const ls_kernel LS_NAME(ls_gemm_kernels)[] = {
    { .op = "linear", /* x, w, bias?, residual?, scales? -> y, pre */
      .run = run_linear,
      .workspace = workspace_linear,
      .supports = supports,
      .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(3) | LS_OPERAND(4),
      .rows_out = LS_OPERAND(0) | LS_OPERAND(1) },
    { .op = "linear_dx", /* dy, w, pre?, addend?, scales? -> dx */
      .run = run_dx,
      .workspace = workspace_dx,
      .supports = supports,
      .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(2) | LS_OPERAND(3) | LS_OPERAND(4),
      .rows_out = LS_OPERAND(0) },
    { .op = "linear_dw", /* dy, x -> dw, db? */
      .run = run_dw,
      .workspace = workspace_dw,
      .supports = supports,
      .rows_in = LS_OPERAND(0) | LS_OPERAND(1),
      .rows_out = LS_OPERAND(0) },
    { 0 },
};
