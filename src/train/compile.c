/* compile.c - model -> programs. The one place where the order of passes is written down. */
#include "compile.h"

#include <string.h>

#include "base/clock.h"
#include "graph/autodiff.h"
#include "ops/rules.h"

const char *const ls_program_names[LS_PROGRAMS] = { "micro", "update", "eval" };

static ls_value output_named(const ls_graph *g, const char *name)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (!strcmp(g->outputs[i].name, name))
            return g->outputs[i].value;
    return LS_NONE;
}

static void drop_outputs(ls_graph *g) { g->n_outputs = 0; }

/* Model as built, for `batch` samples, with only what is read computed. The outputs that the program keeps are chosen first. */
static ls_status forward(ls_graph **out, ls_build_fn build, const void *config, const ls_trainer_opts *o, bool training, ls_units *units)
{
    ls_graph *g = NULL;
    ls_status s;
    LS_TRY(ls_graph_create(&g, training ? "micro" : "eval"));
    LS_TRY_TO(s, build(g, config, o->micro_batch), fail);
    if (o->param == LS_F64)
        LS_TRY_TO(s, ls_pass_to_f64(&g), fail);
    ls_value loss = output_named(g, "loss"), rows = output_named(g, "rows"), logits = output_named(g, "logits");
    if (!ls_present(loss) || !ls_present(rows) || !ls_present(logits)) {
        s = ls_fail(LS_E_ARG, "the model must have outputs \"loss\", \"rows\" and \"logits\"");
        goto fail;
    }
    drop_outputs(g);
    if (training) {
        (ls_output)(g, "loss", loss);
    } else {
        (ls_output)(g, "eval.rows", rows);
        (ls_output)(g, "logits", logits);
    }
    LS_TRY_TO(s, ls_pass_slices_up(&g), fail);
    LS_TRY_TO(s, ls_pass_dce(&g), fail);
    LS_TRY_TO(s, ls_pass_narrow(&g), fail);
    LS_TRY_TO(s, ls_pass_units(&g, o->param, o->output, units), fail);
    if (!training) { /* only now is the type of the logits known */
        logits = output_named(g, "logits");
        g->n_outputs--;
        (ls_output)(g, "eval.predicted", ls_argmax(g, logits));
        logits = o->param == LS_F64 ? logits : ls_cast(g, logits, LS_F32);
        (ls_output)(g, "eval.probability", ls_cast(g, ls_softmax(g, logits), LS_F32));
    }
    LS_TRY_TO(s, ls_graph_status(g), fail);
    *out = g;
    return LS_OK;
fail:
    ls_graph_destroy(&g);
    return s;
}

static ls_status finish(ls_graph **g)
{
    LS_TRY(ls_pass_cse(g));
    LS_TRY(ls_pass_dce(g));
    LS_TRY(ls_pass_fuse(g));
    LS_TRY(ls_pass_dce(g));
    return ls_graph_verify(*g);
}

/* Appends the backward pass; the gradient of the unit's flat state is the output "grad.<unit>". */
static ls_status differentiate(ls_graph **g, const ls_units *u, const ls_trainer_opts *o)
{
    ls_value state = LS_NONE, grad, loss = output_named(*g, "loss");
    for (int i = 0; i < (*g)->n_nodes; i++)
        if ((*g)->nodes[i]->op == &ls_op_state && !strcmp(((const ls_source_attrs *)(*g)->nodes[i]->attrs)->name, u->state))
            state = (*g)->nodes[i]->out[0];
    (*g)->phase = LS_PHASE_BACKWARD;
    ls_value seed = o->param == LS_F16 ? ls_state(*g, "loss_scale", LS_SCALAR(LS_F32), (ls_init){ LS_INIT_CONST, 65536, 0 })
                                       : ls_fill(*g, ls_value_type(*g, loss), 1.0);
    LS_TRY(ls_backward(*g, loss, seed, 1, &state, &grad));
    (ls_output)(*g, ls_arena_printf(&(*g)->arena, "grad.%s", u->state), grad);
    (*g)->phase = LS_PHASE_FORWARD;
    LS_TRY(ls_graph_status(*g));
    if (o->recompute) {
        LS_TRY(ls_pass_dce(g)); /* so that only what the backward pass reads is cloned */
        LS_TRY(ls_pass_recompute(g, o->recompute));
    }
    return LS_OK;
}

