/* conv.c - convolution and its gradients. For every image, group and pair of channels, each kernel element
 * adds a shifted plane to a plane. Operands are converted to doubles once, and each result is one sum of
 * doubles, rounded once. */
#include "ref.h"
#include "device/conv.h"
#include "base/thread_pool.h"

typedef struct conv {
    const ls_kernel_args *a;
    ls_conv s;
    /* positions of x and of y; kernel elements; channels of a group */
    int64_t in_plane, out_plane, taps, cg, og;
    double *first, *second; /* in[0], in[1] */
    double *planes;         /* a plane of the result for each thread */
    const int64_t *seen;    /* [position of y][tap]: position of x */
} conv;

static int64_t largest(int64_t a, int64_t b) { return a > b ? a : b; }

static size_t ref_conv_workspace(const ls_kernel_args *a, ls_conv_kind kind)
{
    const ls_conv s = ls_conv_of(a, kind);
    const int64_t plane = largest(largest(s.h * s.w, s.oh * s.ow), s.kh * s.kw),
                  seen = s.oh * s.ow * s.kh * s.kw;
    return 8 * (size_t)(ls_type_count(&a->in[0].type) + ls_type_count(&a->in[1].type) +
                        plane * largest(a->threads, 1) + seen);
}
size_t ls_ref_conv2d_workspace(const ls_kernel_args *a) { return ref_conv_workspace(a, LS_CONV_Y); }
size_t ls_ref_conv2d_dx_workspace(const ls_kernel_args *a) { return ref_conv_workspace(a, LS_CONV_DX); }
size_t ls_ref_conv2d_dw_workspace(const ls_kernel_args *a) { return ref_conv_workspace(a, LS_CONV_DW); }

static double *read_all(double *to, const ls_tensor *t)
{
    const int64_t n = ls_type_count(&t->type);
    for (int64_t i = 0; i < n; i++)
        to[i] = flat_get(t, i);
    return to + n;
}

static void ref_conv_run(const ls_kernel_args *a, ls_conv_kind kind, ls_range_fn task, int64_t tasks)
{
    conv c = { .a = a, .s = ls_conv_of(a, kind) };
    const ls_conv *s = &c.s;
    c.in_plane = s->h * s->w;
    c.out_plane = s->oh * s->ow;
    c.taps = s->kh * s->kw;
    c.cg = s->c / s->at.groups;
    c.og = s->o / s->at.groups;
    c.first = a->workspace;
    c.second = read_all(c.first, &a->in[0]);
    c.planes = read_all(c.second, &a->in[1]);
    int64_t *seen = (int64_t *)(c.planes +
                                largest(largest(c.in_plane, c.out_plane), c.taps) * largest(a->threads, 1));
    for (int64_t p = 0; p < c.out_plane; p++)
        for (int64_t t = 0; t < c.taps; t++)
            seen[p * c.taps + t] = ls_conv_seen(s, p, t);
    c.seen = seen;
    ls_parallel_for(a->threads, tasks, task, &c);
}

/* Plane number `task` of y: image task / o, channel task % o. */
static void y_planes(void *context, int64_t begin, int64_t end, int worker)
{
    const conv *c = context;
    double *sum = c->planes + worker * largest(largest(c->in_plane, c->out_plane), c->taps);
    for (int64_t task = begin; task < end; task++) {
        const int64_t n = task / c->s.o, o = task % c->s.o, group = o / c->og;
        for (int64_t p = 0; p < c->out_plane; p++)
            sum[p] = given(c->a, 2) ? flat_get(&c->a->in[2], o) : 0;
        for (int64_t k = 0; k < c->cg; k++) {
            const double *x = c->first + (n * c->s.c + group * c->cg + k) * c->in_plane,
                         *w = c->second + (o * c->cg + k) * c->taps;
            for (int64_t p = 0; p < c->out_plane; p++)
                for (int64_t t = 0; t < c->taps; t++)
                    if (c->seen[p * c->taps + t] >= 0)
                        sum[p] += x[c->seen[p * c->taps + t]] * w[t];
        }
        for (int64_t p = 0; p < c->out_plane; p++)
            flat_put(&c->a->out[0], task * c->out_plane + p, sum[p]);
    }
}

