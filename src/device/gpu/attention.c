/* attention.c - rows of kernels for attention: forward, gradient, and with a cache of keys and values. bf16
 * and f16 with heads of up to MMA_HEAD features use tensor cores (attention_mma.cu), all others
 * attention_core.cu. */
#include "device/dropout.h"
#include "gpu.h"
#include "kernels/attention.h"
#include "kernels/cache.h"
#include "rows_of.h"

enum { MMA_HEAD = 128, HEAD_MAX = 1024 };

typedef struct shape {
    attention_args k;
    int64_t head;
    bool mma;
    char before[192];
} shape;

/* q, k, bias, ids, key: numbers of these inputs */
static shape shape_of(const ls_kernel_args *a, int q, int bias, int ids, bool vector)
{
    const ls_attention_attrs *of = a->attrs;
    const ls_tensor *tq = &a->in[q], *tk = &a->in[q + 1], *tv = &a->in[q + 2], *tb = &a->in[bias];
    const bool biased = ls_gpu_present(tb), padded = ls_gpu_present(&a->in[ids]),
               drops = ls_gpu_present(&a->in[ids + 1]), divided = ls_gpu_present(&a->in[ids + 2]);
    shape s = { .head = of->head_dim, .mma = tq->type.dtype != LS_F32 && of->head_dim <= MMA_HEAD };
    attention_args *k = &s.k;
    *k = (attention_args){ .q = ls_gpu_at(tq->data),
                           .k = ls_gpu_at(tk->data),
                           .v = ls_gpu_at(tv->data),
                           .bias = biased ? ls_gpu_at(tb->data) : 0,
                           .ids = padded ? ls_gpu_at(a->in[ids].data) : 0,
                           .key = drops ? ls_gpu_at(a->in[ids + 1].data) : 0,
                           .positions = divided ? ls_gpu_at(a->in[ids + 2].data) : 0,
                           .q_row = row_stride_of(tq),
                           .k_row = row_stride_of(tk),
                           .v_row = row_stride_of(tv),
                           .B = tq->type.dims[0],
                           .H = tq->type.dims[2] / of->head_dim,
                           .G = tk->type.dims[2] / of->head_dim,
                           .Tq = tq->type.dims[1],
                           .Tk = tk->type.dims[1],
                           .pad = of->pad,
                           .window = of->window,
                           .apart = ls_at_apart(a, tq->type.dims[1], tk->type.dims[1]),
                           .first_query = ls_at_start(a, 1),
                           .all_queries = ls_at_whole(a, 1, tq->type.dims[1]),
                           .first_sample = ls_at_start(a, 0),
                           .first_head = ls_at_start(a, 2) / of->head_dim,
                           .purpose = of->purpose,
                           .scale = (float)of->scale,
                           .kept = 1,
                           .causal = of->causal != 0,
                           .distances = biased && tb->type.ndim == 2,
                           .splits = (i32)ls_gpu_blocks(of->head_dim, CORE_COLUMNS) };
    k->bias_batch = biased && tb->type.ndim == 4 && tb->type.dims[0] > 1 ? k->H * k->Tq * k->Tk : 0;
    if (drops) { /* as in ls_dropping_of; the key itself is read by the kernels */
        k->below = (u32)((1 - of->dropout) * 65536 + 0.5);
        k->kept = (float)(1 / (1 - of->dropout));
    }
    vector = vector && of->head_dim % 8 == 0 && rows_word(tq) == 16 && rows_word(tk) == 16 &&
             rows_word(tv) == 16;
    snprintf(s.before, sizeof s.before,
             "#define X %s\n#define D %d\n#define BIAS %d\n#define PADDING %d\n#define DROPS %d\n"
             "#define VECTOR %d\n#define DOCUMENTS %d\n",
             ls_gpu_type(tq), (int)of->head_dim, biased, padded, drops, s.mma && vector, divided);
    return s;
}

static void gpu_attention_launch(const ls_kernel_args *a, const shape *s, const char *file,
                                 const char *function, int64_t blocks)
{
    ls_gpu_run(a->queue, &(ls_gpu_launch){ file, function, s->before, blocks, &s->k, sizeof s->k });
}

/* q, k: numbers of these inputs */
static const char *supports(const ls_kernel_args *a, int q, int k)
{
    return ((const ls_attention_attrs *)a->attrs)->head_dim > HEAD_MAX ? "heads of more than 1024 features"
           : a->in[q].type.dims[1] > 1 << 30 || a->in[k].type.dims[1] > 1 << 30 ? "more than 2^30 tokens"
                                                                                : ls_gpu_no_f64(a);
}
static const char *attention_supports(const ls_kernel_args *a) { return supports(a, 0, 1); }

