/* live.h - training on samples that a program makes while it runs, as a simulation does.
 *
 *     ls_live *q;
 *     LS_TRY(ls_live_open(&q, trainer, .capacity = 8192));
 *     for (int step = 0; step < STEPS; step++) {
 *         advance(u);                                       -- the program's own work
 *         LS_TRY(ls_live_put(q, "x", &x));                  -- [m, sample]; local
 *         LS_TRY(ls_live_put(q, "y", &y));
 *         LS_TRY(ls_live_push(q, m));                       -- local
 *         if (step % 10)
 *             continue;                                     -- the same steps on all ranks
 *         LS_TRY(ls_live_fill(q, &samples, &total, &done)); -- collective
 *         if (total > 0)
 *             LS_TRY(ls_trainer_run(trainer, samples, 1e-3, &result)); -- collective
 *     }
 *
 * A queue holds samples of one rank, each a value for every field that the model takes. Samples are trained
 * on the rank that pushed them. The trainer must be made with .padding = true, for a rank may have fewer
 * samples than its share of a step, or none. The weights are a function of the calls: the same calls give the
 * same bits. ls_trainer_save_checkpoint saves the queue, too.
 *
 * One thread at a time uses a queue, any thread. A call that fails has changed nothing, unless it is
 * LS_E_PEER or a record that could not be written. docs/live.md has the whole story. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_live_keep {
    /* the oldest samples are trained first, each once */
    LS_LIVE_FIFO,
    /* the queue keeps a uniform random choice of all samples that the rank has pushed; a step draws its
     * samples from these, and they stay. It never is full */
    LS_LIVE_RESERVOIR
} ls_live_keep;

typedef enum ls_live_full {
    LS_LIVE_REFUSE,     /* ls_live_push fails, and takes nothing */
    LS_LIVE_DROP_OLDEST /* the oldest samples make room; ls_live_count says how many */
} ls_live_full;

/* The same on all ranks. */
typedef struct ls_live_opts {
    int64_t capacity; /* samples that each rank keeps for training */
    ls_live_keep keep;
    ls_live_full full; /* what a push to a full LS_LIVE_FIFO does */
    uint64_t seed;     /* of all that LS_LIVE_RESERVOIR and hold_out draw */
    /* k > 0: every k-th sample that a rank pushes is never trained, but kept for ls_live_evaluate. Of more
     * than capacity / k (at least 1) of them a uniform random choice is kept. 0: none */
    int64_t hold_out;
    /* N > 0: the scaling of the model's fields (ls_scaling_of) is found before the first step, over all
     * samples that wait when all ranks together have N of them; until then ls_live_fill gives none. It is
     * found over fewer when all ranks have finished, or when the queue of any rank is full: a push has found
     * no room, or replaces samples from now on. 0: the scaling stays as it is */
    int64_t fit;
    /* folder, the same on all hosts, that gets each trained sample once: an array NAME.npy [samples, ..] for
     * each field, in the order of training. NULL: none */
    const char *record;
} ls_live_opts;
#define LS_LIVE_DEFAULTS                                                                                \
    .capacity = 4096, .keep = LS_LIVE_FIFO, .full = LS_LIVE_REFUSE, .seed = 0, .hold_out = 0, .fit = 0, \
    .record = NULL
LS_API ls_live_opts ls_live_opts_default(void);

/* A queue for a trainer, which may have one at a time, and which is destroyed after it. LS_E_ARG for a
 * trainer without padding, and for one that splits the model over ranks (axes tp, ...): they would need the
 * same samples. LS_E_USAGE when the ranks' options differ. Allocates all memory that the queue needs, but for
 * copies of ls_live_put. Collective. */
