/* combine.c - adds pieces of several ranks on GPUs (device/link.h). */
#include "device/link.h"
#include "gpu.h"
#include "kernels/combine.h"

enum { THREADS = 256, FEW = 16 /* so many pieces are added by unrolled loops */ };

static void wide(ls_queue *q, const ls_combination *c, combine_args *k)
{
    k->count = c->count / 2;
    ls_gpu_run(q, &(ls_gpu_launch){ .file = "combine_wide.cu",
                                    .function = "combine_wide",
                                    .blocks = ls_gpu_blocks(k->count, THREADS),
                                    .args = k,
                                    .bytes = sizeof *k });
}

static int bits(int n)
{
    int all = 0;
    for (; n; n >>= 1)
        all++;
    return all;
}

void ls_gpu_combine(ls_queue *q, const ls_combination *c)
{
    char before[256], pieces[16];
    combine_args k = { .in = ls_gpu_at(c->in),
                       .out = ls_gpu_at(c->out),
                       .stride = (i64)c->stride,
                       .count = c->count,
                       .n = c->n };
    const size_t from = ls_dtype_size(c->from), to = ls_dtype_size(c->to);
    if (c->n == 1 && c->from == c->to && (c->via == c->to || c->by != LS_COMBINE_SUM)) {
        if (c->in != c->out)
            ls_gpu_copy(q, c->out, c->in, (size_t)c->count * from);
        return;
    }
    if (c->by == LS_COMBINE_WIDE) {
        wide(q, c, &k);
        return;
    }
    const size_t width = 16 / (from > to ? from : to); /* words of 16 bytes of the larger type */
    const bool aligned = (k.in | c->stride) % (width * from) == 0 && k.out % (width * to) == 0;
    snprintf(pieces, sizeof pieces, c->n <= FEW ? "%d" : "a.n", c->n);
    snprintf(before, sizeof before,
             "#define FROM %s\n#define VIA %s\n#define TO %s\n#define LARGEST %d\n#define W %d\n"
             "#define VECTOR %d\n#define UNROLLED %d\n#define PIECES %s\n#define LEVELS %d\n",
             ls_dtype_name(c->from), ls_dtype_name(c->via), ls_dtype_name(c->to), c->by == LS_COMBINE_MAX,
             (int)width, aligned, c->n <= FEW, pieces, bits(c->n));
    ls_gpu_run(q, &(ls_gpu_launch){ .file = "combine.cu",
                                    .function = "combine",
                                    .before = before,
                                    .blocks = ls_gpu_blocks(c->count, THREADS * (int64_t)width),
                                    .args = &k,
                                    .bytes = sizeof k });
}
