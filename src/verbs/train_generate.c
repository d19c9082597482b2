/* train_generate.c - see train_generate.h. */
#include "train_generate.h"

#include "comm/agree.h"
#include "split_texts.h"

ls_status ls_train_generate(ls_loop *l, ls_rounds *rounds, ls_metric_list *metrics, int64_t *texts,
                            double *seconds)
{
    const ls_recipe *r = l->recipe;
    const ls_split_opts o = { .samples.n = r->eval.generate.samples ? r->eval.generate.samples : l->eval->n,
                              .how = { LS_GENERATE_DEFAULTS, .tokens = r->eval.generate.tokens,
                                       .no_repeat = r->eval.generate.no_repeat,
                                       .length_penalty = r->eval.generate.length_penalty },
                              .beams = r->eval.generate.beams,
                              .group = l->group,
                              .rounds = rounds };
    ls_text_model m;
    ls_texts_made made;
    ls_status s = ls_text_model_of_run(&m, l->recipe, l->setup, l->trainer);
    LS_TRY(l->group ? ls_ranks_agree(l->group, s) : s);
    s = ls_split_compare(metrics, &made, &m, l->eval, &o, l->ui);
    *texts = made.texts;
    *seconds = made.seconds;
    ls_text_model_release(&m);
    return s;
}