void ls_ref_conv2d(const ls_kernel_args *a)
{
    ref_conv_run(a, LS_CONV_Y, y_planes, a->out[0].type.dims[0] * a->out[0].type.dims[1]);
}

/* Plane number `task` of dx: image task / c, channel task % c. */
static void dx_planes(void *context, int64_t begin, int64_t end, int worker)
{
    const conv *c = context;
    double *sum = c->planes + worker * largest(largest(c->in_plane, c->out_plane), c->taps);
    for (int64_t task = begin; task < end; task++) {
        const int64_t n = task / c->s.c, k = task % c->s.c, group = k / c->cg;
        for (int64_t p = 0; p < c->in_plane; p++)
            sum[p] = 0;
        for (int64_t o = group * c->og; o < (group + 1) * c->og; o++) {
            const double *dy = c->first + (n * c->s.o + o) * c->out_plane,
                         *w = c->second + (o * c->cg + k % c->cg) * c->taps;
            for (int64_t p = 0; p < c->out_plane; p++)
                for (int64_t t = 0; t < c->taps; t++)
                    if (c->seen[p * c->taps + t] >= 0)
                        sum[c->seen[p * c->taps + t]] += dy[p] * w[t];
        }
        for (int64_t p = 0; p < c->in_plane; p++)
            flat_put(&c->a->out[0], task * c->in_plane + p, sum[p]);
    }
}

void ls_ref_conv2d_dx(const ls_kernel_args *a)
{
    ref_conv_run(a, LS_CONV_DX, dx_planes, a->out[0].type.dims[0] * a->out[0].type.dims[1]);
}

/* Plane number `task` of the kernel: output channel task / cg, input channel task % cg of its group. */
static void dw_planes(void *context, int64_t begin, int64_t end, int worker)
{
    const conv *c = context;
    double *sum = c->planes + worker * largest(largest(c->in_plane, c->out_plane), c->taps);
    for (int64_t task = begin; task < end; task++) {
        const int64_t o = task / c->cg, k = o / c->og * c->cg + task % c->cg;
        for (int64_t t = 0; t < c->taps; t++)
            sum[t] = 0;
        for (int64_t n = 0; n < c->s.n; n++) {
            const double *dy = c->first + (n * c->s.o + o) * c->out_plane,
                         *x = c->second + (n * c->s.c + k) * c->in_plane;
            for (int64_t p = 0; p < c->out_plane; p++)
                for (int64_t t = 0; t < c->taps; t++)
                    if (c->seen[p * c->taps + t] >= 0)
                        sum[t] += dy[p] * x[c->seen[p * c->taps + t]];
        }
        for (int64_t t = 0; t < c->taps; t++)
            flat_put(&c->a->out[0], task * c->taps + t, sum[t]);
    }
}

void ls_ref_conv2d_dw(const ls_kernel_args *a) /* dy, x -> dw, db? */
{
    ref_conv_run(a, LS_CONV_DW, dw_planes, a->out[0].type.dims[0] * a->out[0].type.dims[1]);
    const ls_type *dy = &a->in[0].type;
    const int64_t channels = dy->dims[1], plane = dy->dims[2] * dy->dims[3];
    for (int64_t o = 0; wanted(a, 1) && o < channels; o++) {
        double sum = 0;
        for (int64_t n = 0; n < dy->dims[0]; n++)
            for (int64_t p = 0; p < plane; p++)
                sum += flat_get(&a->in[0], (n * channels + o) * plane + p);
        flat_put(&a->out[1], o, sum);
    }
}
