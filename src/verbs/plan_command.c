/* plan_command.c - `lockstep plan`: compile the step for any mesh, run nothing, print what it needs. No data
 * is read, no rank is started. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/shown.h"
#include "base/str.h"
#include "plan_compare.h"
#include "plan_machine.h"
#include "plan_search.h"
#include "plan_simulate.h"
#include "plan_stages.h"
#include "recipe/machine_file.h"
#include "recipe/shared_model.h"
#include "step_cost.h"
#include "workers.h"
#include "step/replicas.h"

static int64_t steps_per_epoch(const ls_compiled_recipe *c)
{
    int64_t samples, eval;
    int channels, height, width, classes;
    if (!ls_dataset_sizes(c->recipe->data.type, &samples, &eval, &channels, &height, &width, &classes))
        return 0;
    ls_order o = { .n = samples,
                   .global_batch = c->recipe->train.global_batch,
                   .micro_batch = c->recipe->train.micro_batch,
                   .drop_last = c->recipe->train.drop_last,
                   .steps = c->recipe->train.steps_per_epoch };
    return ls_order_check(&o) == LS_OK ? ls_order_steps(&o) : 0;
}

static void head_text(ls_str *out, const ls_compiled_recipe *c, const ls_step_cost *cost)
{
    const ls_compiled *step = &c->step;
    const int64_t frozen = ls_units_frozen(&step->units);
    char trained[48] = "";
    if (frozen)
        snprintf(trained, sizeof trained, ", %lld of them trained",
                 (long long)(step->units.parameters - frozen));
    ls_str_printf(out, "%s  %s, %lld parameters%s  %s, %s, %d thread%s%s\n", c->recipe->run.name,
                  c->recipe->model.type, (long long)step->units.parameters, trained, step->device.ops->name,
                  step->device.arch->name, step->device.threads, step->device.threads == 1 ? "" : "s",
                  c->ranks > 1 ? " a rank" : "");
    const ls_shared_model *m = ls_recipe_shared_model(c->recipe);
    if (m)
        ls_str_printf(out, "model   %s, graph %016llx\n", m->label,
                      (unsigned long long)ls_hash64(m->graph, strlen(m->graph)));
    if (c->ranks > 1) {
        ls_str_printf(out, "ranks   %d: ", c->ranks);
        ls_layout_text(out, step);
        ls_str_add(out, "\n");
    }
    ls_str_printf(out, "step    %lld x %lld samples", (long long)step->micro_batches,
                  (long long)step->micro_batch);
    if (c->setup.model->samples == LS_SAMPLES_TEXT)
        ls_str_printf(out, " of %lld tokens", (long long)c->recipe->data.seq_length);
    if (c->setup.model->samples == LS_SAMPLES_PAIRS)
        ls_str_printf(out, " of %lld and %lld tokens", (long long)c->recipe->data.source_length,
                      (long long)c->recipe->data.target_length);
    if (c->ranks > 1)
        ls_str_printf(out, ", of which a rank computes %lld", (long long)step->share.count);
    ls_str_printf(out, "; compute %s%s%s, %.3f GFLOP%s\n",
                  ls_dtype_name(step->units.dtype == LS_F64 ? LS_F64 : c->recipe->precision.param),
                  *c->recipe->precision.modules ? ", " : "", c->recipe->precision.modules, 1e-9 * cost->flops,
                  c->ranks > 1 ? " a rank" : "");
}

/* ", NAME SIZE", unless it is 0 */
static void part_text(ls_str *out, const char *name, size_t bytes)
{
    char text[32];
    if (bytes)
        ls_str_printf(out, ", %s %s", name, ls_format_bytes(text, bytes));
}

/* Of a device whose memory is its own: what is in host memory. */
static void host_text(ls_str *out, const ls_step_memory *m)
{
    char a[32];
    ls_str parts = { 0 };
    part_text(&parts, "window that other ranks read",
              m->plans.window - m->plans.host_window - m->plans.mailboxes);
    part_text(&parts, "mailboxes between stages", m->plans.mailboxes);
    part_text(&parts, "results of collectives on their way to the device", m->pinned);
    part_text(&parts, "offloaded", m->offloaded);
    part_text(&parts, "staging of checkpoints (checkpoint.async)", m->saves);
    if (parts.len)
        ls_str_printf(out, "\n        on the host %s: %s", ls_format_bytes(a, m->host), parts.data + 2);
    ls_str_inherit(out, &parts);
    ls_str_release(&parts);
}

