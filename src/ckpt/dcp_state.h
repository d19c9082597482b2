/* dcp_state.h - the model and the optimizer that a PyTorch program has saved in a DCP directory, so that a
 * trainer can continue from it. */
#pragma once
#include "ckpt/dcp.h"

/* A setting of one of the optimizer's groups of parameters. */
typedef struct ls_dcp_group_setting {
    /* number of the group, or (with flatten_optimizer_state_dict) the name of a parameter */
    const char *group;
    ls_dcp_setting is;
} ls_dcp_group_setting;

typedef struct ls_dcp_member {
    const char *group, *parameter;
} ls_dcp_member;

typedef struct ls_dcp_state {
    const char *dir, *prefix; /* owned by the caller */
    ls_weights *model;
    /* tensors "exp_avg.NAME" and so on, and "step.NAME" */
    ls_weights *optimizer;
    bool numbered; /* the directory has numbers for the optimizer's parameters instead of names */
    int64_t steps; /* steps that the optimizer has made; -1: it does not count them */
    ls_arena arena;
    /* which parameters a group has, where the directory names them */
    int64_t n_members;
    ls_dcp_member *members;
    int64_t n;
    ls_dcp_group_setting *settings; /* settings that are plain values: numbers, pairs, flags, None */
} ls_dcp_state;

/* Opens the model. prefix: what the names begin with ("app."); NULL: nothing. */
ls_status ls_dcp_state_open(ls_dcp_state *s, const char *dir, const char *prefix);
/* Then opens the optimizer. `parameters` are the model's, in the order of s->model. LS_E_FORMAT if its
 * parameters have made different numbers of steps; LS_E_UNSUPPORTED if there is no optimizer, or if it
 * numbers parameters in a way that does not tell which is which. */
ls_status ls_dcp_state_optimizer(ls_dcp_state *s, int64_t n, const char *const *parameters);
double ls_dcp_state_rate(const ls_dcp_state *s); /* the learning rate of its last group; NAN: none */
void ls_dcp_state_release(ls_dcp_state *s);
