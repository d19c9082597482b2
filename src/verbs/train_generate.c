/* train_generate.c - see train_generate.h. */
#include "train_generate.h"

#include "comm/agree.h"
#include "split_texts.h"

ls_status ls_train_generate(ls_loop *l, ls_watch *watch, ls_rouge_mean *out)
{
    const ls_recipe *r = l->recipe;
    const ls_split_opts o = { .count = r->eval.generate.samples ? r->eval.generate.samples : l->eval->n,
                              .how = { LS_GENERATE_DEFAULTS, .tokens = r->eval.generate.tokens,
                                       .no_repeat = r->eval.generate.no_repeat,
                                       .length_penalty = r->eval.generate.length_penalty },
                              .beams = r->eval.generate.beams,
                              .group = l->group,
                              .watch = watch };
    ls_text_model m;
    ls_status s = ls_text_model_of_run(&m, l->recipe, l->setup, l->trainer);
    LS_TRY(l->group ? ls_ranks_agree(l->group, s) : s);
    s = ls_split_rouge(out, &m, l->eval, &o, l->ui);
    ls_text_model_release(&m);
    return s;
}
