/* test_split_layers.c - what parallel.tensor splits of a model of one's own, and a tied table: convolutions
 * by their output and input channels, queries, keys and values that are packed in one weight. On any mesh,
 * gradients (as the buffers of SGD's momentum, behind the clipping), norms and losses are those of one
 * process, initial weights and checkpoints are the same bytes, and weights of a file reach their ranks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "lockstep/nn.h"
#include "models/classifier.h"
#include "lockstep/data.h"
#include "support/ranks.h"
#include "support/support.h"
#include "step/split_model.h"
#include "step/state.h"
#include "step/trainer.h"

enum {
    SIDE = 6,
    CHANNELS = 2,
    OUTER = 8,
    WIDTH = 12,
    HEADS = 2,
    CLASSES = 5,
    PIXELS = CHANNELS * SIDE * SIDE
};

/* What `build` has besides. */
static enum { NOTHING, GROUPED_QUERIES, GROUPED_CONVOLUTION, NORM, RECURRENT } besides;

static ls_value grouped_queries(ls_graph *g, ls_value x)
{
    const int64_t d = WIDTH / HEADS;
    const ls_value qkv = ls_linear(g, "qkv", x, WIDTH + 2 * d), q = ls_slice(g, qkv, 2, 0, WIDTH),
                   k = ls_slice(g, qkv, 2, WIDTH, d), v = ls_slice(g, qkv, 2, WIDTH + d, d);
    return ls_linear(g, "out", ls_attention(g, q, k, v, LS_NONE, d, 0.4, false), WIDTH);
}

/* Two convolutions, attention over their pixels with packed weights, a head. */
static ls_status build(ls_graph *g, const void *context, int64_t batch)
{
    (void)context;
    ls_value x = ls_normalize_pixels(g, ls_input(g, "images", LS_TYPE(LS_U8, batch, CHANNELS, SIDE, SIDE)),
                                     0.5, 0.25);
    x = ls_relu(g, ls_conv2d(g, "inner.conv1", x, OUTER, 3, .padding = 1, .bias = true));
    x = besides == NORM ? ls_batch_norm(g, "norm", x) : x;
    x = besides == GROUPED_CONVOLUTION ? ls_conv2d(g, "groups", x, OUTER, 1, .groups = 2) : x;
    x = ls_conv2d(g, "inner.conv2", x, WIDTH, 3, .bias = true);
    const ls_type t = ls_value_type(g, x);
    const int64_t pixels = t.dims[2] * t.dims[3];
    x = ls_permute(g, ls_reshape(g, x, batch, WIDTH, pixels), 0, 2, 1);
    x = ls_add(g, x, ls_self_attention(g, "attention", x, HEADS, 0));
    x = besides == RECURRENT ? ls_lstm(g, "lstm", x, WIDTH).y : x;
    x = besides == GROUPED_QUERIES ? grouped_queries(g, x) : x;
    ls_value gates = ls_linear(g, "gate_up", x, 4 * WIDTH); /* two in one, of another size */
    ls_value gate = ls_slice(g, gates, 2, 0, 2 * WIDTH), up = ls_slice(g, gates, 2, 2 * WIDTH, 2 * WIDTH);
    x = ls_add(g, x, ls_linear(g, "down", ls_mul(g, ls_relu(g, gate), up), WIDTH));
    ls_value logits = ls_linear(g, "head", ls_reshape(g, x, batch, pixels * WIDTH), CLASSES);
    ls_classifier_outputs(g, logits, NULL);
    return ls_graph_finish(g);
}

#define CONVOLUTIONS "colwise:conv1 rowwise:conv2"
#define ATTENTION "colwise:attention rowwise:out_proj"
#define GATED "colwise:gate_up rowwise:down"

static const ls_vit_config VIT = { .image_size = SIDE,
                                   .patch_size = 2,
                                   .in_channels = CHANNELS,
                                   .layers = 2,
                                   .heads = HEADS,
                                   .hidden_size = WIDTH,
                                   .mlp_size = 2 * WIDTH,
                                   .classes = CLASSES,
                                   .mean = 0.5,
                                   .std = 0.25 };

static ls_status build_vit(ls_graph *g, const void *config, int64_t batch)
{
    return ls_vit_build(g, config, batch);
}

typedef enum kind { OWN, DECODER, THE_VIT } kind; /* DECODER: the tied one of split_model.h */

typedef struct run {
    ls_trainer_opts o;
    kind model;
    const char *from, *to,
        *end; /* weights to begin with; checkpoints before and behind the steps. NULL: none */
    double losses[STEPS], norms[STEPS];
} run;

