/* predictor.h (private) - makes a predictor of a model's builder and weights. include/lockstep/predictor.h is
 * the public part. */
#pragma once
#include "lockstep/predictor.h"

/* `like`: the options that the model was trained with (ls_predictor_opts.trainer). The members build, config
 * and trainer of `o` do not count. `w` may have more tensors than the model. Local. */
ls_status ls_predictor_make(ls_predictor **out, ls_build_fn build, const void *config,
                            const ls_trainer_opts *like, const ls_predictor_opts *o, const ls_weights *w);
struct ls_session *ls_predictor_session(const ls_predictor *p); /* for tests that count waits */
/* LS_E_SHAPE unless the samples of `set` have all fields that the predictor takes, of their types. Local. */
ls_status ls_predictor_check_data(const ls_predictor *p, const struct ls_dataset *set);
