/* conv.c - convolution for GPUs (kernels/conv*.cu): as products of matrices, or directly where a group has
 * few result channels. Which of them depends on channels alone, so an image's results do not depend on
 * others. */
#include "gpu.h"
#include "pictures.h"
#include "device/conv.h"
#include "kernels/conv.h"

enum {
    FEW = 8,    /* result channels of a group: computed directly */
    BUSY = 264, /* blocks that keep a large GPU busy: two for each of 132 multiprocessors */
    TILE_COLUMNS = 128
};

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
/* Channels of a tile of a product, and products that are added to its sums at once. */
static int64_t tile_of(int64_t channels) { return channels <= 64 ? 64 : 128; }
static int64_t slice_of(const ls_tensor *x) { return x->type.dtype == LS_F32 ? 16 : 32; }
static bool aligned(const ls_tensor *t) { return (uintptr_t)t->data % 16 == 0; }
enum { PRODUCT_TEXT = 256 };
/* The text in front of a file that includes product.h. */
static void product_text(char text[PRODUCT_TEXT], const ls_tensor *x, bool tf32, int64_t tile, bool whole)
{
    snprintf(text, PRODUCT_TEXT,
             "#define ELEMENT %s\n#define MULTIPLY %s\n#define TILE_M %d\n#define TILE_N %d\n"
             "#define TILE_K %d\n#define WARPS_M 2\n#define WARPS_N 4\n#define STAGES 3\n#define WHOLE %d\n",
             ls_gpu_type(x),
             x->type.dtype != LS_F32 ? "MULTIPLY_MMA"
             : tf32                  ? "MULTIPLY_TF32"
                                     : "MULTIPLY_FMA",
             (int)tile, TILE_COLUMNS, (int)slice_of(x), (int)whole);
}

static conv_sizes sizes_of(const ls_kernel_args *a, ls_conv_kind kind)
{
    const ls_conv s = ls_conv_of(a, kind);
    return (conv_sizes){ .n = s.n,
                         .c = s.c,
                         .h = s.h,
                         .w = s.w,
                         .o = s.o,
                         .kh = s.kh,
                         .kw = s.kw,
                         .oh = s.oh,
                         .ow = s.ow,
                         .groups = s.at.groups,
                         .og = s.o / s.at.groups,
                         .cg = s.c / s.at.groups,
                         .stride_h = s.at.stride_h,
                         .stride_w = s.at.stride_w,
                         .pad_h = s.at.pad_h,
                         .pad_w = s.at.pad_w,
                         .dilation_h = s.at.dilation_h,
                         .dilation_w = s.at.dilation_w };
}

/* Rows and columns of pictures are 32-bit numbers in the products. */
const char *ls_gpu_conv_supports(const ls_kernel_args *a)
{
    const ls_type *x = &a->in[0].type, *y = &a->in[1].type, *out = &a->out[0].type;
    const ls_conv_attrs *o = a->attrs;
    int64_t large = 0;
    for (int d = 2; d < 4; d++)
        large |= x->dims[d] | y->dims[d] | out->dims[d];
    large |= o->stride_h | o->stride_w | o->pad_h | o->pad_w | o->dilation_h | o->dilation_w;
    return large >> 28 ? "a size of 2^28 or more" : ls_gpu_no_f64(a);
}

static void gpu_conv_launch(const ls_kernel_args *a, const char *file, const char *function,
                            const char *before, int64_t blocks, const void *args, size_t bytes)
{
    ls_gpu_run(a->queue, &(ls_gpu_launch){ .file = file,
                                           .function = function,
                                           .before = before,
                                           .blocks = blocks,
                                           .args = args,
                                           .bytes = bytes });
}

static gpu_address of(const ls_tensor *t) { return ls_gpu_at(t->data); }

static void direct(const ls_kernel_args *a, const char *function, const conv_direct_args *d, int64_t blocks)
{
    char before[32];
    snprintf(before, sizeof before, "#define X %s\n", ls_gpu_type(&a->in[0]));
    gpu_conv_launch(a, "conv_direct.cu", function, before, blocks, d, sizeof *d);
}

/* ---- y, and dx, as a product: packed weights with the elements of the source that they meet */

