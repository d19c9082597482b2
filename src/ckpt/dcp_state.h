/* dcp_state.h - what a training program of PyTorch's has saved in a DCP directory of its model and its
 * optimizer, for a trainer to go on from. */
#pragma once
#include "ckpt/dcp.h"

/* One setting of one of the optimizer's groups of parameters. */
typedef struct ls_dcp_group_setting {
    const char *group; /* its number or, as with flatten_optimizer_state_dict, the name of a parameter */
    ls_dcp_setting is;
} ls_dcp_group_setting;

typedef struct ls_dcp_state {
    const char *dir, *prefix; /* the caller's */
    ls_weights *model;
    /* "exp_avg.NAME" and the like, and "step.NAME" */
    ls_weights *optimizer;
    bool numbered; /* the directory numbers the parameters of the optimizer */
    int64_t steps; /* that the optimizer has made; -1: it does not count them */
    ls_arena arena;
    int64_t n;
    ls_dcp_group_setting *settings; /* plain ones: numbers, pairs, flags, None */
} ls_dcp_state;

/* Opens the model. prefix "app.": of the names; NULL: none. */
ls_status ls_dcp_state_open(ls_dcp_state *s, const char *dir, const char *prefix);
/* Then the optimizer; `parameters` are those of the model in the order of s->model. LS_E_FORMAT where its
 * parameters have made different numbers of steps; LS_E_UNSUPPORTED where there is none, or where it numbers
 * parameters in a way that does not tell which they are. */
ls_status ls_dcp_state_optimizer(ls_dcp_state *s, int64_t n, const char *const *parameters);
void ls_dcp_state_release(ls_dcp_state *s);
