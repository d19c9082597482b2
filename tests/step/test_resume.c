/* test_resume.c - training that is saved on some ranks and continued on others, in other layouts, ends with
 * the bits of training that was never interrupted. The losses and the files of the final checkpoints are
 * compared. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "golden/training.h"
#include "loop/resume.h"
#include "support/mapping.h"
#include "support/ranks.h"
#include "support/small_vit.h"
#include "step/state.h"

enum { STEPS = 12, M = 8, ROWS = 2, PIXELS = 64, SAMPLES = M * ROWS + STEPS };
static const ls_vit_config VIT = { SMALL_VIT };
static uint8_t images[SAMPLES][PIXELS];
static int32_t labels[SAMPLES];

static int make_data(void **state)
{
    (void)state;
    draw_stripes(SAMPLES, images[0], labels);
    return 0;
}

/* Steps first .. last-1 of one process (or its ranks): from a checkpoint or from the start, ending in a
 * checkpoint. */
typedef struct leg {
    ls_trainer_opts o;
    int first, last;
    const char *from, *to;
    double *losses;
} leg;
static bool per_rank; /* the checkpoint that a leg ends in has a file for each rank */

static ls_status train(ls_group *g, const leg *l, ls_trainer *t)
{
    uint8_t mine[M][ROWS][PIXELS];
    int32_t mine_labels[M][ROWS];
    const ls_share share = t->compiled.share;
    LS_TRY(l->from ? ls_trainer_load_checkpoint(t, l->from) : ls_trainer_init(t, 5));
    for (int step = l->first; step < l->last; step++) {
        for (int64_t k = 0; k < share.count; k++)
            for (int r = 0; r < ROWS; r++) {
                const int64_t sample = step + share.first + k * share.stride + r * M;
                memcpy(mine[k][r], images[sample], PIXELS);
                mine_labels[k][r] = labels[sample];
            }
        ls_step_result result;
        LS_TRY(ls_trainer_step(t, &mine[0][0][0], &mine_labels[0][0], M * ROWS, 1e-2 / (1 + step), &result));
        if (ls_group_rank(g) == 0)
            l->losses[step] = result.loss;
    }
    const ls_checkpoint_contents texts = { .config = "{}", .trainer = "{}", .per_rank = per_rank };
    return ls_trainer_save_state(t, l->to, &texts, NULL);
}

static ls_status rank(ls_group *g, void *context)
{
    const leg *l = context;
    ls_trainer_opts o = l->o;
    ls_trainer *t;
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    LS_TRY(ls_trainer_create_with(&t, training_build_vit, &VIT, &o));
    const ls_status s = train(g, l, t);
    ls_trainer_destroy(&t);
    return s;
}

typedef struct layout {
    int dp, shard;
    ls_data_parallel data;
    const char *units;
    ls_gather_choice gather;
    ls_offload_choice offload;
} layout;
static const layout LAYOUTS[] = {
    { 1, 0, LS_DATA_FSDP, "none", LS_GATHER_AUTO, LS_OFFLOAD_NONE },
    { 2, 0, LS_DATA_FSDP, "class:EncoderBlock", LS_GATHER_MAP, LS_OFFLOAD_NONE },
    { 4, 0, LS_DATA_DDP, "none", LS_GATHER_AUTO, LS_OFFLOAD_NONE },
    { 2, 2, LS_DATA_HYBRID, "size:500", LS_GATHER_COPY, LS_OFFLOAD_NONE },
    { 4, 0, LS_DATA_FSDP, "size:1000", LS_GATHER_COPY, LS_OFFLOAD_CPU },
    { 2, 0, LS_DATA_DDP, "class:EncoderBlock", LS_GATHER_AUTO, LS_OFFLOAD_NONE },
    { 2, 2, LS_DATA_FSDP, "pattern:encoder.layers.*", LS_GATHER_MAP, LS_OFFLOAD_NONE },
};
enum { N_LAYOUTS = sizeof LAYOUTS / sizeof LAYOUTS[0] };

