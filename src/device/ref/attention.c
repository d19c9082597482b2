/* attention.c - scaled dot-product attention, one query row at a time, and its gradient from the saved
 * log-sum-exp.
 *
 * Query head h of H uses key head h / (H/G). A causal query i sees key j if j <= i + apart, with a window if
 * also j > i + apart - window, and if none of the positions behind j, up to i + apart, is 0: there another
 * document begins. apart is Tk - Tq where all queries of the sequence are here. A query that
 * sees no key (all are masked, or all scores are -inf) gets y = 0 and lse = -inf, and its probabilities are
 * 0. Dropout is applied after the softmax. */
#include "ref.h"
#include "base/thread_pool.h"
#include "device/dropout.h"

typedef struct shape {
    int64_t B, H, G, Tq, Tk, D;
    bool causal;
    int64_t window;
    double scale;
    const ls_tensor *ids;       /* ids of the keys; NULL: no key is padding */
    const ls_tensor *positions; /* NULL: a sample is one document */
    int64_t pad, first_head;
    int64_t apart, first, all; /* the key of query 0; its number among all queries of the sequence */
    bool drops;
    ls_dropping drop;
} shape;

static shape shape_of(const ls_kernel_args *a, const ls_type *q, const ls_type *k, int ids)
{
    const ls_attention_attrs *at = a->attrs;
    return (shape){ .B = q->dims[0],
                    .H = q->dims[2] / at->head_dim,
                    .G = k->dims[2] / at->head_dim,
                    .Tq = q->dims[1],
                    .Tk = k->dims[1],
                    .D = at->head_dim,
                    .causal = at->causal != 0,
                    .window = at->window,
                    .scale = at->scale,
                    .ids = given(a, ids) ? &a->in[ids] : NULL,
                    .positions = given(a, ids + 2) ? &a->in[ids + 2] : NULL,
                    .pad = at->pad,
                    .apart = ls_at_apart(a, q->dims[1], k->dims[1]),
                    .first = ls_at_start(a, 1),
                    .all = ls_at_whole(a, 1, q->dims[1]) };
}

/* (not while planning, where there is no key) */
static void find_dropout(shape *s, const ls_kernel_args *a, int key)
{
    const ls_attention_attrs *at = a->attrs;
    s->drops = given(a, key);
    s->first_head = ls_at_start(a, 2) / at->head_dim;
    if (!s->drops)
        return;
    s->drop = ls_dropping_of(&a->in[key], at->dropout, at->purpose);
    s->drop.sample += (uint64_t)ls_at_start(a, 0) * s->drop.apart;
}

/* The first token of query i's document. */
static int64_t document(const shape *s, int64_t b, int64_t i)
{
    int64_t key = i + s->apart;
    while (s->positions && key > 0 && flat_get(s->positions, b * s->Tk + key) != 0)
        key--;
    return s->positions ? key : 0;
}

/* The factor by which dropout multiplies a probability. */
static double factor(const shape *s, int64_t b, int64_t h, int64_t i, int64_t j)
{
    if (!s->drops)
        return 1;
    const uint64_t index = ls_dropping_row(h + s->first_head, s->first + i, s->all, s->Tk) + (uint64_t)j;
    return ls_rng_bits16(s->drop.key, s->drop.sample + (uint64_t)b * s->drop.apart, index) <
                   (uint32_t)s->drop.below
               ? s->drop.scale
               : 0;
}

static int64_t at3(const ls_tensor *t, int64_t b, int64_t i, int64_t c)
{
    return b * t->strides[0] + i * t->strides[1] + c * t->strides[2];
}
static double get3(const ls_tensor *t, int64_t b, int64_t i, int64_t c)
{
    return ls_ref_get(t, at3(t, b, i, c));
}
static int64_t at4(const ls_tensor *t, int64_t b, int64_t h, int64_t i,
                   int64_t j) /* the bias may have one batch for all samples */
{
    return (t->type.dims[0] > 1 ? b * t->strides[0] : 0) + h * t->strides[1] + i * t->strides[2] +
           j * t->strides[3];
}

static double bias_of(const shape *s, const ls_tensor *bias, int64_t b, int64_t h, int64_t i, int64_t j)
{
    if (bias->type.ndim == 2) /* a bias by distance */
        return ls_ref_get(bias, h * bias->strides[0] + (j - i + s->Tq - 1) * bias->strides[1]);
    return ls_ref_get(bias, at4(bias, b, h, i, j));
}