static void memory_text(ls_str *out, const ls_compiled_recipe *c, const ls_step_cost *cost)
{
    char a[32], b[32];
    const ls_step_memory *m = &cost->memory;
    const ls_footprint *f = &m->plans;
    ls_str_printf(out, "memory  %s%s: ", ls_format_bytes(a, m->total), c->ranks > 1 ? " a rank" : " in all");
    if (m->apart)
        ls_str_printf(out, "on the device %s: ", ls_format_bytes(a, m->device));
    ls_str_printf(out, "state %s, inputs and outputs %s", ls_format_bytes(a, f->state),
                  ls_format_bytes(b, f->io));
    ls_str_printf(out, ", arena %s", ls_format_bytes(a, f->arena));
    part_text(out, m->apart ? "mirror of the arena in the window" : "arena in the window", f->symmetric);
    part_text(out, "mailboxes between stages", m->apart ? 0 : f->mailboxes);
    part_text(out, "sums of micro-batches", m->spares.level_bytes);
    if (m->spares.level_bytes)
        ls_str_printf(out, " (%d buffer%s; train.accumulate: running needs 1)", c->step.tree_buffers,
                      c->step.tree_buffers == 1 ? "" : "s");
    part_text(out, "copies of what a skipped step puts back", m->spares.undo_bytes);
    part_text(out, "scratch to exchange averaged weights", m->spares.scratch_bytes);
    if (m->saves && !m->apart)
        ls_str_printf(out,
                      "\n        of it, %s of staging: a checkpoint is copied there and written while "
                      "training goes on (checkpoint.async)",
                      ls_format_bytes(a, m->saves));
    ls_str_add(out, "\n        at the worst moment:");
    for (int i = 0; i < LS_CAT_COUNT; i++)
        if (m->by_category[i])
            ls_str_printf(out, " %s %s,", ls_category_name((ls_category)i),
                          ls_format_bytes(a, m->by_category[i]));
    ls_str_cut(out, out->len - 1);
    if (m->apart)
        host_text(out, m);
    else if (f->window)
        ls_str_printf(out, "\n        of it, the other ranks of the host read %s (the window)",
                      ls_format_bytes(a, f->window));
    if (f->host)
        ls_str_printf(out, "\n        of it, %s rest in host memory: the device holds %s",
                      ls_format_bytes(a, m->offloaded), ls_format_bytes(b, m->device));
    if (f->node)
        ls_str_printf(
            out,
            "\n        beside it, once for all ranks of a host: %s of gathered units that each rank maps",
            ls_format_bytes(a, f->node));
    if (cost->messages)
        ls_str_printf(out, "\n        beside it, %s that messages to other hosts pass through",
                      ls_format_bytes(a, cost->messages));
    ls_str_printf(out, "\n        beside it, in host memory: %s of samples that the loader has read ahead\n",
                  ls_format_bytes(a, cost->loader));
}

static void collectives_text(ls_str *out, const ls_step_cost *cost)
{
    char a[32], b[32];
    for (int i = 0; i < cost->n_traffic; i++) {
        const ls_traffic *t = &cost->traffic[i];
        ls_str name = { 0 };
        ls_traffic_text(&name, t);
        ls_str_printf(out, "%s%-32s %4lld a step, %10s received by a rank of %d", i ? "        " : "moves   ",
                      name.data, (long long)t->calls, ls_format_bytes(a, (uint64_t)t->bytes), t->ranks);
        if (t->seconds > 0)
            ls_str_printf(out, ", about %.2f ms", 1e3 * t->seconds);
        ls_str_add(out, "\n");
        ls_str_release(&name);
    }
    const ls_message_count *m = &cost->sent;
    if (!m->messages)
        return;
    ls_str_printf(out, "        between hosts a rank sends %lld messages a step, %s on average, %s at most",
                  (long long)m->messages, ls_format_bytes(a, (uint64_t)(m->bytes / (double)m->messages)),
                  ls_format_bytes(b, (uint64_t)m->most));
    if (m->small)
        ls_str_printf(out, "; %lld of less than %s have %s together", (long long)m->small,
                      ls_format_bytes(a, LS_REMOTE_SMALL), ls_format_bytes(b, (uint64_t)m->small_bytes));
    ls_str_add(out, "\n");
}

