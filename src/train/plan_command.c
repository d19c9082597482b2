/* plan_command.c - `lockstep plan` and `lockstep explain`: compile the step, run nothing, print what would run. No data is read. */
#include <string.h>

#include "base/str.h"
#include "plan/describe.h"
#include "setup.h"

typedef struct compiled_recipe {
    ls_recipe *recipe;
    ls_setup setup;
    ls_compiled step;
    ls_calibration store;
    const ls_calibration *calibration;
} compiled_recipe;

/* The ISA level asked for need not exist here: plans are exact for another machine. */
static ls_status compile(compiled_recipe *c, const ls_recipe_arg *arg)
{
    *c = (compiled_recipe){ 0 };
    LS_TRY(ls_recipe_load(&c->recipe, arg->name, arg->n_sets, arg->sets));
    ls_status s = ls_setup_make(&c->setup, c->recipe, 1, 0, 0);
    c->setup.trainer.elsewhere = true;
    if (s == LS_OK) {
        c->calibration = ls_setup_calibration(&c->store, &c->setup.trainer);
        s = ls_compile(&c->step, c->setup.build, &c->setup.config, &c->setup.trainer, c->calibration);
    }
    if (s != LS_OK)
        ls_recipe_destroy(&c->recipe);
    return s;
}

static void release(compiled_recipe *c)
{
    ls_compiled_release(&c->step);
    ls_recipe_destroy(&c->recipe);
}

static ls_plan **in_order(compiled_recipe *c, ls_plan *plans[LS_PROGRAMS]) /* the step first, then evaluation */
{
    for (int i = 0; i < LS_PROGRAMS; i++)
        plans[i] = c->step.plans[i];
    return plans;
}

static int64_t steps_per_epoch(const compiled_recipe *c, int64_t *samples)
{
    int64_t eval;
    int channels, height, width, classes;
    *samples = 0;
    if (!ls_dataset_sizes(c->recipe->data.type, samples, &eval, &channels, &height, &width, &classes))
        return 0;
    ls_order o = { .n = *samples, .global_batch = c->recipe->train.global_batch, .micro_batch = c->recipe->train.micro_batch,
                   .drop_last = c->recipe->train.drop_last };
    return ls_order_check(&o) == LS_OK ? ls_order_steps(&o) : 0;
}

static void plan_text(const ls_ui *ui, compiled_recipe *c, const ls_footprint *f)
{
    ls_str s = { 0 };
    char a[32], b[32], d[32];
    ls_compiled *step = &c->step;
    size_t tree = ls_compiled_tree_bytes(step);
    ls_str_printf(&s, "%s  %s, %lld parameters  %s, %s, %d thread%s\n", c->recipe->run.name, ls_model_choice_name(c->recipe->model.type),
                  (long long)step->units.parameters, step->device.ops->name, ls_isa_name(step->device.isa), step->device.threads,
                  step->device.threads == 1 ? "" : "s");
    ls_str_printf(&s, "step    %lld x %lld samples, compute %s, %.3f GFLOP\n", (long long)step->micro_batches, (long long)step->micro_batch,
                  ls_dtype_name(step->units.dtype == LS_F64 ? LS_F64 : c->recipe->precision.param), 1e-9 * ls_compiled_flops(step));
    ls_str_printf(&s, "memory  %s in all: state %s, inputs and outputs %s, ", ls_format_bytes(a, f->total + tree), ls_format_bytes(b, f->state),
                  ls_format_bytes(d, f->io));
    ls_str_printf(&s, "arena %s%s", ls_format_bytes(a, f->arena), tree ? ", sums of micro-batches " : "");
    if (tree)
        ls_str_printf(&s, "%s (%d buffers; train.accumulate: running needs 1)", ls_format_bytes(a, tree), step->tree_buffers);
    ls_str_add(&s, "\n        at the worst moment:");
    for (int i = 0; i < LS_CAT_COUNT; i++)
        if (f->by_category[i])
            ls_str_printf(&s, " %s %s,", ls_category_name((ls_category)i), ls_format_bytes(a, f->by_category[i] + (i == LS_CAT_GRADIENTS ? tree : 0)));
    s.data[--s.len] = 0;
    double seconds = ls_compiled_seconds(step);
    int64_t samples, steps = steps_per_epoch(c, &samples);
    if (seconds > 0)
        ls_str_printf(&s, "\ntime    about %.2f ms a step, %.0f samples/s", 1e3 * seconds, (double)c->recipe->train.global_batch / seconds);
    else
        ls_str_add(&s, "\ntime    not known: `lockstep doctor` measures this machine once");
    if (seconds > 0 && steps > 0)
        ls_str_printf(&s, ", %s an epoch of %lld steps", ls_format_duration(b, seconds * (double)steps), (long long)steps);
    if (c->recipe->kernels == LS_KERNELS_ONEDNN)
        ls_str_add(&s, "\nnote    library kernels (oneDNN) follow the machine: the same bits only on the same set-up");
    if (c->recipe->precision.param != LS_F32 && c->recipe->precision.param != LS_F64)
        ls_str_printf(&s, "\nnote    compute in %s: gradients are rounded to it before they are summed in f32", ls_dtype_name(c->recipe->precision.param));
    ls_str_add(&s, "\n");
    fputs(ls_str_text(&s), ui->out);
    for (int i = 0; i < LS_PROGRAMS; i++) {
        ls_str_clear(&s);
        ls_plan_text(&s, step->plans[i], 5);
        fprintf(ui->out, "\n%s", ls_str_text(&s));
    }
    ls_str_release(&s);
}

