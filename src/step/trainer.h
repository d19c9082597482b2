/* trainer.h (private) - the struct of a trainer: its programs, its session and its state.
 * include/lockstep/trainer.h is the public part. */
#pragma once
#include <stdatomic.h>

#include "accumulate.h"
#include "base/background.h"
#include "compile.h"
#include "execute/session.h"

/* Requests of a rank to all ranks. They are exchanged together with the losses of a step. */
enum {
    LS_REQUEST_STOP = 1, /* end after this step */
    LS_REQUEST_WAIT = 2, /* this rank is still writing its part of a checkpoint */
    LS_REQUEST_TIME = 4, /* end after this step, because the time is nearly up */
    LS_REQUEST_SAVE = 8  /* save after this step and continue */
};

struct ls_trainer {
    ls_compiled compiled;
    ls_session *session;
    ls_tree *trees;                /* per unit */
    ls_group *group;               /* NULL: one rank */
    int session_plan[LS_PROGRAMS]; /* number of each program in the session; -1: not there */
    ls_tensor *units, *grads;      /* per unit: this rank's slice of the parameters, and of their gradients */
    /* Buffers: state of the model that is not trained (running statistics), whole on each rank. */
    int n_buffers;
    ls_named_tensor *buffers;
    bool buffers_moved; /* those of rank 0 have changed since they were broadcast; the same on all ranks */
    /* Inputs and outputs of the programs. A tensor that the programs do not have has data NULL. */
    ls_tensor loss, inputs, targets, count, lr, step;
    ls_binding *inputs_at, *targets_at; /* programs read both in the caller's memory */
    ls_tensor track;
    ls_tensor random_seed, sample_places; /* with `step`, they decide the masks of dropout */
    ls_tensor eval_rows, eval_predicted, eval_probability;
    ls_tensor grad_norm, applied, loss_scale;
    double *losses;             /* of the step's M micro-batches */
    double *exchange;           /* request and losses of this rank, then those of every rank */
    char *staging;              /* compiled.staging_bytes bytes; NULL: none */
    ls_background prefault;     /* prefaults `staging` in another thread */
    bool closing;               /* ends the prefaulting; atomic */
    void *whole;                /* all parameters, whole, one after the other; NULL until they are needed */
    uint32_t request;           /* LS_REQUEST_ bits that this rank sets before a step */
    uint32_t requested;         /* after the step: the bits of all ranks */
    int64_t step_number;        /* of the last step begun, for messages */
    bool ready;                 /* there are weights: ls_trainer_init was called, or something was loaded */
    bool used;                  /* state may differ from the zeros of fresh memory */
    _Atomic(const void *) user; /* the thread that is in a public function; NULL: none */
    /* called after each run of a program; NULL: nothing is called */
    void (*after_run)(void *context, struct ls_trainer *t, int program);
    void *context;
};

/* The first line of a public function. It fails with LS_E_ARG if another thread is in a call on this trainer.
 * The end of the block calls ls_trainer_leave. */
#define LS_TRAINER_USE(t)                                                          \
    __attribute__((cleanup(ls_trainer_leave))) ls_trainer *trainer_in_use_ = NULL; \
    LS_TRY(ls_trainer_enter(&trainer_in_use_, (t), __func__))
ls_status ls_trainer_enter(ls_trainer **entered, ls_trainer *t, const char *function);
void ls_trainer_leave(ls_trainer **entered);

/* Creates a trainer of compiled programs, and takes ownership of them. Collective. */
ls_status ls_trainer_from_compiled(ls_trainer **out, ls_compiled *compiled, ls_group *group);

/* batch.c: the two inputs that a batch fills: the targets, named "labels" or "targets", and the samples, the
 * only other input that is not a number of the step. LS_E_ARG if there are fewer or more. */
ls_status ls_batch_inputs(const ls_graph *g, const char **inputs, const char **targets);

/* LS_E_ARG if the trainer has no weights yet. `call` is the function's name in the message. The same on all
 * ranks. */
ls_status ls_trainer_needs_weights(const ls_trainer *t, const char *call);
/* Broadcasts the buffers of rank 0 if they have changed. Collective. */
ls_status ls_trainer_share_buffers(ls_trainer *t);