/* Optimizers with all the state that there is; clipping; f16 with its loss scale, whose first steps overflow.
 */
static ls_trainer_opts options(int kind, const layout *w)
{
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = ROWS, .micro_batches = M };
    o.parallel.mesh = (ls_mesh){ .n = w->shard ? 2 : 1, .axes = { { "dp", w->dp }, { "shard", w->shard } } };
    o.parallel.data = w->data;
    o.parallel.units = w->units;
    o.parallel.gather = mapping_or_auto(w->gather);
    o.parallel.offload = w->offload;
    o.parallel.bucket_bytes = 4000;
    if (kind == 1) {
        o.optimizer = (ls_optimizer){
            .kind = LS_SGD, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-3
        };
        o.clip_norm = 0.5;
        o.freeze = "conv_proj encoder.layers.encoder_layer_1.mlp";
    } else if (kind == 2) {
        o.param = LS_F16;
        o.optimizer.kind = LS_ADAMW;
        o.optimizer.weight_decay = 1e-2;
    } else if (kind == 3) {
        static const ls_optimizer_group GROUPS[] = {
            { LS_OPTIMIZER_GROUP_DEFAULTS, .match = "class:LayerNorm pattern:*.bias", .weight_decay = 0 }
        };
        o.optimizer.kind = LS_LION;
        o.optimizer.weight_decay = 1e-2;
        o.ema_decay = 0.9;
        o.groups = GROUPS;
        o.n_groups = 1;
    } else if (kind > 3) {
        static const ls_optimizer_group HEAD = { LS_OPTIMIZER_GROUP_DEFAULTS, .match = "pattern:heads.*",
                                                 .adamw = true };
        o.optimizer.kind = kind == 4 ? LS_MUON : LS_ADAFACTOR;
        o.optimizer.weight_decay = 1e-2;
        o.clip_norm = 0.5;
        o.groups = &HEAD;
        o.n_groups = kind == 4;
        o.parallel.offload = LS_OFFLOAD_NONE; /* refused with these */
    }
    return o;
}

static void run_leg(leg *l)
{
    const int ranks = (int)ls_mesh_ranks(&l->o.parallel.mesh);
    if (run_ranks(ranks, rank, l) != LS_OK)
        fail_msg("steps %d to %d on %d ranks: %s", l->first, l->last, ranks, ls_error_message());
}

static const char *folder(char path[512], const char *name, int i)
{
    char numbered[64];
    snprintf(numbered, sizeof numbered, "%s-%d", name, i);
    snprintf(path, 512, "%s", ls_test_path(numbered));
    return path;
}

static void interrupted_is_undisturbed(void **state)
{
    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        double whole[STEPS], parts[STEPS];
        char end[512], a[512], b[512];
        leg l = { options(kind, &LAYOUTS[0]), 0, STEPS, NULL, folder(end, "whole", kind), whole };
        run_leg(&l);
        assert_true(isfinite(whole[STEPS - 1]) && whole[0] != whole[STEPS - 1]);
        /* a chain through every layout; one kind of run begins on one rank, another on two, ... */
        for (int i = 0, first = 0; i < N_LAYOUTS; i++) {
            const int last = i + 1 == N_LAYOUTS ? STEPS : first + 1 + i % 2;
            leg next = { options(kind, &LAYOUTS[(i + kind) % N_LAYOUTS]),
                         first,
                         last,
                         i ? a : NULL,
                         folder(b, "part", 10 * kind + i),
                         parts };
            per_rank = (i + kind) % 2 && i + 1 < N_LAYOUTS;
            run_leg(&next);
            per_rank = false;
            first = last;
            memcpy(a, b, sizeof a);
        }
        for (int k = 0; k < STEPS; k++)
            if (parts[k] != whole[k])
                fail_msg("kind %d: loss of step %d is %.17g, undisturbed %.17g", kind, k, parts[k], whole[k]);
        ls_test_same_file(end, b, "model.safetensors");
        ls_test_same_file(end, b, "optimizer.safetensors");
    }
}