static run layout_of(const char *words, int dp, int shard, int tp)
{
    run r = { .o = layout(dp, shard, tp, shard > 1 ? LS_DATA_HYBRID : LS_DATA_FSDP).o };
    r.o.optimizer = (ls_optimizer){ LS_OPTIMIZER_DEFAULTS, .kind = LS_SGD, .momentum = 0.5 };
    r.o.parallel.tensor = words;
    r.o.parallel.units = "none";
    r.o.clip_norm = 0.05;
    return r;
}

static ls_status step_of(ls_trainer *t, const run *r, int step, ls_step_result *result)
{
    const ls_share share = t->compiled.share;
    uint8_t images[M][ROWS][PIXELS];
    int32_t ids[M][ROWS * TOKENS], targets[M][ROWS * TOKENS], labels[M][ROWS];
    for (int64_t k = 0; k < share.count; k++)
        for (int64_t row = 0; row < ROWS; row++) {
            const int64_t at = (share.first + k * share.stride) * ROWS + row + 31 * step;
            for (int i = 0; i < PIXELS; i++)
                images[k][row][i] = (uint8_t)(at * 37 + i * i * 11);
            for (int i = 0; i < TOKENS; i++) {
                ids[k][row * TOKENS + i] = (int32_t)((at + i) * (at + i) % VOCABULARY);
                targets[k][row * TOKENS + i] = (int32_t)((at + i + 1) * (at + 3) % VOCABULARY);
            }
            labels[k][row] = (int32_t)(at % CLASSES);
        }
    return r->model == DECODER ? ls_trainer_step(t, ids, &targets[0][0], M * ROWS * TOKENS, 0.3, result)
                               : ls_trainer_step(t, images, &labels[0][0], M * ROWS, 0.3, result);
}

static ls_status begin(ls_trainer *t, const run *r)
{
    ls_weights *w;
    LS_TRY(ls_trainer_init(t, 3));
    if (!r->from)
        return LS_OK;
    LS_TRY(ls_weights_open(&w, r->from));
    if (r->model == DECODER) /* as model.init does */
        ls_weights_leave_out(w, "lm_head.weight", "model.embed_tokens.weight");
    ls_status s = ls_trainer_load(t, w);
    ls_weights_close(&w);
    return s;
}

static ls_status train(ls_group *g, run *r, ls_trainer *t)
{
    LS_TRY(begin(t, r));
    if (r->to)
        LS_TRY(ls_trainer_save_checkpoint(t, r->to));
    for (int step = 0; step < STEPS; step++) {
        ls_step_result result;
        LS_TRY(step_of(t, r, step, &result));
        if (ls_group_rank(g) == 0) {
            r->losses[step] = result.loss;
            r->norms[step] = result.grad_norm;
        }
        if (r->end && step == 0)
            LS_TRY(ls_trainer_save_checkpoint(t, r->end));
    }
    return LS_OK;
}

static ls_status rank(ls_group *g, void *context)
{
    run *r = context;
    ls_trainer_opts o = r->o;
    ls_trainer *t;
    static const ls_build_fn BUILDS[] = { build, build_decoder, build_vit };
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    LS_TRY(
        ls_trainer_create_with(&t, BUILDS[r->model], r->model == THE_VIT ? (const void *)&VIT : &QWEN, &o));
    const ls_status s = train(g, r, t);
    ls_trainer_destroy(&t);
    return s;
}

static ls_status run_on(run *r) { return run_ranks((int)ls_mesh_ranks(&r->o.parallel.mesh), rank, r); }

static const char *folder(const char *name)
{
    enum { MOST = 128 };
    static char paths[MOST][450];
    static int number;
    char text[64];
    assert_true(number < MOST);
    snprintf(text, sizeof text, "%s-%d", name, number);
    snprintf(paths[number], sizeof paths[number], "%s", ls_test_path(text));
    return paths[number++];
}

/* The tensors of two files, within a part of the largest of each. */
static void expect_tensors(const char *what, const char *a, const char *b, const char *file, double within)
{
    char *p = ls_path_join(a, file), *q = ls_path_join(b, file);
    ls_weights *x, *y;
    ASSERT_OK(ls_weights_open(&x, p));
    ASSERT_OK(ls_weights_open(&y, q));
    assert_int_equal(ls_weights_count(x), ls_weights_count(y));
    for (int64_t i = 0; i < ls_weights_count(x); i++) {
        const ls_weight *t = ls_weights_at(x, i), *u = ls_weights_find(y, t->name);
        const int64_t n = ls_type_count(&t->type);
        double most = 0, worst = 0;
        if (t->type.dtype != LS_F32)
            continue;
        for (int64_t k = 0; k < n; k++) {
            const double v = ((const float *)t->data)[k], w = ((const float *)u->data)[k];
            most = fmax(most, fabs(w));
            worst = fmax(worst, fabs(v - w));
        }
        if (!(worst <= within * most))
            fail_msg("%s: %s differs by %g, its largest is %g", what, t->name, worst, most);
    }
    ls_weights_close(&x);
    ls_weights_close(&y);
    free(p);
    free(q);
}

