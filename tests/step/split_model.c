/* split_model.c - see split_model.h. */
#include "step/split_model.h"
#include <stdio.h>
#include <string.h>

#include "support/support.h"
#include "step/state.h"

ls_status build_decoder(ls_graph *g, const void *config, int64_t batch)
{
    return ls_decoder_build(g, config, batch);
}

ls_status build_t5(ls_graph *g, const void *config, int64_t batch)
{
    static const ls_t5_config T5 = { .source_length = TOKENS,
                                     .target_length = TOKENS,
                                     .vocab_size = VOCABULARY,
                                     .hidden_size = 16,
                                     .mlp_size = 24,
                                     .layers = 1,
                                     .decoder_layers = 2,
                                     .heads = 4,
                                     .head_dim = 6,
                                     .buckets = 8,
                                     .max_distance = 6,
                                     .norm_eps = 1e-6,
                                     .init_factor = 1,
                                     .tied = true };
    (void)config;
    return ls_t5_build(g, &T5, batch);
}

static ls_status evaluate(ls_group *g, job *j, ls_trainer *t)
{
    int32_t ids[ROWS * TOKENS], targets[ROWS * TOKENS], predicted[ROWS * TOKENS];
    float rows[ROWS * TOKENS];
    for (int i = 0; i < ROWS * TOKENS; i++) {
        ids[i] = 5 * i % VOCABULARY;
        targets[i] = i % 5 ? 7 * i % VOCABULARY : -100;
    }
    LS_TRY(ls_trainer_eval(t, ids, targets, rows, predicted, NULL));
    for (int i = 0; i < ROWS * TOKENS; i++)
        RANK_CHECK(i % 5 ? rows[i] > 0 : rows[i] == 0);
    if (ls_group_rank(g) == 0) {
        memcpy(j->rows, rows, sizeof rows);
        memcpy(j->predicted, predicted, sizeof predicted);
    }
    return LS_OK;
}

static ls_status begin(const job *j, ls_trainer *t)
{
    ls_weights *w;
    if (!j->weights)
        return j->load ? ls_trainer_load_checkpoint(t, j->load) : ls_trainer_init(t, 3);
    LS_TRY(ls_weights_open(&w, j->weights));
    const ls_status s = ls_trainer_load(t, w);
    ls_weights_close(&w);
    return s;
}

static ls_status train(ls_group *g, job *j, ls_trainer *t)
{
    const ls_share share = t->compiled.share;
    int32_t ids[M][ROWS * TOKENS], targets[M][ROWS * TOKENS];
    LS_TRY(begin(j, t));
    LS_TRY(evaluate(g, j, t));
    for (int step = j->first; step < (j->end ? j->end : STEPS); step++) {
        for (int64_t k = 0; k < share.count; k++)
            for (int i = 0; i < ROWS * TOKENS; i++) {
                const int64_t at = (share.first + k * share.stride) * ROWS * TOKENS + i + 31 * step;
                ids[k][i] = (int32_t)(at * at % VOCABULARY);
                targets[k][i] = i % 5 ? (int32_t)((at + 1) * (at + 1) % VOCABULARY) : -100;
            }
        ls_step_result r;
        LS_TRY(ls_trainer_step(t, ids, &targets[0][0], M * (ROWS * TOKENS - 3), 1e-2, &r));
        double all[64];
        LS_TRY(ls_group_all_gather(g, &r.loss, sizeof r.loss, all));
        for (int k = 0; k < ls_group_size(g); k++)
            RANK_CHECK(all[k] == r.loss);
        if (ls_group_rank(g) == 0) {
            j->losses[step] = r.loss;
            j->norms[step] = r.grad_norm;
        }
        if (j->save && step == STEPS / 2 - 1)
            LS_TRY(ls_trainer_save_state(t, j->save,
                                         &(ls_checkpoint_contents){ .config = "{}", .trainer = "{}" }, NULL));
    }
    return LS_OK;
}

static ls_status save_parameters(ls_trainer *t, const char *path)
{
    LS_TRY(ls_trainer_init(t, 3));
    return ls_trainer_save(t, path);
}

static ls_status rank(ls_group *g, void *context)
{
    job *j = context;
    ls_trainer_opts o = j->o;
    ls_trainer *t;
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    LS_TRY(ls_trainer_create_with(&t, j->build ? j->build : build_decoder, &j->model, &o));
    const ls_status s = j->parameters ? save_parameters(t, j->parameters) : train(g, j, t);
    ls_trainer_destroy(&t);
    return s;
}

ls_mesh mesh_of(const char *axes)
{
    ls_mesh m = { 0 };
    for (int n = 0, size; sscanf(axes, "%23[a-z]%d %n", m.axes[m.n].name, &size, &n) == 2; axes += n)
        m.axes[m.n++].size = size;
    return m;
}

job layout(int dp, int shard, int tp, ls_data_parallel data)
{
    job j = { .o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = ROWS, .micro_batches = M,
                     .clip_norm = 0.5 },
              .model = QWEN };
    j.o.parallel.mesh = (ls_mesh){ .n = 3, .axes = { { "dp", dp }, { "shard", shard }, { "tp", tp } } };
    j.o.parallel.data = data;
    j.o.parallel.units = "class:Block";
    return j;
}

void run_job(job *j) { ASSERT_OK(run_ranks((int)ls_mesh_ranks(&j->o.parallel.mesh), rank, j)); }