static int64_t common(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static conv_args product_of(const ls_kernel_args *a, bool back)
{
    conv_args p = { .c = sizes_of(a, back ? LS_CONV_DX : LS_CONV_Y), .back = back };
    const conv_sizes *c = &p.c;
    const int64_t m = back ? c->cg : c->og;
    p.phases_h = back ? at_most(c->stride_h, c->h) : 1;
    p.phases_w = back ? at_most(c->stride_w, c->w) : 1;
    p.tap_step_h = back ? c->stride_h / common(c->stride_h, c->dilation_h) : 1;
    p.tap_step_w = back ? c->stride_w / common(c->stride_w, c->dilation_w) : 1;
    p.depth = round_up((back ? c->og : c->cg) * ls_gpu_blocks(c->kh, p.tap_step_h) *
                           ls_gpu_blocks(c->kw, p.tap_step_w),
                       slice_of(&a->in[0]));
    p.m_padded = round_up(m, tile_of(m));
    p.rows = back ? ls_gpu_blocks(c->h, c->stride_h) : c->oh;
    p.columns = back ? ls_gpu_blocks(c->w, c->stride_w) : c->ow;
    return p;
}

static int64_t packed_bytes(const ls_kernel_args *a, const conv_args *p)
{
    return round_up(p->phases_h * p->phases_w * p->c.groups * p->depth * p->m_padded *
                        (int64_t)ls_dtype_size(a->in[0].type.dtype),
                    64);
}

static void multiply(const ls_kernel_args *a, conv_args p, bool tf32)
{
    char before[32], text[PRODUCT_TEXT];
    const int64_t tile = tile_of(p.back ? p.c.cg : p.c.og), phases = p.phases_h * p.phases_w;
    p.source = of(&a->in[0]);
    p.w = of(&a->in[1]);
    p.to = of(&a->out[0]);
    p.packed = ls_gpu_at(a->workspace);
    p.taps = p.packed + (gpu_address)packed_bytes(a, &p);
    snprintf(before, sizeof before, "#define X %s\n", ls_gpu_type(&a->in[0]));
    product_text(text, &a->in[0], tf32, tile,
                 p.phases_h * p.phases_w == 1 && p.rows * p.columns % 8 == 0 && aligned(&a->out[0]));
    gpu_conv_launch(a, "conv_pack.cu", "conv_pack", before,
                    phases * p.c.groups * ls_gpu_blocks(p.depth, CONV_PACK) * (p.m_padded / CONV_PACK), &p,
                    sizeof p);
    gpu_conv_launch(a, "conv.cu", "conv", text,
                    phases * p.c.groups * (p.m_padded / tile) *
                        ls_gpu_blocks(p.c.n * p.rows * p.columns, TILE_COLUMNS),
                    &p, sizeof p);
}

static size_t product_bytes(const ls_kernel_args *a, bool back)
{
    const conv_args p = product_of(a, back);
    return (size_t)(packed_bytes(a, &p) + p.phases_h * p.phases_w * p.depth * (int64_t)sizeof(conv_tap));
}

static void conv2d(const ls_kernel_args *a, bool tf32) /* x, w, bias? -> y */
{
    conv_args p = product_of(a, false);
    p.bias = a->n_in > 2 && ls_gpu_present(&a->in[2]) ? of(&a->in[2]) : 0;
    if (p.c.og > FEW)
        multiply(a, p, tf32);
    else
        direct(a, "conv_direct",
               &(conv_direct_args){
                   .c = p.c, .x = of(&a->in[0]), .w = of(&a->in[1]), .y = of(&a->out[0]), .bias = p.bias },
               ls_gpu_blocks(ls_gpu_count(&a->out[0].type), CONV_THREADS));
}
size_t ls_gpu_conv2d_workspace(const ls_kernel_args *a)
{
    return sizes_of(a, LS_CONV_Y).og > FEW ? product_bytes(a, false) : 0;
}

static void conv2d_dx(const ls_kernel_args *a, bool tf32) /* dy, w -> dx */
{
    const conv_args p = product_of(a, true);
    if (p.c.cg > FEW)
        multiply(a, p, tf32);
    else
        direct(a, "conv_direct_dx",
               &(conv_direct_args){ .c = p.c, .y = of(&a->in[0]), .w = of(&a->in[1]), .x = of(&a->out[0]) },
               ls_gpu_blocks(ls_gpu_count(&a->out[0].type), CONV_THREADS));
}
size_t ls_gpu_conv2d_dx_workspace(const ls_kernel_args *a)
{
    return sizes_of(a, LS_CONV_DX).cg > FEW ? product_bytes(a, true) : 0;
}

/* ---- dw and the bias gradient: sums of parts of the images, which are added up in order */

typedef struct parts {
    int64_t blocks, images, n; /* blocks of a part; its images; parts */
} parts;

static parts parts_for(int64_t blocks, int64_t images)
{
    const int64_t want = at_most(images, ls_gpu_blocks(BUSY, blocks > 0 ? blocks : 1)),
                  each = want > 0 ? ls_gpu_blocks(images, want) : 1;
    return (parts){ blocks, each, ls_gpu_blocks(images, each) };
}

/* (f32 with tiles of 128 x 128 has more sums and operands than registers) */
static int64_t kernel_tile(const ls_tensor *x, const conv_sizes *c)
{
    return x->type.dtype == LS_F32 ? 64 : tile_of(c->og);
}
static parts kernel_parts(const ls_tensor *x, const conv_sizes *c)
{
    const int64_t columns = c->cg * c->kh * c->kw;
    return parts_for(c->og <= FEW ? c->o * columns
                                  : c->groups * ls_gpu_blocks(c->og, kernel_tile(x, c)) *
                                        ls_gpu_blocks(columns, TILE_COLUMNS),
                     c->n);
}

static int64_t part_bytes(const conv_sizes *c, parts p)
{
    return round_up(p.n * c->o * c->cg * c->kh * c->kw * (int64_t)sizeof(float), 64);
}

static void add_parts(const ls_kernel_args *a, gpu_address from, int64_t n, const ls_tensor *to)
{
    char before[32];
    const conv_sum_args s = { .parts = from, .to = of(to), .n_parts = n, .count = ls_gpu_count(&to->type) };
    snprintf(before, sizeof before, "#define X %s\n", ls_gpu_type(to));
    gpu_conv_launch(a, "conv_direct.cu", "conv_sum", before, ls_gpu_blocks(s.count, CONV_THREADS), &s,
                    sizeof s);
}

static void conv2d_dw(const ls_kernel_args *a, bool tf32) /* dy, x -> dw, db? */
{
    const conv_sizes c = sizes_of(a, LS_CONV_DW);
    const parts p = kernel_parts(&a->in[0], &c), b = parts_for(c.o, c.n);
    const gpu_address sums = ls_gpu_at(a->workspace), bias_sums = sums + (gpu_address)part_bytes(&c, p);
    char text[PRODUCT_TEXT];
    product_text(text, &a->in[0], tf32, kernel_tile(&a->in[0], &c),
                 c.oh * c.ow * (int64_t)ls_dtype_size(a->in[0].type.dtype) % 16 == 0 && aligned(&a->in[0]));
    if (c.og > FEW)
        gpu_conv_launch(
            a, "conv_dw.cu", "conv_dw", text, p.blocks * p.n,
            &(conv_dw_args){
                .c = c, .dy = of(&a->in[0]), .x = of(&a->in[1]), .parts = sums, .part_images = p.images },
            sizeof(conv_dw_args));
    else
        direct(a, "conv_direct_dw",
               &(conv_direct_args){
                   .c = c, .y = of(&a->in[0]), .x = of(&a->in[1]), .parts = sums, .part_images = p.images },
               p.blocks * p.n);
    add_parts(a, sums, p.n, &a->out[0]);
    if (a->n_out < 2 || !ls_gpu_present(&a->out[1]))
        return;
    snprintf(text, sizeof text, "#define X %s\n", ls_gpu_type(&a->in[0]));
    gpu_conv_launch(a, "conv_direct.cu", "conv_bias", text, b.blocks * b.n,
                    &(conv_bias_args){ .dy = of(&a->in[0]),
                                       .parts = bias_sums,
                                       .images = c.n,
                                       .channels = c.o,
                                       .plane = c.oh * c.ow,
                                       .part_images = b.images },
                    sizeof(conv_bias_args));
    add_parts(a, bias_sums, b.n, &a->out[1]);
}
size_t ls_gpu_conv2d_dw_workspace(const ls_kernel_args *a)
{
    const conv_sizes c = sizes_of(a, LS_CONV_DW);
    return (size_t)(part_bytes(&c, kernel_parts(&a->in[0], &c)) +
                    parts_for(c.o, c.n).n * c.o * (int64_t)sizeof(float));
}

#define RUNS(op)                                                \
    void ls_gpu_##op(const ls_kernel_args *a) { op(a, false); } \
    void ls_gpu_##op##_tf32(const ls_kernel_args *a) { op(a, true); }
RUNS(conv2d)
RUNS(conv2d_dx)
RUNS(conv2d_dw)
