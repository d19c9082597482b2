/* attention.c - scaled dot-product attention, fused for each (sample, head, block of queries), so that scores
 * never leave the cache.
 *
 * The softmax over several blocks of keys is kept relative to the running maximum (Milakov and Gimelshein
 * 2018; FlashAttention, Dao et al. 2022). A query that sees no key gets zeros, and lse = -inf. */
#include "table.h"
#include "attention.h"

typedef struct job {
    const ls_kernel_args *a;
    heads s;
    const ls_tensor *bias;
    int64_t scratch; /* f32 of scratch for each worker */
} job;

typedef struct scratch {
    float *q, *kv, *kt, *scores, *y, *top, *sum, *tail;
} scratch;

static int64_t scratch_size(const heads *s)
{
    return tile_q(s) + 2 * tile_k(s) + tile_s(s) + tile_q(s) + 2 * BLOCK_Q + tile_tail();
}

static scratch scratch_of(const job *j, int worker)
{
    const heads *s = &j->s;
    scratch w = { .q = (float *)j->a->workspace + worker * j->scratch };
    w.kv = w.q + tile_q(s);
    w.kt = w.kv + tile_k(s);
    w.scores = w.kt + tile_k(s);
    w.y = w.scores + tile_s(s);
    w.top = w.y + tile_q(s);
    w.sum = w.top + BLOCK_Q;
    w.tail = w.sum + BLOCK_Q;
    return w;
}

/* Scores of the tail's keys, and the maximum of each query's, with which the rows continue. */
static void tail_scores(const heads *s, const scratch *w, const float *q, int64_t ldq, int64_t nq,
                        const float *k, int64_t ldk)
{
    LS_NAME(ls_small_dots)(w->tail, BLOCK_Q, q, ldq, nq, k, ldk, s->tail, s->dp);
    for (int64_t i = 0; i < nq; i += VF_LANES)
        for (int64_t j = 0; j < s->tail; j++) {
            const vf x = vf_load(w->tail + j * BLOCK_Q + i) * s->scale;
            vf_store(w->tail + j * BLOCK_Q + i, x);
            vf_store(w->top + i, vf_max(x, vf_load(w->top + i)));
        }
}
static void tail_softmax(const heads *s, const scratch *w, int64_t nq)
{
    for (int64_t i = 0; i < nq; i += VF_LANES)
        for (int64_t j = 0; j < s->tail; j++) {
            const vf p = exp_below_zero(vf_load(w->tail + j * BLOCK_Q + i) - base_of(vf_load(w->top + i)));
            vf_store(w->tail + j * BLOCK_Q + i, p);
            vf_store(w->sum + i, vf_load(w->sum + i) + p);
        }
}

static void drop_rows(const heads *s, float *scores, int64_t width, int64_t n, int64_t b, int64_t h,
                      int64_t q0, int64_t k0)
{
    int32_t keep[2 * KEEP_GROUP];
    for (int64_t i = 0; i < n; i++) {
        if (i % 2 == 0)
            keep_rows(s, keep, b, h, q0 + i, k0);
        for (int64_t c = 0; c < width; c += VF_LANES) {
            float *p = scores + i * width + c;
            vf_store(p, vi_as_vf(vf_bits(vf_load(p)) & vi_load(keep + i % 2 * KEEP_GROUP + c)));
        }
    }
}

