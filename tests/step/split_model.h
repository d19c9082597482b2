/* split_model.h - a small Qwen2 that is trained over a mesh, for the tests of split layers. */
#pragma once
#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "lockstep/models.h"
#include "passes/passes.h"
#include "support/ranks.h"
#include "step/trainer.h"

enum { STEPS = 6, M = 4, ROWS = 2, TOKENS = 8, VOCABULARY = 24 };
static const ls_decoder_config QWEN = { .seq_length = TOKENS,
                                        .vocab_size = VOCABULARY,
                                        .hidden_size = 24,
                                        .mlp_size = 40,
                                        .layers = 2,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .head_dim = 6,
                                        .norm_eps = 1e-6,
                                        .rope_theta = 1e4,
                                        .init_deviation = 0.1,
                                        .tied = true,
                                        .qkv_bias = true,
                                        .output_bias = true,
                                        .mlp_bias = true,
                                        .block = "Block" };

ls_status build_decoder(ls_graph *g, const void *config, int64_t batch);
ls_status build_t5(ls_graph *g, const void *config, int64_t batch); /* a small one: config is not read */

#define LAYERS                                                                                       \
    "colwise:q_proj colwise:k_proj colwise:v_proj colwise:gate_proj colwise:up_proj rowwise:o_proj " \
    "rowwise:down_proj"
#define EMBEDDING "rowwise:embed_tokens"
#define HEAD "colwise:lm_head"
#define MLP "colwise:gate_proj colwise:up_proj rowwise:down_proj"

typedef struct job {
    ls_trainer_opts o;
    ls_decoder_config model;
    ls_build_fn build;       /* of the model's configuration; NULL: build_decoder */
    const char *save, *load; /* checkpoint folders */
    const char *weights;     /* a file to begin with */
    int first, end;          /* step to begin with, and to end before; end 0: STEPS */
    const char *parameters;  /* only saves them in this file */
    double losses[STEPS], norms[STEPS];
    int32_t predicted[ROWS * TOKENS]; /* by the initial weights */
    float rows[ROWS * TOKENS];
} job;

ls_mesh mesh_of(const char *axes); /* "dp2 cp4" */
job layout(int dp, int shard, int tp, ls_data_parallel data);

void run_job(job *j);
