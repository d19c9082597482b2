/* trainer.h (private) - the struct of a trainer: its programs, its session and its state.
 * include/lockstep/trainer.h is the public part. */
#pragma once
#include <stdatomic.h>

#include "accumulate.h"
#include "base/arena.h"
#include "base/background.h"
#include "ckpt/pieces.h"
#include "compile.h"
#include "execute/session.h"
#include "data/loader.h"

/* Requests of a rank to all ranks. They are exchanged together with the losses of a step. */
enum {
    LS_REQUEST_STOP = 1, /* end after this step */
    LS_REQUEST_WAIT = 2, /* this rank is still writing its part of a checkpoint */
    LS_REQUEST_TIME = 4, /* end after this step, because the time is nearly up */
    LS_REQUEST_SAVE = 8  /* save after this step and continue */
};

/* An input of the programs that takes a field of the samples. */
typedef struct ls_trainer_field {
    const char *name;
    ls_place own;   /* place of one micro-batch; a field of evaluations alone has its type */
    ls_binding *at; /* programs may read it in the caller's memory; NULL: no step reads it */
    ls_place eval;  /* the same of a batch of an evaluation, which may be larger or smaller */
    ls_binding *eval_at;
    char *put; /* copies of ls_trainer_put, of this rank's share of a step; NULL: nothing yet */
    /* samples in f32 converted for an input in f64, or the other way round; NULL: none yet */
    char *converted;
    int64_t put_to; /* one more than the last sample that was put since the last step */
} ls_trainer_field;

/* A state of the model that is not trained. */
typedef struct ls_trainer_buffer {
    const char *name;
    ls_place place;
} ls_trainer_buffer;

/* A further part of a trainer's checkpoint, live.safetensors: a queue of samples (src/live). */
typedef struct ls_trainer_guest {
    void *context;
    ls_status (*check)(void *context); /* whether it can be saved now; the same on all ranks. Local */
    /* Lists this rank's part; `out` and the memory that it points to lie in the arena. Collective. */
    ls_status (*save)(void *context, ls_arena *arena, ls_tensor_list *out);
    /* Reads it from checkpoint `dir`; w NULL: the checkpoint has none. Local. */
    ls_status (*load)(void *context, const ls_weights *w, const char *dir);
    void (*gone)(void *context); /* the trainer is destroyed */
} ls_trainer_guest;

/* The step's samples of one field: this rank's micro-batches, contiguous. */
typedef struct ls_fed {
    const void *data;
    ls_dtype type;
    int64_t count; /* entries that count in the step, over all ranks; -1: not known */
} ls_fed;

/* The states that `micro` changes in place (running statistics of batch norm), and copies of them from
 * before the step. */
typedef struct ls_undo {
    int n;
    ls_place *now; /* the copies are spares of the session (spares.h) */
    bool moved;    /* ls_trainer.buffers_moved before the step */
} ls_undo;

/* A number in the type of its place, f32 or f64. */
typedef union ls_number {
    float narrow;
    double wide;
} ls_number;

/* The numbers that are put for a micro-batch, and fetched from it. A step waits once, at its end, so each of
 * its micro-batches has memory of its own. */
typedef struct ls_micro_numbers {
    int32_t real, track;
    int64_t places[2];
    ls_number *divisor, *loss; /* [objective.n_losses]; [losses] */
} ls_micro_numbers;

