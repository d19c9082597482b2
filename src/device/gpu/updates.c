/* updates.c - rows of optimizers that update each number by itself, and of the scalars of a step. The kernels
 * are in updates.cu; they read learning rate, step number, loss scale and `apply` on the device. */
#include "graph/update_attrs.h"
#include "kernels/updates.h"
#include "update_rows.h"

/* The text in front of updates.cu. */
static void define(char out[64], const ls_tensor *g, const ls_tensor *weights)
{
    snprintf(out, 64, "#define G %s\n#define W %s\n", g ? ls_gpu_type(g) : "f32",
             weights ? ls_gpu_type(weights) : "bf16");
}

/* Whether four numbers can be loaded at once from all operands; absent ones are 0. */
static bool vectors(const ls_tensor *g, gpu_address other, gpu_address a, gpu_address b, gpu_address c)
{
    const gpu_address of_g = g ? ls_gpu_at(g->data) * 4 / (gpu_address)ls_dtype_size(g->type.dtype) : 0;
    return (of_g | other * 2 | a | b | c) % 16 == 0;
}

static void gpu_updates_launch(const ls_kernel_args *a, const char *function, const ls_tensor *g,
                               const ls_tensor *weights, int64_t n, const void *args, size_t bytes)
{
    char before[64];
    define(before, g, weights);
    ls_gpu_run(a->queue, &(ls_gpu_launch){ .file = "updates.cu",
                                           .function = function,
                                           .before = before,
                                           .blocks = ls_gpu_blocks(n, UPDATE_EACH),
                                           .args = args,
                                           .bytes = bytes });
}

static void run_adam(const ls_kernel_args *a)
{ /* p, g, m, v, step, lr, scale?, apply?, weights? -> p, m, v, weights? */
    const ls_adam_attrs *o = a->attrs;
    const ls_tensor *g = &a->in[1], *weights = ls_gpu_input(a, 8) ? &a->out[3] : NULL;
    adam_args k = { .p = ls_gpu_at(a->out[0].data),
                    .g = ls_gpu_at(g->data),
                    .m = ls_gpu_at(a->out[1].data),
                    .v = ls_gpu_at(a->out[2].data),
                    .weights = weights ? ls_gpu_at(weights->data) : 0,
                    .step = ls_gpu_input(a, 4),
                    .lr = ls_gpu_input(a, 5),
                    .scale = ls_gpu_input(a, 6),
                    .apply = ls_gpu_input(a, 7),
                    .beta1 = o->beta1,
                    .beta2 = o->beta2,
                    .eps = o->eps,
                    .weight_decay = o->weight_decay,
                    .n = ls_gpu_count(&a->in[0].type),
                    .decoupled = o->decoupled != 0 };
    k.vectors = vectors(g, k.weights, k.p, k.m, k.v);
    gpu_updates_launch(a, "adam", g, weights, k.n, &k, sizeof k);
}

static void run_sgd(const ls_kernel_args *a)
{ /* p, g, buffer?, step, lr, scale?, apply? -> p, buffer */
    const ls_sgd_attrs *o = a->attrs;
    const ls_tensor *g = &a->in[1];
    sgd_args k = { .p = ls_gpu_at(a->out[0].data),
                   .g = ls_gpu_at(g->data),
                   .buffer = ls_gpu_input(a, 2) ? ls_gpu_at(a->out[1].data) : 0,
                   .step = ls_gpu_input(a, 3),
                   .lr = ls_gpu_input(a, 4),
                   .scale = ls_gpu_input(a, 5),
                   .apply = ls_gpu_input(a, 6),
                   .momentum = o->momentum,
                   .dampening = o->dampening,
                   .weight_decay = o->weight_decay,
                   .n = ls_gpu_count(&a->in[0].type),
                   .nesterov = o->nesterov != 0 };
    k.vectors = vectors(g, 0, k.p, k.buffer, 0);
    gpu_updates_launch(a, "sgd", g, NULL, k.n, &k, sizeof k);
}

static void run_lion(const ls_kernel_args *a)
{ /* p, g, m, lr, scale?, apply? -> p, m */
    const ls_lion_attrs *o = a->attrs;
    const ls_tensor *g = &a->in[1];
    lion_args k = { .p = ls_gpu_at(a->out[0].data),
                    .g = ls_gpu_at(g->data),
                    .m = ls_gpu_at(a->out[1].data),
                    .lr = ls_gpu_input(a, 3),
                    .scale = ls_gpu_input(a, 4),
                    .apply = ls_gpu_input(a, 5),
                    .beta1 = o->beta1,
                    .beta2 = o->beta2,
                    .weight_decay = o->weight_decay,
                    .n = ls_gpu_count(&a->in[0].type) };
    k.vectors = vectors(g, 0, k.p, k.m, 0);
    gpu_updates_launch(a, "lion", g, NULL, k.n, &k, sizeof k);
}

