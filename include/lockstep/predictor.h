/* predictor.h - predictions of a model: rows of its inputs in, rows of its outputs out. A predictor has
 * weights and memory of its own, and only the forward pass, so a simulation calls it between its steps while
 * a trainer goes on training, or without one.
 *
 *     ls_predictor *p;
 *     LS_TRY(ls_predictor_of(&p, trainer));                     // every rank of the trainer, once
 *     for (...) {                                               // then each rank for itself
 *         LS_TRY(ls_predictor_put(p, "x", &x));                 // [n, 8], any n
 *         LS_TRY(ls_predictor_run(p, n));
 *         LS_TRY(ls_predictor_get(p, "y", &y));                 // [n, 3]
 *     }
 *
 * Outputs are what the model's builder gives to ls_output. A model with an output `logits` [rows, classes]
 * has two more: `predicted`, i32 [rows], the class with the largest logit, and `probability`, f32 [rows,
 * classes]. Numbers are those of the trainer's evaluation, bit for bit: neither the other rows, nor how many
 * they are, nor threads, nor the ranks that trained change a bit of a row. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_predictor_opts {
    /* names of the outputs that ls_predictor_run computes, separated by spaces; what only others need is
     * removed, also from the inputs. NULL: all, but the probabilities only where there is one target a sample
     */
    const char *outputs;
    /* rows that are computed at once; more rows are computed in turns, fewer cost as much. 0: eval_batch of
     * the trainer, eval.batch of the checkpoint's recipe; where these are 0 the micro-batch */
    int64_t batch;
    int threads; /* 0: as many as the trainer has; of a checkpoint the default of docs/environment.md */
    /* The builder of the model and its configuration. ls_predictor_of needs them only for another `batch`
     * than the trainer's; ls_predictor_open, unless the checkpoint has a recipe with a model of the library.
     * They are used during the call. */
    ls_build_fn build;
    const void *config;
    /* ls_predictor_open with `build`: the options that the model was trained with. device, isa, kernels,
     * micro_batch, eval_batch, param, output, cast_forward_inputs and modules count. NULL: the defaults */
    const ls_trainer_opts *trainer;
    /* ls_predictor_open: the moving averages of the parameters (ema_decay), as a recipe with eval.ema has
     * them anyway. Of a trainer: ls_trainer_exchange_ema before and behind ls_predictor_of */
    bool ema;
    bool best; /* ls_predictor_open of a run: its best checkpoint. Of a checkpoint: refused */
} ls_predictor_opts;
#define LS_PREDICTOR_DEFAULTS                                                                                \
    .outputs = NULL, .batch = 0, .threads = 0, .build = NULL, .config = NULL, .trainer = NULL, .ema = false, \
    .best = false
LS_API ls_predictor_opts ls_predictor_opts_default(void);

/* One thread at a time uses a predictor, any thread: another one is refused with LS_E_ARG. */
typedef struct ls_predictor ls_predictor;

/* A predictor with the trainer's weights as they are now; it does not change when training goes on, and may
 * outlive the trainer. Every rank gets the whole model. LS_E_ARG before the trainer has weights; LS_E_USAGE
 * for an output that the model does not have; LS_E_SHAPE for one whose dimension 0 is not the batch. Compiles
 * and allocates. A failure of one rank is the group's: the others return LS_E_PEER, and the group can only be
 * destroyed. Collective over the trainer's ranks. */
LS_API ls_status ls_predictor_of_with(ls_predictor **out, ls_trainer *t,
                                      const ls_predictor_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_predictor_of(...) ls_predictor_of_with(__VA_ARGS__)
#else
#define ls_predictor_of(out, t, ...)            \
    LS_QUIETLY(ls_status, ls_predictor_of_with( \
                              (out), (t), &(ls_predictor_opts){ LS_PREDICTOR_DEFAULTS, ##__VA_ARGS__ }))
#endif
/* A predictor with the weights of a checkpoint, however many ranks saved it; `path` is the folder of the
 * checkpoint, or that of a run: its latest checkpoint, or its best one with .best and after early stopping,
 * as the commands take (the log says so). All its bytes are verified. Without `build` the model is that of
 * the checkpoint's recipe: LS_E_USAGE when it has none, or one that a shared object builds, for no checkpoint
 * loads code. LS_E_SHAPE when the weights are not the model's. Local. */
LS_API ls_status ls_predictor_open_with(ls_predictor **out, const char *path,
                                        const ls_predictor_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_predictor_open(...) ls_predictor_open_with(__VA_ARGS__)
#else
#define ls_predictor_open(out, path, ...)         \
    LS_QUIETLY(ls_status, ls_predictor_open_with( \
                              (out), (path), &(ls_predictor_opts){ LS_PREDICTOR_DEFAULTS, ##__VA_ARGS__ }))
#endif
LS_API void ls_predictor_destroy(ls_predictor **p); /* nulls *p; null is fine */

/* All calls below are local. */

/* Copies `values` [n, sample] of an input: its rows 0 .. n - 1 of the next run, in place of what was put
 * before. Any strides; f32 or f64 for a float field. LS_E_ARG: no such input (the message names the nearest
 * one); LS_E_SHAPE: another type or shape. Allocates when n grows. */
LS_API ls_status ls_predictor_put(ls_predictor *p, const char *field, const ls_tensor *values);
/* Computes the outputs of rows 0 .. n - 1. Every input must have been put for n rows since the last run, else
 * LS_E_ARG. n may be 0. Allocates when n grows. */
LS_API ls_status ls_predictor_run(ls_predictor *p, int64_t n);
/* Copies an output of all rows of the last run to `values` [n, sample], with any strides; f32 or f64 for a
 * float output. LS_E_ARG: no such output, or nothing was run yet; LS_E_SHAPE: another type or shape. */
LS_API ls_status ls_predictor_get(ls_predictor *p, const char *output, const ls_tensor *values);

/* The inputs that must be put, and the outputs: names, and the types of one row, [1, sample] (of a language
 * model's `logits` [tokens, vocabulary]); data is NULL. Up to `max` of them into `out`; returns how many
 * there are. */
LS_API int ls_predictor_inputs(const ls_predictor *p, ls_named_tensor *out, int max);
LS_API int ls_predictor_outputs(const ls_predictor *p, ls_named_tensor *out, int max);
LS_API size_t ls_predictor_bytes(const ls_predictor *p); /* all memory */

#ifdef __cplusplus
}
#endif