static void forward_block(const job *j, const scratch *w, int64_t b, int64_t h, int64_t q0)
{
    const heads *s = &j->s;
    const ls_tensor *q = &j->a->in[0], *k = &j->a->in[1], *v = &j->a->in[2], *y = &j->a->out[0];
    const int64_t g = h / (s->H / s->G), nq = min_i64(s->bq, s->Tq - q0);
    int64_t ldq, ld;
    const float *qf = rows_f32(s, w->q, head_at(q, b, q0, h, s->D), q->strides[1], nq, &ldq);
    for (int64_t i = 0; i < nq; i++) {
        w->top[i] = -__builtin_inff();
        w->sum[i] = 0.0f;
    }
    const int64_t end = keys_end(s, b);
    for (int64_t k0 = 0; k0 < end; k0 += s->bk) {
        const int64_t nk = min_i64(s->bk, s->Tk - k0), width = round_up(nk, VF_LANES), main = row_part(s, nk);
        if (k0 > 0 && visible(s, q0 + nq - 1, k0, nk) == 0)
            break;
        const float *kf = rows_f32(s, w->kv, head_at(k, b, k0, g, s->D), k->strides[1], nk, &ld);
        LS_NAME(ls_small_transpose)(w->kt, main, kf, ld, min_i64(main, nk), s->dp);
        LS_NAME(ls_small_mm)(nq, main, s->D, qf, ldq, 1, w->kt, main, w->scores, width, false);
        if (s->tail)
            tail_scores(s, w, qf, ldq, nq, kf + main * ld, ld);
        for (int64_t i = 0; i < nq; i++)
            softmax_row(s, w->scores + i * width, bias_row(s, j->bias, b, h, q0 + i), b, k0,
                        visible(s, q0 + i, k0, nk), main, w->top + i, w->sum + i, w->y + i * s->dp, k0 == 0);
        if (s->tail) {
            tail_softmax(s, w, nq);
            store_tail(s, w->scores + main, width, w->tail, nq);
        }
        if (s->drops)
            drop_rows(s, w->scores, width, nq, b, h, q0, k0);
        const float *vf32 = rows_f32(s, w->kv, head_at(v, b, k0, g, s->D), v->strides[1], nk, &ld);
        LS_NAME(ls_small_mm)(nq, s->dp, nk, w->scores, width, 1, vf32, ld, w->y, s->dp, k0 > 0);
    }
    float *lse = (float *)j->a->out[1].data + (b * s->H + h) * s->Tq + q0;
    for (int64_t i = 0; i < nq; i += VF_LANES) { /* a query without keys: -inf + log 0 */
        const int n = (int)min_i64(VF_LANES, nq - i);
        const vf sum = vf_load_n(w->sum + i, n);
        vf_store_n(lse + i, vf_load_n(w->top + i, n) + vf_log(sum), n);
        vf_store_n(w->sum + i, vf_select(vf_eq(sum, vf_zero()), sum, s->kept / sum), n);
    }
    store_rows(s, head_at(y, b, q0, h, s->D), y->strides[1], w->y, nq, w->sum, 1);
}

/* A task is (sample, head, block of queries). */
static void forward_task(void *context, int64_t begin, int64_t end, int worker)
{
    const job *j = context;
    const int64_t blocks = (j->s.Tq + j->s.bq - 1) / j->s.bq;
    const scratch w = scratch_of(j, worker);
    for (int64_t t = begin; t < end; t++)
        forward_block(j, &w, t / blocks / j->s.H, t / blocks % j->s.H, t % blocks * j->s.bq);
}

KERNEL_WORKSPACE(attention)
{
    const heads s = heads_of(a, &a->in[0], &a->in[1]);
    return sizeof(float) * (size_t)(workers(a) * scratch_size(&s) + padding_size(&s, &a->in[4]));
}

KERNEL(attention)
{ /* q, k, v, bias?, ids?, key? -> y, lse */
    job j = { .a = a, .s = heads_of(a, &a->in[0], &a->in[1]), .bias = present(&a->in[3]) ? &a->in[3] : NULL };
    j.scratch = scratch_size(&j.s);
    find_padding(&j.s, a, &a->in[4], (float *)a->workspace + workers(a) * j.scratch);
    find_dropout(&j.s, a, &a->in[5]);
    j.s.tail = tail_of(&j.s, j.bias);
    ls_parallel_for(a->threads, j.s.B * j.s.H * ((j.s.Tq + j.s.bq - 1) / j.s.bq), forward_task, &j);
}