/* "copies  1.2 MiB a step to the device: inputs 1.2 MiB" */
static void copies_text(ls_str *out, const ls_step_cost *cost)
{
    char a[32];
    const ls_transfers *t = &cost->transfers;
    if (!cost->memory.apart)
        return;
    ls_str to = { 0 }, from = { 0 };
    part_text(&to, "inputs", (size_t)t->inputs);
    part_text(&to, "results of collectives", (size_t)t->results);
    part_text(&to, "offloaded", (size_t)t->fetched);
    part_text(&from, "outputs", (size_t)t->outputs);
    part_text(&from, "operands of collectives", (size_t)t->operands);
    part_text(&from, "states that other ranks read", (size_t)t->states);
    part_text(&from, "offloaded", (size_t)t->rested);
    ls_str_printf(out, "copies  %s a step to the device%s%s\n", ls_format_bytes(a, (uint64_t)t->to_device),
                  to.len ? ": " : "", to.len ? to.data + 2 : "");
    ls_str_printf(out, "        %s a step from it%s%s\n", ls_format_bytes(a, (uint64_t)t->to_host),
                  from.len ? ": " : "", from.len ? from.data + 2 : "");
    ls_str_inherit(out, &to);
    ls_str_inherit(out, &from);
    ls_str_release(&to);
    ls_str_release(&from);
}

static void time_text(ls_str *out, const ls_compiled_recipe *c, const ls_step_cost *cost)
{
    char a[32];
    const int64_t steps = steps_per_epoch(c);
    if (!(cost->seconds > 0)) {
        ls_str_printf(out,
                      "time    not known for %d thread%s: `lockstep doctor` measures this machine once, with "
                      "all its threads, half of them, ... and 1\n",
                      c->step.device.threads, c->step.device.threads == 1 ? "" : "s");
        return;
    }
    ls_str_printf(out, "time    about %.2f ms a step", 1e3 * cost->seconds);
    if (cost->collectives)
        ls_str_printf(out, " (%.2f ms of it collectives", 1e3 * cost->communication);
    if (cost->copying > 0)
        ls_str_printf(out, "%s%.2f ms of it copies", cost->collectives ? ", " : " (", 1e3 * cost->copying);
    ls_str_add(out, cost->collectives || cost->copying > 0 ? ")" : "");
    const double rate = (double)c->recipe->train.global_batch / cost->seconds;
    ls_str_printf(out, ", %.*f samples/s", rate < 10 ? 3 : 0, rate);
    if (steps > 0)
        ls_str_printf(out, ", %s an epoch of %lld steps",
                      ls_format_duration(a, cost->seconds * (double)steps), (long long)steps);
    ls_str_add(out, "\n");
    const char *source = c->calibration->source;
    if (*source && c->machine)
        ls_str_printf(
            out,
            "        not measured, but by the figures of %s; assumed: %.0f %% of the peak in products, "
            "90 %% of memory\n",
            source, 100 * c->machine->device.efficiency);
    else if (*source)
        ls_str_printf(out,
                      "        not measured, but by %s; assumed: half of it in products, 90 %% of memory, 3 "
                      "us a kernel\n%s",
                      source, c->step.device.here ? "        --measure runs the kernels here\n" : "");
    if (!*source && c->step.device.ops->hardware)
        ls_str_printf(out, "        measured on %s\n", c->calibration->hardware);
    if (!*source && cost->measured < cost->kernels)
        ls_str_printf(
            out,
            "        of %d kernels %d were not measured with these shapes, but estimated from others: "
            "--measure runs them\n",
            cost->kernels, cost->kernels - cost->measured);
    if (c->machine && cost->collectives && c->ranks_per_host != 1 && c->ranks > 1 &&
        !(c->machine->link.bandwidth > 0))
        ls_str_add(out,
                   "        without the time of links inside a host: link.latency and link.bandwidth of the "
                   "machine give it\n");
    if (c->step.parallel.ranks_per_host > 0 && c->step.parallel.ranks_per_host < c->ranks &&
        !(c->calibration->wires[LS_SPEED_NETWORK].bandwidth > 0))
        ls_str_add(out,
                   "        without the time of messages between hosts: `mpirun lockstep doctor` over hosts "
                   "measures it, --network gives it\n");
}

static ls_status digests_text(ls_str *out, const ls_compiled_recipe *c)
{
    char a[32];
    int64_t bytes;
    int copies;
    if (!c->recipe->failure.digest_every)
        return LS_OK;
    LS_TRY(ls_replicas_cost(&bytes, &copies, &c->step));
    const double speed = ls_replicas_speed();
    ls_str_printf(
        out,
        "digests every %lld steps and before each checkpoint: a rank reads %s, about %.2f ms at %.1f "
        "GB/s (measured now)\n        ",
        (long long)c->recipe->failure.digest_every, ls_format_bytes(a, (uint64_t)bytes),
        1e3 * (double)bytes / speed, 1e-9 * speed);
    if (copies > 1)
        ls_str_printf(out, "%d ranks have the same parameters and compare them%s\n", copies,
                      copies == 2 ? "; two have no majority, so both are named" : "");
    else
        ls_str_add(out, "no two ranks have the same parameters: nothing is compared, only recorded\n");
    return LS_OK;
}