typedef struct ls_live ls_live;
LS_API ls_status ls_live_open_with(ls_live **out, ls_trainer *t, const ls_live_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_live_open(...) ls_live_open_with(__VA_ARGS__)
#else
#define ls_live_open(out, trainer, ...) \
    LS_QUIETLY(ls_status,               \
               ls_live_open_with((out), (trainer), &(ls_live_opts){ LS_LIVE_DEFAULTS, ##__VA_ARGS__ }))
#endif
/* Frees it and nulls *q; null is fine. Local, but collective while a thread runs: it ends that as
 * ls_live_stop does, and so does ls_trainer_destroy, which waits for the other ranks. Call ls_live_stop
 * first. */
LS_API void ls_live_close(ls_live **q);

/* Copies `values` [m, sample] of a field for the next ls_live_push, any strides, f32 or f64 for a float
 * field; a second put of the field replaces the first. LS_E_ARG no such field; LS_E_SHAPE another type or
 * shape; LS_E_NUMERIC a number that is not finite, or not in the field's type. Local. */
LS_API ls_status ls_live_put(ls_live *q, const char *field, const ls_tensor *values);
/* Appends the m samples that were put. Every field must have been put for exactly m samples. m = 0 does
 * nothing. LS_E_ARG, and nothing is taken, if a queue that refuses has less room. Local. */
LS_API ls_status ls_live_push(ls_live *q, int64_t m);
/* This rank pushes no more samples. Local. */
LS_API ls_status ls_live_finish(ls_live *q);

/* Takes samples for one step: on each rank up to its share, micro_batch for each of its micro-batches.
 * *samples: what ls_trainer_run must be told on this rank; *total: those of all ranks. *total 0: no rank has
 * a sample, and nothing is to be run. *done: all ranks have finished, and nothing is left (a reservoir: all
 * have finished). Any pointer may be NULL but `samples`. A rank that has never had a sample pads with one of
 * another rank. LS_E_ARG if the samples of the last fill were not run. Collective. */
LS_API ls_status ls_live_fill(ls_live *q, int64_t *samples, int64_t *total, bool *done);

/* ---- in the background */

/* Starts a thread on each rank that fills and trains, step after step, while the program computes. A step
 * begins when all ranks together have `least` samples for it (0: one; a step has at most micro_batch times
 * micro_batches), or when a rank's queue is half full, or one of its pushes waits for room. The learning rate
 * of step k, counted with the fills of the queue, is ls_schedule_rate(schedule, lr, k); schedule NULL: lr.
 * Until ls_live_stop only put, push, finish and count may be called on the queue, none on the trainer
 * (LS_E_ARG), and none on its group. What is trained depends on who is how fast: no bits are promised.
 * Collective. */
LS_API ls_status ls_live_start(ls_live *q, double lr, const ls_schedule *schedule, int64_t least);
/* Ends the thread: if all ranks have finished, when everything is trained, else after the step under way; the
 * queue keeps what waits, and ls_live_start goes on with it. *steps, *last (may be NULL): how many steps the
 * thread has made, and the last one. Fails as the thread did, if it did. Collective. */
LS_API ls_status ls_live_stop(ls_live *q, int64_t *steps, ls_step_result *last);
/* As ls_live_push, but waits for room up to so many seconds. LS_E_ARG without a thread. Local. */
LS_API ls_status ls_live_push_wait(ls_live *q, int64_t m, double seconds);

/* ---- results */

/* The losses and metrics, as ls_trainer_evaluate has them, over the samples that all ranks hold out; each
 * counts once. LS_E_ARG if there are none. Allocates. Collective. */
LS_API ls_status ls_live_evaluate(ls_live *q, ls_metric *out, int max, int *n);

/* Of this rank. */
typedef struct ls_live_numbers {
    int64_t pushed;  /* samples, of which */
    int64_t held;    /* are held out and kept, */
    int64_t waiting; /* are in the queue, */
    int64_t trained; /* were given to a step: of a reservoir each time that they were, */
    int64_t dropped; /* left the queue before any step had them */
    int64_t room;    /* samples that the next push may have; a reservoir and a queue that drops: INT64_MAX */
    int64_t bytes;   /* of memory that the queue has, all of it allocated by ls_live_open */
    int64_t ranks;   /* that wrote the checkpoint, if their samples were dealt to another number; else 0 */
} ls_live_numbers;
LS_API ls_status ls_live_count(ls_live *q, ls_live_numbers *out); /* local */

#ifdef __cplusplus
}
#endif