/* scale * q_i . k_j + bias; -inf if key j is masked. `from`: the first token of the document. */
static double score(const shape *s, const ls_tensor *q, const ls_tensor *k, const ls_tensor *bias, int64_t b,
                    int64_t h, int64_t i, int64_t j, int64_t from)
{
    const int64_t behind = i + s->apart - j; /* of the query's own position */
    if (j < from || (s->causal && behind < 0) || (s->window && behind >= s->window) ||
        (s->ids && (int64_t)flat_get(s->ids, b * s->Tk + j) == s->pad))
        return -HUGE_VAL;
    const int64_t g = h / (s->H / s->G);
    double dot = 0;
    for (int64_t d = 0; d < s->D; d++)
        dot += get3(q, b, i, h * s->D + d) * get3(k, b, j, g * s->D + d);
    return s->scale * dot + (bias ? bias_of(s, bias, b, h, i, j) : 0);
}

typedef struct forward {
    const ls_kernel_args *a;
    shape s;
} forward;

static void forward_rows(void *context, int64_t begin, int64_t end, int worker) /* tasks: (b, h, i) */
{
    const forward *f = context;
    const ls_kernel_args *a = f->a; /* q, k, v, bias?, ids?, key?, positions? -> y, lse */
    const shape *s = &f->s;
    double *p = (double *)a->workspace + worker * s->Tk;
    for (int64_t task = begin; task < end; task++) {
        const int64_t i = task % s->Tq, h = task / s->Tq % s->H, b = task / s->Tq / s->H,
                      g = h / (s->H / s->G), from = document(s, b, i);
        double max = -HUGE_VAL, sum = 0;
        for (int64_t j = 0; j < s->Tk; j++) {
            p[j] = score(s, &a->in[0], &a->in[1], given(a, 3) ? &a->in[3] : NULL, b, h, i, j, from);
            max = fmax(max, p[j]);
        }
        for (int64_t j = 0; j < s->Tk; j++) {
            p[j] = p[j] == -HUGE_VAL ? 0 : exp(p[j] - max);
            sum += p[j];
            p[j] *= factor(s, b, h, i, j);
        }
        for (int64_t d = 0; d < s->D; d++) {
            double y = 0;
            for (int64_t j = 0; j < s->Tk; j++)
                if (p[j] != 0) /* a masked key does not count, whatever it contains */
                    y += p[j] * get3(&a->in[2], b, j, g * s->D + d);
            ls_ref_put(&a->out[0], at3(&a->out[0], b, i, h * s->D + d), sum == 0 ? 0 : y / sum);
        }
        flat_put(&a->out[1], task, sum == 0 ? -HUGE_VAL : max + log(sum));
    }
}

void ls_ref_attention(const ls_kernel_args *a)
{
    forward f = { a, shape_of(a, &a->in[0].type, &a->in[1].type, 4) };
    find_dropout(&f.s, a, 5);
    ls_parallel_for(a->threads, f.s.B * f.s.H * f.s.Tq, forward_rows, &f);
}

size_t ls_ref_attention_workspace(const ls_kernel_args *a)
{
    return sizeof(double) * (size_t)(a->threads > 1 ? a->threads : 1) * (size_t)a->in[1].type.dims[1];
}

/* The gradient: dy, q, k, v, bias?, y, lse, ids?, key?, positions? -> dq, dk, dv, and dbias if there is a
 * bias. */
enum { DY, Q, K, V, BIAS, Y, LSE, IDS, KEY };
enum { DQ, DK, DV, DBIAS };

/* For one query row: f[j] * p[j], and ds[j] = p[j] * (f[j] * dy.v_j - dy.y), where p[j] = exp(s_j - lse) and
 * f[j] is dropout's factor. */
static void row_grad(const ls_kernel_args *a, const shape *s, int64_t b, int64_t h, int64_t i, double *p,
                     double *ds)
{
    const int64_t g = h / (s->H / s->G), from = document(s, b, i);
    const double lse = flat_get(&a->in[LSE], (b * s->H + h) * s->Tq + i);
    double dy_y = 0;
    for (int64_t d = 0; d < s->D; d++)
        dy_y += get3(&a->in[DY], b, i, h * s->D + d) * get3(&a->in[Y], b, i, h * s->D + d);
    for (int64_t j = 0; j < s->Tk; j++) {
        const double x = score(s, &a->in[Q], &a->in[K], given(a, BIAS) ? &a->in[BIAS] : NULL, b, h, i, j,
                               from);
        p[j] = ds[j] = 0;
        if (x == -HUGE_VAL)
            continue;
        double dp = 0;
        for (int64_t d = 0; d < s->D; d++)
            dp += get3(&a->in[DY], b, i, h * s->D + d) * get3(&a->in[V], b, j, g * s->D + d);
        const double f = factor(s, b, h, i, j);
        ds[j] = exp(x - lse) * (f * dp - dy_y);
        p[j] = f * exp(x - lse);
    }
}

/* doubles of scratch for each worker */
typedef struct backward {
    const ls_kernel_args *a;
    shape s;
    int64_t scratch;
} backward;