/* Memory for `starts` and `ends`. */
static size_t documents_bytes(const ls_tensor *positions)
{
    return ls_gpu_present(positions) ? 2 * (size_t)ls_gpu_count(&positions->type) * sizeof(i32) : 0;
}
static void find_documents(const ls_kernel_args *a, shape *s, gpu_address at)
{
    attention_args *k = &s->k;
    if (!k->positions)
        return;
    k->starts = at;
    k->ends = at + (gpu_address)(k->B * k->Tk) * sizeof(i32);
    gpu_attention_launch(a, s, "attention_core.cu", "attention_documents", k->B);
}

static size_t attention_workspace(const ls_kernel_args *a) { return documents_bytes(&a->in[6]); }

static void run_attention(const ls_kernel_args *a)
{ /* q, k, v, bias?, ids?, key?, positions? -> y, lse */
    shape s = shape_of(a, 0, 3, 4, rows_word(&a->out[0]) == 16);
    attention_args *k = &s.k;
    k->y = ls_gpu_at(a->out[0].data);
    k->lse = ls_gpu_at(a->out[1].data);
    k->y_row = row_stride_of(&a->out[0]);
    find_documents(a, &s, ls_gpu_at(a->workspace));
    if (s.mma) {
        const int queries = ATTENTION_QUERIES(s.head, k->key != 0);
        gpu_attention_launch(a, &s, "attention_mma.cu", "mma_forward",
                             k->B * k->H * ls_gpu_blocks(k->Tq, queries));
    } else
        gpu_attention_launch(a, &s, "attention_core.cu", "core_forward",
                             k->B * k->H * ls_gpu_blocks(k->Tq, TILE) * k->splits);
}

/* ---- the gradient */

enum { DY, Q, K, V, BIAS, Y, LSE, IDS, KEY, POSITIONS };
enum { DQ, DK, DV, DBIAS };

static const char *attention_grad_supports(const ls_kernel_args *a) { return supports(a, Q, K); }

static size_t delta_bytes(const ls_kernel_args *a)
{
    const size_t bytes = (size_t)ls_gpu_count(&a->in[LSE].type) * sizeof(float);
    return (bytes + 63) / 64 * 64;
}
static size_t attention_grad_workspace(const ls_kernel_args *a)
{
    const shape s = shape_of(a, Q, BIAS, IDS, false);
    const int64_t tiles = s.k.H * ls_gpu_blocks(s.k.Tq, TILE) * ls_gpu_blocks(s.k.Tk, TILE);
    return delta_bytes(a) + documents_bytes(&a->in[POSITIONS]) +
           (s.k.distances ? (size_t)tiles * DIAGONALS * sizeof(float) : 0);
}

static void run_bias_grad(const ls_kernel_args *a, const shape *s)
{
    const attention_args *k = &s->k;
    const int64_t tiles = k->H * ls_gpu_blocks(k->Tq, TILE) * ls_gpu_blocks(k->Tk, TILE);
    gpu_attention_launch(a, s, "attention_core.cu", "core_dbias", tiles * (k->bias_batch ? k->B : 1));
    if (k->distances)
        gpu_attention_launch(a, s, "attention_core.cu", "core_distances",
                             ls_gpu_blocks(k->H * (k->Tq + k->Tk - 1), CORE_THREADS));
}