static void expect_run(const char *what, const run *is, const run *want, double within)
{
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(is->losses[i] - want->losses[i]) <= within * fabs(want->losses[i])) ||
            !(fabs(is->norms[i] - want->norms[i]) <= 20 * within * want->norms[i]))
            fail_msg("%s, step %d: loss %.12g, norm %.12g; of one process %.12g, %.12g", what, i,
                     is->losses[i], is->norms[i], want->losses[i], want->norms[i]);
}

/* All of `words` over meshes, beside one process: first weights, gradients, steps, and weights from a file.
 */
static void as_one_process(const char *words, kind model)
{
    static const int MESHES[][3] = { { 1, 1, 2 }, { 2, 1, 2 }, { 1, 2, 2 }, { 2, 2, 2 } };
    run one = layout_of("auto", 1, 1, 1);
    one.model = model;
    one.to = folder("one-begin");
    one.end = folder("one-end");
    ASSERT_OK(run_on(&one));
    assert_true(one.norms[0] > 0.1); /* it is clipped */
    for (size_t i = 0; i < sizeof MESHES / sizeof MESHES[0]; i++) {
        run r = layout_of(words, MESHES[i][0], MESHES[i][1], MESHES[i][2]);
        r.model = model;
        r.to = folder("begin");
        r.end = folder("end");
        ASSERT_OK(run_on(&r));
        expect_run(words, &r, &one, 3e-6);
        expect_tensors(words, r.to, one.to, "model.safetensors", 0);
        /* (a bias began at 0: it is a sum of the optimizer's steps, and as exact as these) */
        expect_tensors(words, r.end, one.end, "model.safetensors", 3e-6);
        expect_tensors(words, r.end, one.end, "optimizer.safetensors", 2e-5);
        /* what these ranks saved, as weights to begin with: of one process, and of these */
        run again = layout_of(i % 2 ? words : "auto", i % 2 ? 1 : 2, 1, i % 2 ? 2 : 1);
        again.model = model;
        again.from = r.end;
        again.to = folder("again");
        ASSERT_OK(run_on(&again));
        expect_tensors(words, again.to, r.end, "model.safetensors", 0);
    }
}

static void convolutions(void **state)
{
    (void)state;
    as_one_process(CONVOLUTIONS, OWN);
}

static void packed_weights(void **state)
{
    (void)state;
    as_one_process(ATTENTION, OWN);
    as_one_process(GATED, OWN);
    as_one_process(CONVOLUTIONS " " ATTENTION " " GATED, OWN);
}

/* By the plan of the model; of its last block only the class token's row is computed. */
static void the_vit(void **state)
{
    (void)state;
    as_one_process("auto", THE_VIT);
}

static void tied_tables(void **state)
{
    (void)state;
    as_one_process("auto", DECODER);
    as_one_process(EMBEDDING, DECODER);
}

static void refused(const char *words, int tp, const char *says, const char *more)
{
    run r = layout_of(words, 1, 1, tp);
    ASSERT_FAILS(run_on(&r), LS_E_USAGE, says, more);
}

static void what_cannot_be_split(void **state)
{
    (void)state;
    refused("colwise:conv1", 2, "inner.conv2", "takes operand 0");
    refused(ATTENTION, 4, "has 2 heads", "4 ranks of axis tp do not divide");
    refused(GATED, 5, "parts of 24", "5 ranks of axis tp do not divide");
    refused("colwise:attention", 2, "out_proj", "takes operand 0");
    besides = GROUPED_QUERIES;
    refused("colwise:qkv rowwise:out", 2, "meets 2 packed parts", "in parts of equal size");
    besides = GROUPED_CONVOLUTION;
    refused("colwise:groups", 2, "colwise:groups", "cannot split it so");
    besides = RECURRENT;
    refused("colwise:lstm", 2, "lstm", "cannot split it so");
    besides = NORM;
    refused(CONVOLUTIONS, 2, "in norm takes operand 0", "operand 1, which is whole on every rank");
    refused(CONVOLUTIONS " colwise:norm", 2, "in norm takes operand 1",
            "operand 3, which is whole on every rank");
    besides = NOTHING;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions), cmocka_unit_test(packed_weights),       cmocka_unit_test(the_vit),
        cmocka_unit_test(tied_tables),  cmocka_unit_test(what_cannot_be_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
