/* recurrent.c - rows of kernels for GPUs: LSTM and GRU over time, a launch for each token. */
#include "gpu.h"
#include "graph/tensor_attrs.h"
#include "kernels/recurrent.h"

typedef struct layer {
    const char *function, *before;
    char text[64];
    int64_t gates;
    recurrent_args r;
} layer;

/* y: a tensor [batch, tokens, ..]; w [gates * hidden, hidden] */
static void gpu_recurrent_begin(layer *l, const ls_kernel_args *a, const char *function, const ls_tensor *y,
                                const ls_tensor *w)
{
    const int64_t hidden = w->type.dims[1];
    *l = (layer){ .function = function,
                  .gates = w->type.dims[0] / hidden,
                  .r = { .w = ls_gpu_at(w->data),
                         .batch = y->type.dims[0],
                         .tokens = y->type.dims[1],
                         .hidden = hidden,
                         .reverse = ((const ls_recurrent_attrs *)a->attrs)->reverse != 0 } };
    snprintf(l->text, sizeof l->text, "#define X %s\n#define GATES %d\n", ls_gpu_type(w), (int)l->gates);
}

static gpu_address gpu_recurrent_given(const ls_kernel_args *a, int k)
{
    return k < a->n_in && ls_gpu_present(&a->in[k]) ? ls_gpu_at(a->in[k].data) : 0;
}

static void token(const ls_kernel_args *a, layer *l, int64_t step)
{
    l->r.step = step;
    ls_gpu_run(a->queue, &(ls_gpu_launch){ .file = "recurrent.cu",
                                           .function = l->function,
                                           .before = l->text,
                                           .blocks = ls_gpu_blocks(l->r.batch, RECURRENT_ROWS) *
                                                     ls_gpu_blocks(l->r.hidden, RECURRENT_UNITS),
                                           .args = &l->r,
                                           .bytes = sizeof l->r });
}

static void forward(const ls_kernel_args *a, layer *l)
{
    for (int64_t s = 0; s < l->r.tokens; s++)
        token(a, l, s);
}

static void lstm(const ls_kernel_args *a) /* x, w, h0?, c0? -> y, cells, gates */
{
    layer l;
    gpu_recurrent_begin(&l, a, "lstm", &a->out[0], &a->in[1]);
    l.r.x = gpu_recurrent_given(a, 0);
    l.r.h0 = gpu_recurrent_given(a, 2);
    l.r.c0 = gpu_recurrent_given(a, 3);
    l.r.y = ls_gpu_at(a->out[0].data);
    l.r.cells = ls_gpu_at(a->out[1].data);
    l.r.gates = ls_gpu_at(a->out[2].data);
    forward(a, &l);
}

static void gru(const ls_kernel_args *a) /* x, w, bias?, h0? -> y, gates */
{
    layer l;
    gpu_recurrent_begin(&l, a, "gru", &a->out[0], &a->in[1]);
    l.r.x = gpu_recurrent_given(a, 0);
    l.r.bias = gpu_recurrent_given(a, 2);
    l.r.h0 = gpu_recurrent_given(a, 3);
    l.r.y = ls_gpu_at(a->out[0].data);
    l.r.gates = ls_gpu_at(a->out[1].data);
    forward(a, &l);
}

/* f32: dz of two tokens, and `rest` */
static size_t grad_bytes(const ls_tensor *dx, const ls_tensor *w)
{
    return sizeof(float) * (size_t)(dx->type.dims[0] * (2 * w->type.dims[0] + w->type.dims[1]));
}
static size_t lstm_grad_workspace(const ls_kernel_args *a) { return grad_bytes(&a->out[0], &a->in[2]); }
static size_t gru_grad_workspace(const ls_kernel_args *a) { return grad_bytes(&a->out[0], &a->in[1]); }

static void backward(const ls_kernel_args *a, layer *l)
{
    const gpu_address dz = sizeof(float) * (gpu_address)(l->r.batch * l->gates * l->r.hidden);
    gpu_address now = ls_gpu_at(a->workspace), other = now + dz;
    l->r.rest = other + dz;
    for (int64_t s = l->r.tokens - 1; s >= -1; s--) {
        l->r.given = now;
        l->r.dz_before = other;
        token(a, l, s);
        const gpu_address t = now;
        now = other;
        other = t;
    }
}

static void lstm_grad(const ls_kernel_args *a) /* dy?, dcells?, w, cells, gates, c0? -> dx, dh0, dc0 */
{
    layer l;
    gpu_recurrent_begin(&l, a, "lstm_grad", &a->out[0], &a->in[2]);
    l.r.dy = gpu_recurrent_given(a, 0);
    l.r.dcells = gpu_recurrent_given(a, 1);
    l.r.cells = gpu_recurrent_given(a, 3);
    l.r.gates = gpu_recurrent_given(a, 4);
    l.r.c0 = gpu_recurrent_given(a, 5);
    l.r.dx = ls_gpu_at(a->out[0].data);
    l.r.dh0 = ls_gpu_at(a->out[1].data);
    l.r.dc0 = ls_gpu_at(a->out[2].data);
    backward(a, &l);
}

static void gru_grad(const ls_kernel_args *a) /* dy, w, y, gates, h0? -> dx, d of w's part, dh0 */
{
    layer l;
    gpu_recurrent_begin(&l, a, "gru_grad", &a->out[0], &a->in[1]);
    l.r.dy = gpu_recurrent_given(a, 0);
    l.r.y = gpu_recurrent_given(a, 2);
    l.r.gates = gpu_recurrent_given(a, 3);
    l.r.h0 = gpu_recurrent_given(a, 4);
    l.r.dx = ls_gpu_at(a->out[0].data);
    l.r.dw_part = ls_gpu_at(a->out[1].data);
    l.r.dh0 = ls_gpu_at(a->out[2].data);
    backward(a, &l);
}

const ls_kernel ls_gpu_recurrent[] = {
    { "lstm", lstm, .supports = ls_gpu_no_f64 },
    { "lstm_grad", lstm_grad, .workspace = lstm_grad_workspace, .supports = ls_gpu_no_f64 },
    { "gru", gru, .supports = ls_gpu_no_f64 },
    { "gru_grad", gru_grad, .workspace = gru_grad_workspace, .supports = ls_gpu_no_f64 },
    { 0 },
};