static void run_attention_grad(const ls_kernel_args *a)
{ /* dy, q, k, v, bias?, y, lse, ids?, key?, positions? -> dq, dk, dv, dbias? */
    shape s = shape_of(a, Q, BIAS, IDS,
                       rows_word(&a->in[DY]) == 16 && rows_word(&a->out[DQ]) == 16 &&
                           rows_word(&a->out[DK]) == 16 && rows_word(&a->out[DV]) == 16);
    attention_args *k = &s.k;
    k->dy = ls_gpu_at(a->in[DY].data);
    k->y = ls_gpu_at(a->in[Y].data);
    k->lse = ls_gpu_at(a->in[LSE].data);
    k->dq = ls_gpu_at(a->out[DQ].data);
    k->dk = ls_gpu_at(a->out[DK].data);
    k->dv = ls_gpu_at(a->out[DV].data);
    k->delta = ls_gpu_at(a->workspace);
    k->parts = k->delta + delta_bytes(a); /* only of a bias, which documents have none of */
    find_documents(a, &s, k->parts);
    k->dy_row = row_stride_of(&a->in[DY]);
    k->y_row = row_stride_of(&a->in[Y]);
    k->dq_row = row_stride_of(&a->out[DQ]);
    k->dk_row = row_stride_of(&a->out[DK]);
    k->dv_row = row_stride_of(&a->out[DV]);
    const int64_t q_tiles = k->B * k->H * ls_gpu_blocks(k->Tq, TILE),
                  k_tiles = k->B * k->G * ls_gpu_blocks(k->Tk, TILE);
    gpu_attention_launch(a, &s, "attention_core.cu", "attention_delta",
                         ls_gpu_blocks(k->B * k->Tq * k->H, CORE_THREADS / 32));
    if (s.mma) {
        gpu_attention_launch(a, &s, "attention_mma_grad.cu", "mma_dq", q_tiles);
        gpu_attention_launch(a, &s, "attention_mma_grad.cu", "mma_dkdv", k_tiles);
    } else {
        gpu_attention_launch(a, &s, "attention_core.cu", "core_dq", q_tiles * k->splits);
        gpu_attention_launch(a, &s, "attention_core.cu", "core_dkdv", k_tiles * k->splits);
    }
    if (k->bias) {
        k->dbias = ls_gpu_at(a->out[DBIAS].data);
        run_bias_grad(a, &s);
    }
}

/* ---- a cache */

enum { ASIDE = 64 << 20 }; /* bytes of workspace that more tokens or places than one must not exceed */

static int64_t parts_of(const ls_kernel_args *a) { return ls_gpu_blocks(a->in[1].type.dims[1], CACHED_PART); }
/* bytes of the parts of all rows of a token */
static int64_t token_bytes(const ls_kernel_args *a)
{
    const ls_type *q = &a->in[0].type;
    const int64_t head = ((const ls_attention_attrs *)a->attrs)->head_dim;
    return q->dims[0] * (q->dims[2] / head) * parts_of(a) * (head + 2) * (int64_t)sizeof(float);
}
static int64_t at_once(int64_t n, int64_t bytes)
{
    const int64_t most = bytes ? ASIDE / bytes : n;
    return most < 1 ? 1 : most < n ? most : n;
}
static size_t attention_cached_workspace(const ls_kernel_args *a)
{
    return (size_t)(at_once(a->in[0].type.dims[1], token_bytes(a)) * token_bytes(a));
}

static void run_attention_cached(const ls_kernel_args *a)
{ /* q, k, v, positions, bias? -> y */
    const ls_attention_attrs *of = a->attrs;
    const ls_tensor *q = &a->in[0], *keys = &a->in[1];
    const bool biased = a->n_in > 4 && ls_gpu_present(&a->in[4]);
    const bool vector = rows_word(q) == 16 && rows_word(keys) == 16 && rows_word(&a->in[2]) == 16 &&
                        of->head_dim * (int64_t)ls_dtype_size(q->type.dtype) % 16 == 0;
    cached_args k = { .q = ls_gpu_at(q->data),
                      .k = ls_gpu_at(keys->data),
                      .v = ls_gpu_at(a->in[2].data),
                      .positions = ls_gpu_at(a->in[3].data),
                      .bias = biased ? ls_gpu_at(a->in[4].data) : 0,
                      .y = ls_gpu_at(a->out[0].data),
                      .parts = ls_gpu_at(a->workspace),
                      .q_row = row_stride_of(q),
                      .y_row = row_stride_of(&a->out[0]),
                      .B = q->type.dims[0],
                      .T = q->type.dims[1],
                      .H = q->type.dims[2] / of->head_dim,
                      .G = keys->type.dims[2] / of->head_dim,
                      .places = keys->type.dims[1],
                      .n_parts = parts_of(a),
                      .window = of->window,
                      .scale = (float)of->scale };
    const int64_t wide = vector ? 16 / (int64_t)ls_dtype_size(q->type.dtype) : 1,
                  step = at_once(k.T, token_bytes(a));
    int rows = 1, lanes = 1;
    while (rows < CACHED_ROWS && rows < k.H / k.G * k.T)
        rows *= 2;
    while (lanes < 32 && lanes * wide < of->head_dim)
        lanes *= 2;
    char before[160];
    snprintf(before, sizeof before,
             "#define X %s\n#define D %d\n#define ROWS %d\n#define BIAS %d\n#define VECTOR %d\n"
             "#define KEY_LANES %d\n",
             ls_gpu_type(q), (int)of->head_dim, rows, biased, vector, lanes);
    for (; k.first < k.T; k.first += step) {
        k.tokens = k.T - k.first < step ? k.T - k.first : step;
        k.blocks = ls_gpu_blocks(k.tokens * (k.H / k.G), rows);
        ls_gpu_run(a->queue, &(ls_gpu_launch){ "attention_cached.cu", "cached_part", before,
                                               k.B * k.G * k.blocks * k.n_parts, &k, sizeof k });
        ls_gpu_run(a->queue, &(ls_gpu_launch){ "attention_cached.cu", "cached_join", before,
                                               k.B * k.tokens * k.H, &k, sizeof k });
    }
}