struct ls_trainer {
    ls_compiled compiled;
    ls_session *session;
    ls_tree *trees;                /* per unit */
    ls_group *group;               /* NULL: one rank */
    int session_plan[LS_PROGRAMS]; /* number of each program in the session; -1: not there */
    ls_place *units, *grads;       /* per unit: this rank's slice of the parameters, and of their gradients */
    ls_place *weights;             /* per unit: its weights (ls_unit.weights); no place: it has none */
    const ls_kernel *round;        /* the cast that fills them; NULL: there are none */
    ls_cast_attrs *round_to;       /* per unit: its argument */
    /* Buffers: state of the model that is not trained (running statistics), whole on each rank. */
    int n_buffers;
    ls_trainer_buffer *buffers;
    char *shared_buffers; /* of several ranks: all buffers, concatenated for the broadcast */
    bool buffers_moved;   /* the buffers of rank 0 changed after the last broadcast; all ranks agree */
    ls_undo undo;         /* the values that a skipped step puts back */
    /* Inputs and outputs of the programs. If the programs lack one, its place has no session. */
    ls_place lr, step, largest_loss;
    /* Those of `micro`, for each micro-batch that a run of it computes. */
    ls_place *real, *track, *sample_places; /* [unrolled] */
    int32_t eval_real;                      /* of the batch that is evaluated */
    ls_place *loss;    /* [unrolled][losses]: the objective; with several losses then each of them */
    ls_place *divisor; /* [unrolled][objective.n_losses] */
    ls_place *rows;    /* [objective.n]: of an evaluation */
    ls_place *targets; /* [objective.n]: the same; of terms that have any */
    int losses;
    int n_fields;
    ls_trainer_field *fields;
    ls_fed *fed;     /* [n_fields]: of the running step */
    int64_t *own;    /* [micro-batches of this rank]: samples of each that are not padding */
    double *sums;    /* [micro-batches of this rank][objective.n_losses + 1]: their parts of the divisors */
    double *total;   /* [objective.n_losses + 1]: the divisors of the step */
    int64_t samples; /* of the step, over all ranks; -1: only its targets are known */
    ls_metric *each; /* [objective.n_losses]: with several losses, the value of each in the last step */
    ls_place random_seed; /* with `step` and `sample_places`, it decides the masks of dropout */
    ls_place eval_predicted, eval_probability;
    ls_place grad_norm, applied, loss_scale;
    double *loss_of;         /* [M][losses]: of the step's micro-batches */
    ls_micro_numbers *micro; /* [micro-batches of this rank] */
    ls_number *numbers;      /* the memory of theirs */
    struct {                 /* of `update`, in the same way */
        ls_number lr, grad_norm, scale_before, loss_scale;
        int32_t applied;
    } of_update;
    double *exchange;        /* this rank's message, then the messages of all ranks */
    char *staging;           /* compiled.staging_bytes bytes; NULL: none */
    ls_background prefault;  /* prefaults `staging` in another thread */
    bool closing;            /* ends the prefaulting; atomic */
    void *whole;             /* all parameters, whole, one after the other; NULL until they are needed */
    ls_trainer_guest *guest; /* NULL: none */
    bool left_behind;        /* a checkpoint with a guest's part was loaded while there was no guest */
    bool taken;              /* ls_live_fill has put the samples of the next step */
    int64_t taken_samples;   /* their number */
    bool has_put;            /* ls_trainer_run has had a sample of this rank */
    uint32_t request;        /* LS_REQUEST_ bits that this rank sets before a step */
    uint32_t requested;      /* after the step: the bits of all ranks */
    int64_t step_number;     /* of the last step begun, for messages */
    double last_lr; /* the learning rate of the last step, also of a loaded one; NAN: none is known */
    /* Consecutive skipped steps: `skips` counts all, with overflows of f16; `bad_skips` counts without
     * these. A step that was applied sets both to 0. */
    int64_t skips, bad_skips;
    bool averaged;              /* the parameters are their averages (ls_trainer_exchange_ema) */
    bool rounded;               /* the weights are the parameters, rounded */
    bool ready;                 /* there are weights: ls_trainer_init was called, or something was loaded */
    bool used;                  /* state may differ from the zeros of fresh memory */
    _Atomic(const void *) user; /* the thread that is in a public function; NULL: none */
    /* called after each run of a program, which then waits for it; NULL: nothing is called */
    void (*after_run)(void *context, struct ls_trainer *t, int program);
    void *context;
};

/* The first line of a public function. It fails with LS_E_ARG if another thread is in a call on this trainer.
 * The end of the block calls ls_trainer_leave. */
#define LS_TRAINER_USE(t)                                                          \
    __attribute__((cleanup(ls_trainer_leave))) ls_trainer *trainer_in_use_ = NULL; \
    LS_TRY(ls_trainer_enter(&trainer_in_use_, (t), __func__))
/* Lists parameters and buffers, whole on every rank: where they lie in the session or, where ranks have parts
 * of them, in a copy. Also after a failure, ls_trainer_forget_whole releases list and copy. Collective. */
ls_status ls_trainer_whole(ls_trainer *t, ls_tensor_list *out);
void ls_trainer_forget_whole(ls_trainer *t, ls_tensor_list *l); /* local */
/* Whether this rank has losses, metrics and predictions: in a pipeline those of the last stage do. */
static inline bool ls_trainer_has_results(const ls_trainer *t)
{
    const ls_sharding *s = &t->compiled.units.sharding;
    return s->stage >= s->stages - 1;
}
/* Tells an evaluation whose rows compare samples how many of the batch are not padding. What it puts must
 * stay until the session has waited, so not before that again. */
ls_status ls_trainer_put_real(ls_trainer *t, int64_t real);
ls_status ls_trainer_enter(ls_trainer **entered, ls_trainer *t, const char *function);
void ls_trainer_leave(ls_trainer **entered);

/* create.c: creates a trainer of compiled programs, and takes ownership of them. Collective. */
ls_status ls_trainer_from_compiled(ls_trainer **out, ls_compiled *compiled, ls_group *group);

/* fields.c: lists the inputs of the programs that take fields. */
ls_status ls_trainer_bind_fields(ls_trainer *t);
int ls_trainer_field_find(const ls_trainer *t, const char *name); /* -1: none */
/* Samples for which this rank's share of a step has room; bytes of one. */
int64_t ls_trainer_room(const ls_trainer *t);
size_t ls_trainer_sample_bytes(const ls_trainer *t, const ls_trainer_field *f);
/* input.c: finds a field by its name; makes room for the samples that are put. */
ls_status ls_trainer_put_find(int *out, const ls_trainer *t, const char *name, const char *call);
ls_status ls_trainer_put_room(const ls_trainer *t, ls_trainer_field *f);
/* Gives t->fed the fields of a loader's step, or the two of a classifier or a language model. */
ls_status ls_trainer_feed(ls_trainer *t, const ls_loader_step *b);
ls_status ls_trainer_feed_pair(ls_trainer *t, const void *inputs, const int32_t *targets, int64_t count,
                               const char *call);
