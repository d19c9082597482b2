/* trainer.h (private) - what the commands need of a trainer beyond include/lockstep/trainer.h: its programs and its session. */
#pragma once
#include "accumulate.h"
#include "compile.h"
#include "run/session.h"

struct ls_trainer {
    ls_compiled compiled;
    ls_session *session;
    ls_tree tree;
    ls_group *group;                     /* NULL: one rank */
    int session_plan[LS_PROGRAMS];       /* number of each program in the session, -1 if it is not there */
    ls_tensor unit, grad, loss, images, labels, count, lr, step;
    ls_tensor eval_rows, eval_predicted, eval_probability;
    ls_tensor grad_norm, applied, loss_scale; /* data NULL when the program has none */
    bool used;                           /* state may differ from the zeros of fresh memory */
    void (*after_run)(void *context, struct ls_trainer *t, int program); /* behind each program; NULL: nothing */
    void *context;
};

/* Creates the trainer around programs that were compiled before; takes them over. */
ls_status ls_trainer_from_compiled(ls_trainer **out, ls_compiled *compiled);