static void backward_heads(void *context, int64_t begin, int64_t end, int worker) /* tasks: (b, key head g) */
{
    const backward *w = context;
    const ls_kernel_args *a = w->a;
    const shape *s = &w->s;
    const int64_t D = s->D, Tk = s->Tk, group = s->H / s->G;
    /* [Tk] [Tk] [Tk,D] [Tk,D] */
    double *p = (double *)a->workspace + worker * w->scratch, *ds = p + Tk, *dk = ds + Tk, *dv = dk + Tk * D;
    for (int64_t task = begin; task < end; task++) {
        const int64_t b = task / s->G, g = task % s->G;
        for (int64_t c = 0; c < Tk * D; c++)
            dk[c] = dv[c] = 0;
        for (int64_t h = g * group; h < (g + 1) * group; h++)
            for (int64_t i = 0; i < s->Tq; i++) {
                row_grad(a, s, b, h, i, p, ds);
                for (int64_t d = 0; d < D; d++) {
                    const double q = get3(&a->in[Q], b, i, h * D + d), dy = get3(&a->in[DY], b, i, h * D + d);
                    double dq = 0;
                    for (int64_t j = 0; j < Tk; j++) {
                        if (p[j] == 0 && ds[j] == 0)
                            continue;
                        dq += ds[j] * get3(&a->in[K], b, j, g * D + d);
                        dk[j * D + d] += s->scale * ds[j] * q;
                        dv[j * D + d] += p[j] * dy;
                    }
                    ls_ref_put(&a->out[DQ], at3(&a->out[DQ], b, i, h * D + d), s->scale * dq);
                }
            }
        for (int64_t j = 0; j < Tk; j++)
            for (int64_t d = 0; d < D; d++) {
                ls_ref_put(&a->out[DK], at3(&a->out[DK], b, j, g * D + d), dk[j * D + d]);
                ls_ref_put(&a->out[DV], at3(&a->out[DV], b, j, g * D + d), dv[j * D + d]);
            }
    }
}

/* dbias[bb, h, i, j] = ds of batch bb, or the sum over all batches if the bias has one for all. */
static void bias_grad(const ls_kernel_args *a, const shape *s)
{
    const ls_tensor *out = &a->out[DBIAS];
    double *p = a->workspace, *ds = p + s->Tk, *sum = ds + s->Tk; /* [Tk] each */
    for (int64_t bb = 0; bb < out->type.dims[0]; bb++)
        for (int64_t h = 0; h < s->H; h++)
            for (int64_t i = 0; i < s->Tq; i++) {
                for (int64_t j = 0; j < s->Tk; j++)
                    sum[j] = 0;
                for (int64_t b = 0; b < s->B; b++) {
                    if (out->type.dims[0] > 1 && b != bb)
                        continue;
                    row_grad(a, s, b, h, i, p, ds);
                    for (int64_t j = 0; j < s->Tk; j++)
                        sum[j] += ds[j];
                }
                for (int64_t j = 0; j < s->Tk; j++)
                    ls_ref_put(out, at4(out, bb, h, i, j), sum[j]);
            }
}

/* The same for a bias by distance: an element of it belongs to all pairs of that distance. */
static void distance_grad(const ls_kernel_args *a, const shape *s)
{
    const ls_tensor *out = &a->out[DBIAS];
    double *p = a->workspace, *ds = p + s->Tk, *sum = ds + s->Tk; /* [Tk] [Tk] [Tq + Tk - 1] */
    for (int64_t h = 0; h < s->H; h++) {
        for (int64_t d = 0; d < s->Tq + s->Tk - 1; d++)
            sum[d] = 0;
        for (int64_t b = 0; b < s->B; b++)
            for (int64_t i = 0; i < s->Tq; i++) {
                row_grad(a, s, b, h, i, p, ds);
                for (int64_t j = 0; j < s->Tk; j++)
                    sum[j - i + s->Tq - 1] += ds[j];
            }
        for (int64_t d = 0; d < s->Tq + s->Tk - 1; d++)
            ls_ref_put(out, h * out->strides[0] + d * out->strides[1], sum[d]);
    }
}

/* the largest of what the three need */
static int64_t backward_scratch(const shape *s) { return 3 * s->Tk + s->Tq + 2 * s->Tk * s->D; }

void ls_ref_attention_grad(const ls_kernel_args *a)
{
    backward w = { .a = a, .s = shape_of(a, &a->in[Q].type, &a->in[K].type, IDS) };
    find_dropout(&w.s, a, KEY);
    w.scratch = backward_scratch(&w.s);
    ls_parallel_for(a->threads, w.s.B * w.s.G, backward_heads, &w);
    if (wanted(a, DBIAS))
        (a->out[DBIAS].type.ndim == 2 ? distance_grad : bias_grad)(a, &w.s);
}

size_t ls_ref_attention_grad_workspace(const ls_kernel_args *a)
{
    const shape s = shape_of(a, &a->in[Q].type, &a->in[K].type, IDS);
    return sizeof(double) * (size_t)(a->threads > 1 ? a->threads : 1) * (size_t)backward_scratch(&s);
}