/* Lets `micro` read micro-batch k of the samples that were fed, or `eval` its batch (k -1). With `unfeed`
 * they read their own memory again, so no pointer to the caller's memory is kept. */
ls_status ls_trainer_fill(ls_trainer *t, int64_t k);
void ls_trainer_unfeed(ls_trainer *t);
/* Bytes of a micro-batch's fields. */
size_t ls_field_bytes(const ls_graph *g);

/* divisors.c: finds t->own and t->total, the divisors of a step with `samples` samples over all ranks. -1:
 * all micro-batches of this rank are whole, and the other ranks send their counts. Sends a message if it
 * needs one. *nothing: all divisors are 0. */
ls_status ls_trainer_divisors(ls_trainer *t, int64_t samples, bool *nothing);
/* trainer.c: the check at the beginning of every step, and a step on the samples that were fed; `samples` as
 * for the divisors. */
ls_status ls_trainer_check_step(const ls_trainer *t, double lr, const char *call);
ls_status ls_trainer_step_fed(ls_trainer *t, int64_t samples, double lr, ls_step_result *r);
/* LS_E_ARG if a trainer without padding gets fewer samples than `room`. */
ls_status ls_trainer_check_whole(const ls_trainer *t, int64_t samples, int64_t room);
/* One run of the evaluation program on the samples that were fed. */
ls_status ls_trainer_eval_fed(ls_trainer *t);

/* micro.c: one run of a program. It is complete after the next ls_session_wait. */
ls_status ls_trainer_program(ls_trainer *t, int program);
/* Runs this rank's micro-batch k. Its losses go to t->micro[k].loss, its gradients to t->grads. */
ls_status ls_trainer_micro(ls_trainer *t, int64_t k);
/* Fails with LS_E_NUMERIC: its message gives the reason why the step was not applied. To find it,
 * micro-batches run again and every value is checked. The same on all ranks. Collective. */
ls_status ls_trainer_explain(ls_trainer *t, ls_skip why);
const char *ls_skip_name(ls_skip s); /* the number that was not finite, or another reason: "loss" */
/* Puts x in a place of f32 or f64; fetches it. `room` must stay until the wait. */
ls_status ls_put_number(const ls_place *p, ls_number *room, double x);
ls_status ls_fetch_number(const ls_place *p, ls_number *room);
double ls_number_of(const ls_place *p, const ls_number *room);
ls_status ls_get_scalar(const ls_place *p, double *x); /* fetches a number and waits */

/* undo.c: finds the states that `micro` changes in place; puts copies of them into the queue; puts the
 * copies back. */
ls_status ls_trainer_undo_bind(ls_trainer *t);
void ls_trainer_undo_keep(ls_trainer *t);
void ls_trainer_undo(ls_trainer *t);
void ls_undo_release(ls_undo *k);

/* initial.c: gives the states of the programs their initial values, and the masks of dropout their seed. */
ls_status ls_trainer_init_states(ls_trainer *t, ls_pieces *p);
ls_status ls_trainer_put_seed(ls_trainer *t, uint64_t seed);

/* fit.c: ls_trainer_fit for the fields whose scaling is not in `have` (NULL: for all). Collective. */
ls_status ls_trainer_fit_missing(ls_trainer *t, const ls_dataset *set, const struct ls_weights *have);
/* Does ls_trainer_init and then ls_trainer_load, without drawing parameters that are loaded. If not
 * `strict`, ls_trainer_load_partly. Parameters that words of `reset` name (as in ls_trainer_opts.freeze)
 * keep their initial values, and `w` must not have them. LS_E_USAGE if a word names none. */
ls_status ls_trainer_init_from(ls_trainer *t, uint64_t seed, const struct ls_weights *w, bool strict,
                               const char *reset);
/* Finds the weights of unit i in the session. */
ls_status ls_trainer_bind_weights(ls_trainer *t, int i);
/* Rounds the parameters to the weights, if anything but a step has changed the parameters. Collective. */
ls_status ls_trainer_round_weights(ls_trainer *t);

/* LS_E_ARG if the trainer has no weights yet. `call` is the function's name in the message. The same on all
 * ranks. */
ls_status ls_trainer_needs_weights(const ls_trainer *t, const char *call);
/* LS_E_ARG while the parameters are their averages. The same on all ranks. */
ls_status ls_trainer_needs_parameters(const ls_trainer *t, const char *call);
size_t ls_trainer_buffer_bytes(const ls_trainer *t); /* of all buffers together */
/* Broadcasts the buffers of rank 0 if they have changed. Collective. */
ls_status ls_trainer_share_buffers(ls_trainer *t);