static const char *word_text(int64_t bytes)
{
    return bytes == 16 ? "#define WORD word16\n" : bytes == 4 ? "#define WORD u32\n" : "#define WORD u16\n";
}

static void run_cache_write(const ls_kernel_args *a)
{ /* cache, x, positions -> cache */
    const ls_tensor *cache = &a->out[0], *x = &a->in[1];
    const int64_t size = (int64_t)ls_dtype_size(x->type.dtype),
                  word = rows_word(cache) == 16 && rows_word(x) == 16 ? 16 : size;
    const cache_write_args k = { .cache = ls_gpu_at(cache->data),
                                 .x = ls_gpu_at(x->data),
                                 .positions = ls_gpu_at(a->in[2].data),
                                 .rows = x->type.dims[0] * x->type.dims[1],
                                 .tokens = x->type.dims[1],
                                 .places = cache->type.dims[1],
                                 .words = x->type.dims[2] * size / word,
                                 .x_words = row_stride_of(x) * size / word };
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "cache.cu", "cache_write", word_text(word),
                                           ls_gpu_blocks(k.rows, CACHE_THREADS / 32), &k, sizeof k });
}

/* bytes of one place of all sequences */
static int64_t place_bytes(const ls_kernel_args *a)
{
    const ls_type *t = &a->in[0].type;
    return t->dims[0] * t->dims[2] * (int64_t)ls_dtype_size(t->dtype);
}
static size_t cache_reorder_workspace(const ls_kernel_args *a)
{
    return (size_t)(at_once(a->in[0].type.dims[1], place_bytes(a)) * place_bytes(a));
}
static void run_cache_reorder(const ls_kernel_args *a)
{ /* cache, from -> cache */
    const ls_tensor *cache = &a->out[0];
    const int64_t word = rows_word(cache), step = at_once(cache->type.dims[1], place_bytes(a));
    cache_reorder_args k = { .cache = ls_gpu_at(cache->data),
                             .from = ls_gpu_at(a->in[1].data),
                             .aside = ls_gpu_at(a->workspace),
                             .B = cache->type.dims[0],
                             .places = cache->type.dims[1],
                             .words = cache->type.dims[2] * (int64_t)ls_dtype_size(cache->type.dtype) /
                                      word };
    for (; k.first < k.places; k.first += step) {
        k.n = k.places - k.first < step ? k.places - k.first : step;
        const int64_t blocks = ls_gpu_blocks(k.B * k.n * k.words, CACHE_THREADS);
        ls_gpu_run(a->queue,
                   &(ls_gpu_launch){ "cache.cu", "cache_set_aside", word_text(word), blocks, &k, sizeof k });
        ls_gpu_run(a->queue,
                   &(ls_gpu_launch){ "cache.cu", "cache_put", word_text(word), blocks, &k, sizeof k });
    }
}

const ls_kernel ls_gpu_attention[] = {
    { .op = "attention",
      .run = run_attention,
      .workspace = attention_workspace,
      .supports = attention_supports,
      .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(2),
      .rows_out = LS_OPERAND(0) },
    { .op = "attention_grad",
      .run = run_attention_grad,
      .workspace = attention_grad_workspace,
      .supports = attention_grad_supports,
      .rows_in = LS_OPERAND(DY) | LS_OPERAND(Q) | LS_OPERAND(K) | LS_OPERAND(V) | LS_OPERAND(Y),
      .rows_out = LS_OPERAND(DQ) | LS_OPERAND(DK) | LS_OPERAND(DV) },
    { .op = "attention_cached",
      .run = run_attention_cached,
      .workspace = attention_cached_workspace,
      .supports = attention_supports,
      .rows_in = LS_OPERAND(0),
      .rows_out = LS_OPERAND(0) },
    { .op = "cache_write", .run = run_cache_write, .supports = ls_gpu_no_f64, .rows_in = LS_OPERAND(1) },
    { .op = "cache_reorder",
      .run = run_cache_reorder,
      .workspace = cache_reorder_workspace,
      .supports = ls_gpu_no_f64 },
    { 0 },
};