static ls_status plan(ls_compiled *c, int which, ls_graph **g, const ls_calibration *calibration)
{
    double t = ls_now();
    ls_status s = finish(g);
    double mid = ls_now();
    if (s == LS_OK)
        s = ls_plan_create(&c->plans[which], *g, &c->device, &(ls_plan_opts){ .calibration = calibration });
    c->graph_seconds += mid - t;
    c->plan_seconds += ls_now() - mid;
    ls_graph_destroy(g);
    return s;
}

static int tree_buffers(int64_t micro_batches, ls_accumulation how)
{
    if (micro_batches < 2)
        return 0;
    if (how == LS_SUM_RUNNING)
        return 1;
    int levels = 0;
    while ((int64_t)1 << levels < micro_batches)
        levels++;
    return levels;
}

static ls_status compile_all(ls_compiled *c, ls_build_fn build, const void *config, const ls_trainer_opts *o, const ls_calibration *calibration)
{
    ls_graph *g = NULL;
    double t = ls_now();
    LS_TRY(forward(&g, build, config, o, false, &c->units));
    c->graph_seconds += ls_now() - t;
    c->classes = ls_value_type(g, output_named(g, "eval.probability")).dims[1];
    LS_TRY(plan(c, LS_EVAL, &g, calibration));
    if (o->eval_only)
        return LS_OK;
    ls_units_release(&c->units);
    t = ls_now();
    LS_TRY(forward(&g, build, config, o, true, &c->units));
    ls_status s = differentiate(&g, &c->units, o);
    if (s != LS_OK) {
        ls_graph_destroy(&g);
        return s;
    }
    c->graph_seconds += ls_now() - t;
    LS_TRY(plan(c, LS_MICRO, &g, calibration));
    LS_TRY(ls_graph_create(&g, "update"));
    ls_update_opts update = { .optimizer = o->optimizer, .clip_norm = o->clip_norm, .loss_scaling = c->loss_scaling };
    s = ls_update_build(g, c->units.state, LS_TYPE(c->units.dtype, c->units.elements), &update);
    if (s != LS_OK) {
        ls_graph_destroy(&g);
        return s;
    }
    return plan(c, LS_UPDATE, &g, calibration);
}

ls_status ls_compile(ls_compiled *c, ls_build_fn build, const void *config, const ls_trainer_opts *o, const ls_calibration *calibration)
{
    *c = (ls_compiled){ .micro_batch = o->micro_batch, .micro_batches = o->micro_batches, .loss_scaling = o->param == LS_F16,
                        .clipping = o->clip_norm > 0, .accumulation = o->accumulation,
                        .tree_buffers = tree_buffers(o->micro_batches, o->accumulation) };
    if (o->micro_batch < 1 || o->micro_batches < 1)
        return ls_fail(LS_E_USAGE, "micro_batch %lld and micro_batches %lld must be positive", (long long)o->micro_batch, (long long)o->micro_batches);
    if (o->param == LS_F64 && strcmp(o->device, "ref"))
        return ls_fail(LS_E_UNSUPPORTED, "precision.param: f64 runs on device ref only; this is %s", o->device);
    if (!ls_dtype_is_float(o->param) || !ls_dtype_is_float(o->output))
        return ls_fail(LS_E_USAGE, "precision must be a float type, not %s / %s", ls_dtype_name(o->param), ls_dtype_name(o->output));
    ls_device_opts d = { .isa = o->isa, .threads = o->threads, .kernels = o->kernels, .elsewhere = o->elsewhere };
    LS_TRY(ls_device_open(&c->device, o->device, &d));
    ls_status s = compile_all(c, build, config, o, calibration);
    if (s != LS_OK)
        ls_compiled_release(c);
    return s;
}

void ls_compiled_release(ls_compiled *c)
{
    for (int i = 0; i < LS_PROGRAMS; i++)
        ls_plan_destroy(&c->plans[i]);
    ls_units_release(&c->units);
}

size_t ls_compiled_tree_bytes(const ls_compiled *c)
{
    return (size_t)c->tree_buffers * (size_t)c->units.elements * ls_dtype_size(c->units.dtype);
}

double ls_compiled_flops(const ls_compiled *c)
{
    return (double)c->micro_batches * c->plans[LS_MICRO]->flops + c->plans[LS_UPDATE]->flops;
}

double ls_compiled_seconds(const ls_compiled *c)
{
    double micro = c->plans[LS_MICRO]->seconds, update = c->plans[LS_UPDATE]->seconds;
    return micro > 0 ? (double)c->micro_batches * micro + update : 0;
}