static void run_ema(const ls_kernel_args *a)
{ /* average, p, step, apply? -> average */
    ema_args k = { .average = ls_gpu_at(a->out[0].data),
                   .p = ls_gpu_input(a, 1),
                   .step = ls_gpu_input(a, 2),
                   .apply = ls_gpu_input(a, 3),
                   .decay = ((const ls_ema_attrs *)a->attrs)->decay,
                   .n = ls_gpu_count(&a->in[0].type) };
    k.vectors = vectors(NULL, 0, k.average, k.p, 0);
    gpu_updates_launch(a, "ema", NULL, NULL, k.n, &k, sizeof k);
}

static void run_muon_momentum(const ls_kernel_args *a)
{ /* g, buffer, scale?, apply? -> u, buffer */
    const ls_tensor *g = &a->in[0];
    muon_momentum_args k = { .g = ls_gpu_at(g->data),
                             .buffer = ls_gpu_at(a->out[1].data),
                             .u = ls_gpu_at(a->out[0].data),
                             .scale = ls_gpu_input(a, 2),
                             .apply = ls_gpu_input(a, 3),
                             .momentum = ((const ls_muon_momentum_attrs *)a->attrs)->momentum,
                             .n = ls_gpu_count(&a->in[1].type) };
    k.vectors = vectors(g, 0, k.buffer, k.u, 0);
    gpu_updates_launch(a, "muon_momentum", g, NULL, k.n, &k, sizeof k);
}

static void run_count_step(const ls_kernel_args *a)
{ /* step, apply? -> step */
    const count_step_args k = { ls_gpu_input(a, 0), ls_gpu_at(a->out[0].data), ls_gpu_input(a, 1) };
    gpu_updates_launch(a, "count_step", NULL, NULL, 1, &k, sizeof k);
}

static void run_group_rate(const ls_kernel_args *a)
{ /* lr -> lr */
    const group_rate_args k = { ls_gpu_input(a, 0), ls_gpu_at(a->out[0].data),
                                ((const ls_rate_attrs *)a->attrs)->factor };
    gpu_updates_launch(a, "group_rate", NULL, NULL, 1, &k, sizeof k);
}

static void run_loss_scale_update(const ls_kernel_args *a)
{ /* scale, good, apply -> scale, good */
    const ls_scale_update_attrs *o = a->attrs;
    const loss_scale_args k = { .scale = ls_gpu_input(a, 0),
                                .good = ls_gpu_input(a, 1),
                                .apply = ls_gpu_input(a, 2),
                                .new_scale = ls_gpu_at(a->out[0].data),
                                .new_good = ls_gpu_at(a->out[1].data),
                                .growth = o->growth,
                                .backoff = o->backoff,
                                .interval = o->interval };
    gpu_updates_launch(a, "loss_scale_update", NULL, NULL, 1, &k, sizeof k);
}

static const char *adam_takes(const ls_kernel_args *a) { return ls_gpu_update_types(a, 1, 6, 1 | 4 | 8); }
static const char *sgd_takes(const ls_kernel_args *a) { return ls_gpu_update_types(a, 1, 5, 1 | 4); }
static const char *lion_takes(const ls_kernel_args *a) { return ls_gpu_update_types(a, 1, 4, 1 | 4); }
static const char *ema_takes(const ls_kernel_args *a) { return ls_gpu_update_types(a, -1, -1, 1 | 2); }
static const char *momentum_takes(const ls_kernel_args *a) { return ls_gpu_update_types(a, 0, 2, 2); }
static const char *muon_takes(const ls_kernel_args *a) { return ls_gpu_update_types(a, -1, -1, 1 | 2); }
static const char *adafactor_takes(const ls_kernel_args *a)
{
    return ls_gpu_update_types(a, 1, 7, 1 | 4 | 8 | 16);
}

const ls_kernel ls_gpu_updates[] = {
    { .op = "adam", .run = run_adam, .supports = adam_takes },
    { .op = "sgd", .run = run_sgd, .supports = sgd_takes },
    { .op = "lion", .run = run_lion, .supports = lion_takes },
    { .op = "ema", .run = run_ema, .supports = ema_takes },
    { .op = "muon_momentum", .run = run_muon_momentum, .supports = momentum_takes },
    { .op = "muon", .run = ls_gpu_muon, .workspace = ls_gpu_muon_room, .supports = muon_takes },
    { .op = "adafactor",
      .run = ls_gpu_adafactor,
      .workspace = ls_gpu_adafactor_room,
      .supports = adafactor_takes },
    { .op = "count_step", .run = run_count_step },
    { .op = "group_rate", .run = run_group_rate },
    { .op = "loss_scale_update", .run = run_loss_scale_update },
    { 0 },
};