/* What a checkpoint holds, by the names that others know. */
static void names(void **state)
{
    (void)state;
    char dir[512];
    double losses[STEPS];
    leg l = { options(2, &LAYOUTS[3]), 0, 2, NULL, folder(dir, "names", 0), losses };
    run_leg(&l);
    ls_checkpoint c;
    ASSERT_OK(ls_checkpoint_open(&c, dir, LS_VERIFY_FULL, NULL));
    assert_int_equal(ls_weights_count(c.optimizer), 2 * ls_weights_count(c.weights) + 3);
    for (int64_t i = 0; i < ls_weights_count(c.weights); i++) {
        const ls_weight *p = ls_weights_at(c.weights, i);
        for (int k = 0; k < 2; k++) {
            char name[256];
            snprintf(name, sizeof name, "%s.%s", k ? "exp_avg_sq" : "exp_avg", p->name);
            const ls_weight *m = ls_weights_find(c.optimizer, name);
            assert_non_null(m);
            assert_true(ls_type_equal(&m->type, &p->type));
        }
    }
    int64_t step;
    float scale;
    ASSERT_OK(ls_weight_read(ls_weights_find(c.optimizer, "step"), LS_I64, &step));
    ASSERT_OK(ls_weight_read(ls_weights_find(c.optimizer, "loss_scale"), LS_F32, &scale));
    assert_true(step >= 0 && step <= 2 && scale > 0);
    assert_non_null(ls_weights_find(c.optimizer, "loss_scale_good_steps"));
    ls_checkpoint_release(&c);
}

/* Another optimizer, or only weights: refused before anything is touched. */
static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    char dir[512], other[512], plain[512];
    double losses[STEPS];
    leg l = { options(0, &LAYOUTS[1]), 0, 1, NULL, folder(dir, "adam", 0), losses };
    run_leg(&l);
    leg sgd = { options(1, &LAYOUTS[1]), 1, 2, dir, folder(other, "sgd", 0), losses };
    assert_true(run_ranks(2, rank, &sgd) != LS_OK);
    ASSERT_CONTAINS(ls_error_message(), "optimizer.safetensors does not fit");
    ASSERT_CONTAINS(ls_error_message(), "momentum_buffer");
    const ls_type type = LS_TYPE(LS_F32, 1);
    float x = 1;
    ASSERT_OK(ls_checkpoint_save(
        folder(plain, "plain", 0),
        &(ls_checkpoint_contents){ "{}", "{}",
                                   .model = { .n = 1,
                                              .tensors = &(ls_named_tensor){ "w", ls_tensor_of(&x, &type) },
                                              .mine = &(ls_range){ .count = 1, .data = &x } } },
        NULL, NULL));
    leg weights = { options(0, &LAYOUTS[0]), 1, 2, plain, other, losses };
    ASSERT_FAILS(run_ranks(1, rank, &weights), LS_E_FORMAT, "without optimizer state", "ls_trainer_load");
    /* a run says what to do in words of its recipe */
    static const char TEXT[] = "model: {type: mlp}\ndata: {type: shapes}\n";
    ls_recipe *r;
    ls_trainer alone = { 0 };
    ls_resume_point point;
    ls_resume_change change = { 0 };
    ASSERT_OK(ls_recipe_load_text(&r, TEXT, strlen(TEXT), "here.yaml", 0, NULL));
    ASSERT_FAILS(ls_resume_load(&point, &change, plain, &alone, r, &(ls_resume_now){ 0 }), LS_E_FORMAT,
                 "plain-0 holds weights without optimizer state", "--set model.init=");
    ls_recipe_destroy(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interrupted_is_undisturbed),
        cmocka_unit_test(names),
        cmocka_unit_test(refuses_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, make_data, NULL);
}