static void plan_json(const ls_ui *ui, compiled_recipe *c, const ls_footprint *f)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "run", c->recipe->run.name);
    ls_json_text(&j, "device", c->step.device.ops->name);
    ls_json_text(&j, "isa", ls_isa_name(c->step.device.isa));
    ls_json_int(&j, "threads", c->step.device.threads);
    ls_json_int(&j, "parameters", c->step.units.parameters);
    ls_json_int(&j, "micro_batch", c->step.micro_batch);
    ls_json_int(&j, "micro_batches", c->step.micro_batches);
    ls_json_f64(&j, "flops", ls_compiled_flops(&c->step));
    if (ls_compiled_seconds(&c->step) > 0)
        ls_json_f64(&j, "seconds", ls_compiled_seconds(&c->step));
    ls_json_object(&j, "memory");
    ls_json_int(&j, "total", (int64_t)(f->total + ls_compiled_tree_bytes(&c->step)));
    ls_json_int(&j, "state", (int64_t)f->state);
    ls_json_int(&j, "io", (int64_t)f->io);
    ls_json_int(&j, "arena", (int64_t)f->arena);
    ls_json_int(&j, "micro_batch_sums", (int64_t)ls_compiled_tree_bytes(&c->step));
    ls_json_object(&j, "peak");
    for (int i = 0; i < LS_CAT_COUNT; i++)
        ls_json_int(&j, ls_category_name((ls_category)i), (int64_t)f->by_category[i]);
    ls_json_close_object(&j);
    ls_json_close_object(&j);
    ls_json_object(&j, "programs");
    for (int i = 0; i < LS_PROGRAMS; i++)
        ls_plan_json(&j, ls_program_names[i], c->step.plans[i], 5);
    ls_json_close_object(&j);
    ls_json_close_object(&j);
    fprintf(ui->out, "%s\n", ls_str_text(&j.out));
    ls_str_release(&j.out);
}

ls_status ls_plan_command(const ls_plan_command_opts *o, const ls_ui *ui)
{
    compiled_recipe c;
    ls_plan *plans[LS_PROGRAMS];
    ls_footprint f;
    LS_TRY(compile(&c, &o->recipe));
    ls_plans_footprint(&f, LS_PROGRAMS, in_order(&c, plans));
    if (o->json)
        plan_json(ui, &c, &f);
    else
        plan_text(ui, &c, &f);
    release(&c);
    return LS_OK;
}

static ls_status explain_param(const ls_explain_opts *o, const ls_ui *ui, compiled_recipe *c)
{
    const ls_units *u = &c->step.units;
    ls_plan *plans[LS_PROGRAMS];
    for (int i = 0; i < u->n_slots; i++) {
        if (strcmp(u->slots[i].name, o->param))
            continue;
        ls_stored_at at = { u->slots[i].name, u->units[u->slots[i].unit].state, u->slots[i].offset, u->slots[i].type };
        ls_json j = { 0 };
        ls_str s = { 0 };
        if (o->json)
            ls_explain_param_json(&j, NULL, &at, LS_PROGRAMS, in_order(c, plans));
        else
            ls_explain_param_text(&s, &at, LS_PROGRAMS, in_order(c, plans));
        fprintf(ui->out, "%s\n", o->json ? ls_str_text(&j.out) : ls_str_text(&s));
        ls_str_release(&j.out);
        ls_str_release(&s);
        return LS_OK;
    }
    const char *names[4096];
    int n = u->n_slots < 4096 ? u->n_slots : 4096;
    for (int i = 0; i < n; i++)
        names[i] = u->slots[i].name;
    const char *near = ls_nearest_name(o->param, names, n);
    return ls_fail(LS_E_USAGE, "--param %s: the model has no such parameter%s%s (lockstep inspect %s lists them)", o->param,
                   near ? "; did you mean " : "", near ? near : "", o->recipe.name);
}

ls_status ls_explain_command(const ls_explain_opts *o, const ls_ui *ui)
{
    compiled_recipe c;
    LS_TRY(compile(&c, &o->recipe));
    ls_status status = LS_OK;
    ls_json j = { 0 };
    ls_str s = { 0 };
    if (o->param) {
        status = explain_param(o, ui, &c);
    } else if (o->json) {
        ls_json_object(&j, NULL);
        for (int i = 0; i < LS_PROGRAMS; i++)
            ls_explain_json(&j, ls_program_names[i], c.step.plans[i]);
        ls_json_close_object(&j);
        fprintf(ui->out, "%s\n", ls_str_text(&j.out));
    } else {
        for (int i = 0; i < LS_PROGRAMS; i++)
            ls_explain_text(&s, c.step.plans[i]);
        fputs(ls_str_text(&s), ui->out);
    }
    ls_str_release(&j.out);
    ls_str_release(&s);
    release(&c);
    return status;
}