static void promise_text(ls_str *out, const ls_compiled_recipe *c, const ls_step_cost *cost)
{
    const int slices = (int)c->step.parallel.slices;
    if (!cost->same_bits) {
        ls_str_printf(out, "bits    not promised to be those of other layouts: %s\n", cost->why);
    } else {
        ls_str_printf(out,
                      "bits    the same on 1, 2, 4, ... ranks in any layout, with any threads, as long as "
                      "train.micro_batch is %lld",
                      (long long)cost->micro_batch);
        if (slices)
            ls_str_printf(out, " and parallel.slices %d (up to %d ranks on axis tp and on axis cp)", slices,
                          slices);
        ls_str_add(out, "\n");
    }
    if (c->recipe->precision.param != LS_F32 && c->recipe->precision.param != LS_F64)
        ls_str_printf(out,
                      "note    compute in %s: gradients are rounded to it before they are summed in %s\n",
                      ls_dtype_name(c->recipe->precision.param), ls_dtype_name(c->step.parallel.reduce));
}

/* What the step would cost without parallel.slices. */
static ls_status without_slices(ls_step_cost *out, const ls_compiled_recipe *c)
{
    ls_compiled_recipe plain = *c;
    ls_parallel *p = &plain.setup.trainer.parallel;
    p->slices = 0;
    if (!*ls_mesh_axis(&p->mesh, LS_ROLE_TENSOR)) { /* else they are refused */
        p->sequence = false;
        p->tensor = "auto";
    }
    LS_TRY(ls_setup_compile(&plain.step, &plain.setup, plain.recipe, plain.calibration));
    ls_step_cost_of(out, &plain);
    ls_compiled_release(&plain.step);
    return LS_OK;
}

static void slices_text(ls_str *out, const ls_compiled_recipe *c, const ls_step_cost *cost,
                        const ls_step_cost *plain)
{
    char a[32];
    if (!c->step.parallel.slices)
        return;
    ls_str_printf(out, "slices  %lld; without them a step takes %s, %.3f GFLOP, %d kernels instead of %d",
                  (long long)c->step.parallel.slices, ls_format_bytes(a, plain->memory.total),
                  1e-9 * plain->flops, plain->kernels, cost->kernels);
    if (plain->seconds > 0)
        ls_str_printf(out, ", about %.2f ms", 1e3 * plain->seconds);
    ls_str_add(out, "\n");
}

static ls_status plan_text(const ls_ui *ui, const ls_compiled_recipe *c, const ls_step_cost *cost,
                           const ls_step_cost *plain, const ls_plan_stages *stages)
{
    ls_str s = { 0 };
    head_text(&s, c, cost);
    ls_plan_host host;
    ls_plan_host_of(&host, c, cost);
    ls_plan_host_text(&s, &host, c);
    memory_text(&s, c, cost);
    ls_plan_stages_text(&s, stages, c, cost);
    collectives_text(&s, cost);
    copies_text(&s, cost);
    time_text(&s, c, cost);
    slices_text(&s, c, cost, plain);
    const ls_status digests = digests_text(&s, c);
    if (digests != LS_OK) {
        ls_str_release(&s);
        return digests;
    }
    promise_text(&s, c, cost);
    for (int i = 0; i < LS_PROGRAMS; i++) {
        ls_str_add(&s, "\n");
        ls_plan_text(&s, c->step.plans[i], 5);
    }
    return ls_print_result(ui->out, &s);
}

static ls_status digests_json(ls_json *j, const ls_compiled_recipe *c)
{
    int64_t bytes;
    int copies;
    if (!c->recipe->failure.digest_every)
        return LS_OK;
    LS_TRY(ls_replicas_cost(&bytes, &copies, &c->step));
    ls_json_object(j, "digests");
    ls_json_int(j, "every", c->recipe->failure.digest_every);
    ls_json_int(j, "bytes", bytes);
    ls_json_f64(j, "seconds", (double)bytes / ls_replicas_speed());
    ls_json_int(j, "copies", copies);
    ls_json_close_object(j);
    return LS_OK;
}

