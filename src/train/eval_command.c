/* eval_command.c - `lockstep eval`: loss and accuracy of a run's weights on the evaluation split. */
#include "base/json.h"
#include "base/log.h"
#include "evaluate.h"
#include "target.h"

static void print(const ls_ui *ui, const ls_target *t, const ls_dataset *set, const ls_eval_result *e, int64_t step, bool json)
{
    if (!json) {
        fprintf(ui->out, "%s  step %lld\n%s%s\nloss %.6f  accuracy %.4f  (%lld of %lld)  %.2f s\n", t->checkpoint, (long long)step, set->source,
                set->builtin ? "  BUILT-IN SHAPES, not real data" : "", e->loss, e->accuracy, (long long)e->correct, (long long)e->samples, e->seconds);
        return;
    }
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "checkpoint", t->checkpoint);
    ls_json_int(&j, "step", step);
    ls_json_text(&j, "data", set->source);
    ls_json_bool(&j, "builtin_data", set->builtin);
    ls_json_f64(&j, "loss", e->loss);
    ls_json_f64(&j, "accuracy", e->accuracy);
    ls_json_int(&j, "correct", e->correct);
    ls_json_int(&j, "samples", e->samples);
    ls_json_f64(&j, "seconds", e->seconds);
    ls_json_close_object(&j);
    fprintf(ui->out, "%s\n", ls_str_text(&j.out));
    ls_str_release(&j.out);
}

ls_status ls_eval_command(const ls_eval_opts *o, const ls_ui *ui)
{
    ls_target t;
    ls_setup setup;
    ls_trainer *trainer = NULL;
    ls_dataset *set = NULL;
    ls_eval_result e;
    int64_t step = 0;
    ls_status s;
    LS_TRY(ls_target_open(&t, &o->target));
    LS_TRY_TO(s, ls_target_trainer(&t, &setup, &trainer, &step), end);
    LS_TRY_TO(s, ls_setup_data(&set, t.recipe, &setup, LS_SPLIT_EVAL, ui), end);
    LS_TRY_TO(s, ls_evaluate(trainer, set, setup.trainer.micro_batch, ui, &e), end);
    print(ui, &t, set, &e, step, o->json);
end:
    ls_trainer_destroy(&trainer);
    ls_dataset_close(&set);
    ls_target_release(&t);
    return s;
}
