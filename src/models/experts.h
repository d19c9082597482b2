/* experts.h - a mixture of experts (Shazeer et al. 2017): a router sends each token to the k of several gated
 * MLPs, the experts, that it finds most probable. Nothing is dropped: k rows of each token are computed,
 * however they fall on the experts. */
#pragma once
#include "lockstep/graph.h"

typedef struct ls_experts_config {
    int64_t experts, per_token, size; /* size: inside an expert */
    bool normalize;                   /* the probabilities of a token's experts are divided by their sum */
    /* layers of an expert: "gate_proj", "up_proj", "down_proj"; the router is "gate", and expert number N
     * "experts.N" */
    const char *gate, *up, *down;
    ls_init weight;
} ls_experts_config;

/* How evenly the routers of several layers spread the tokens of each sample; all 0 at the beginning. */
typedef struct ls_experts_balance {
    ls_value chosen, probable; /* [batch, experts]: rows sent to an expert, and its probabilities added up */
    int64_t routed;            /* tokens of a sample in all layers */
    int64_t per_token;         /* rows of each */
} ls_experts_balance;

/* A layer that says where a token goes, x [.., in] -> [.., out], without bias. It is not a ls_linear:
 * adapters and 4 bits leave it as it is. */
ls_value ls_router(ls_graph *g, const char *name, ls_value x, int64_t out, ls_init weight);

/* x [batch, tokens, hidden] -> the same: each token's experts added up, weighted by their probabilities. */
ls_value ls_experts(ls_graph *g, ls_value x, const ls_experts_config *c, ls_experts_balance *balance);

/* Rows [batch]: transformers' load_balancing_loss_func of each sample, experts * sum of (share of rows) *
 * (mean probability). per_token when the rows are spread evenly; up to `experts` when they are not. */
ls_value ls_experts_balance_rows(ls_graph *g, const ls_experts_balance *b);
/* Rows [batch]: those that the busiest expert got, over the same number if they are spread evenly: 1 and
 * more. */
ls_value ls_experts_busiest_rows(ls_graph *g, const ls_experts_balance *b);
