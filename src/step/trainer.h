/* trainer.h (private) - what the commands need of a trainer beyond include/lockstep/trainer.h: its programs
 * and its session. */
#pragma once
#include <stdatomic.h>

#include "accumulate.h"
#include "base/background.h"
#include "compile.h"
#include "execute/session.h"

/* What any rank may ask of all; it travels with the losses of a step. */
enum {
    LS_REQUEST_STOP = 1, /* end after this step */
    LS_REQUEST_WAIT = 2, /* this rank is still writing its part of a checkpoint */
    LS_REQUEST_TIME = 4, /* as STOP: the time is nearly up */
    LS_REQUEST_SAVE = 8  /* save after this step, and go on */
};

struct ls_trainer {
    ls_compiled compiled;
    ls_session *session;
    ls_tree *trees;                /* per unit */
    ls_group *group;               /* NULL: one rank */
    int session_plan[LS_PROGRAMS]; /* number of each program in the session, -1 if it is not there */
    /* per unit: what this rank holds of its parameters and of their gradients */
    ls_tensor *units, *grads;
    int n_buffers;
    /* state of the model that is not trained, whole: running statistics */
    ls_named_tensor *buffers;
    /* rank 0's have changed since the others were given them; the same on all ranks */
    bool buffers_moved;
    ls_tensor loss, inputs, targets, count, lr, step;
    ls_binding *inputs_at, *targets_at;   /* read where the caller has them while a program runs */
    ls_tensor track;                      /* data NULL when the model has no such input; so with */
    ls_tensor random_seed, sample_places; /* what the masks of dropout follow from, beside `step` */
    ls_tensor eval_rows, eval_predicted, eval_probability; /* the last has data NULL for a language model */
    ls_tensor grad_norm, applied, loss_scale;              /* data NULL when the program has none */
    double *losses;                                        /* of the step's M micro-batches */
    double *exchange;       /* request and losses of this rank, then those of every rank */
    char *staging;          /* compiled.staging_bytes of them; NULL: none */
    ls_background prefault; /* takes their page faults while the process goes on, */
    bool closing;           /* unless this is set; atomic */
    /* ls_trainer_parameters over ranks: all masters, one behind the other; NULL until then */
    void *whole;
    /* LS_REQUEST_ bits: what this rank sets before a step; after it, what any rank had set */
    uint32_t request, requested;
    int64_t step_number;        /* the last step begun, for messages */
    bool ready;                 /* there are weights: ls_trainer_init, or something was loaded */
    bool used;                  /* state may differ from the zeros of fresh memory */
    _Atomic(const void *) user; /* the thread that is in a public function; NULL: none */
    /* behind each program; NULL: nothing */
    void (*after_run)(void *context, struct ls_trainer *t, int program);
    void *context;
};

/* A public function's first lines: LS_E_ARG when another thread is in one of this trainer's. It leaves when
 * the block ends. */
#define LS_TRAINER_USE(t)                                                          \
    __attribute__((cleanup(ls_trainer_leave))) ls_trainer *trainer_in_use_ = NULL; \
    LS_TRY(ls_trainer_enter(&trainer_in_use_, (t), __func__))
ls_status ls_trainer_enter(ls_trainer **entered, ls_trainer *t, const char *function);
void ls_trainer_leave(ls_trainer **entered);

/* Creates the trainer around programs that were compiled before; takes them over. */
ls_status ls_trainer_from_compiled(ls_trainer **out, ls_compiled *compiled, ls_group *group);

/* The two inputs that a batch fills: the targets, "labels" or "targets", and the only other one that is not a
 * number of the step. LS_E_ARG where there are fewer or more. */
ls_status ls_batch_inputs(const ls_graph *g, const char **inputs, const char **targets);

/* LS_E_ARG for `call` ("a step") on a trainer that has no weights yet; the same on all ranks. */
ls_status ls_trainer_needs_weights(const ls_trainer *t, const char *call);
/* Every rank gets rank 0's buffers, where those have changed. Collective; no more than a branch when nothing
 * has. */
ls_status ls_trainer_share_buffers(ls_trainer *t);