/* NAN, which is null: no time is known. */
static void rate_json(ls_json *j, const ls_compiled_recipe *c, const ls_step_cost *cost)
{
    const int64_t steps = steps_per_epoch(c);
    const bool known = cost->seconds > 0;
    ls_json_f64(j, "samples_per_second", known ? (double)c->recipe->train.global_batch / cost->seconds : NAN);
    if (steps > 0) {
        ls_json_int(j, "steps_per_epoch", steps);
        ls_json_f64(j, "epoch_seconds", known ? cost->seconds * (double)steps : NAN);
    }
}

static ls_status plan_json(const ls_ui *ui, const ls_compiled_recipe *c, const ls_step_cost *cost,
                           const ls_step_cost *plain, const ls_plan_stages *stages)
{
    ls_json j = { 0 };
    ls_str layout = { 0 };
    ls_layout_text(&layout, &c->step);
    ls_json_object(&j, NULL);
    ls_json_text(&j, "run", c->recipe->run.name);
    ls_json_text(&j, "device", c->step.device.ops->name);
    ls_json_text(&j, "isa", c->step.device.arch->name);
    ls_json_int(&j, "threads", c->step.device.threads);
    ls_json_int(&j, "ranks", c->ranks);
    ls_json_text(&j, "layout", ls_str_text(&layout));
    ls_json_int(&j, "parameters", c->step.units.parameters);
    ls_json_int(&j, "frozen", ls_units_frozen(&c->step.units));
    ls_json_int(&j, "micro_batches", c->step.micro_batches);
    rate_json(&j, c, cost);
    ls_step_cost_json(&j, "rank", cost);
    if (c->step.parallel.slices)
        ls_step_cost_json(&j, "without_slices", plain);
    ls_plan_host host;
    ls_plan_host_of(&host, c, cost);
    ls_plan_host_json(&j, &host, c);
    ls_plan_stages_json(&j, stages, c, cost);
    const ls_status digests = digests_json(&j, c);
    if (digests != LS_OK) {
        ls_str_release(&j.out);
        ls_str_release(&layout);
        return digests;
    }
    if (c->calibration)
        ls_json_text(&j, "speeds", *c->calibration->source ? c->calibration->source : "measured");
    ls_json_object(&j, "programs");
    for (int i = 0; i < LS_PROGRAMS; i++)
        ls_plan_json(&j, ls_program_names[i], c->step.plans[i], 5);
    ls_json_close_object(&j);
    ls_json_close_object(&j);
    ls_str_inherit(&j.out, &layout);
    ls_str_release(&layout);
    return ls_print_result(ui->out, &j.out);
}

static ls_status plan_run(const ls_plan_command_opts *o, const ls_ui *ui)
{
    if (o->n_compare)
        return ls_plan_compare(o, ui);
    if (o->simulate)
        return ls_plan_simulate(o, ui);
    if (o->search)
        return ls_plan_search(o, ui);
    ls_compiled_recipe c;
    ls_step_cost cost, plain = { 0 };
    ls_status s = ls_compiled_recipe_make(&c, &o->recipe, 0, &o->where);
    if (s != LS_OK)
        return o->where.ranks_per_host ? ls_workers_would(&o->recipe, o->where.ranks_per_host, s) : s;
    s = o->measure ? ls_compiled_recipe_measure(&c) : LS_OK;
    if (s != LS_OK) {
        ls_compiled_recipe_release(&c);
        return s;
    }
    ls_step_cost_of(&cost, &c);
    ls_plan_stages stages;
    s = ls_plan_stages_make(&stages, &cost, &c, &o->recipe, &o->where, o->measure);
    if (s == LS_OK && c.step.parallel.slices)
        s = without_slices(&plain, &c);
    if (s == LS_OK)
        s = (o->json ? plan_json : plan_text)(ui, &c, &cost, &plain, &stages);
    ls_plan_stages_release(&stages);
    ls_compiled_recipe_release(&c);
    return s;
}

ls_status ls_plan_command(const ls_plan_command_opts *given, const ls_ui *ui)
{
    ls_plan_command_opts o = *given;
    ls_machine m;
    ls_arena a;
    ls_arena_init(&a);
    ls_status s = o.machine ? ls_machine_load(&m, &a, o.machine) : LS_OK;
    if (s != LS_OK) {
        s = ls_fail_in(s, "--machine");
    } else {
        o.where.machine = o.machine ? &m : NULL;
        s = plan_run(&o, ui);
    }
    ls_arena_release(&a);
    return s;
}
