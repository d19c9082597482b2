/* train_generate.h - the texts that an evaluation generates during training (eval.generate). */
#pragma once
#include "loop/loop.h"

/* What ls_loop.generate is. The ranks share the samples; each has a whole copy of the weights until the call
 * ends. Collective over the loop's group. */
ls_status ls_train_generate(ls_loop *l, ls_rounds *rounds, ls_metric_list *metrics, int64_t *texts,
                            double *seconds);
