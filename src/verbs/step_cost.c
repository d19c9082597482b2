/* step_cost.c - sums over the programs of a step: this rank's runs of `micro`, and one run of `update`. */
#include "step_cost.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "comm/axes.h"
#include "comm/comm.h"
#include "comm/remote.h"
#include "data/loader.h"
#include "ops/rules.h"
#include "step/trainer.h"

/* Of the samples that this rank computes in a step, read ahead; beside them those of an evaluation, if its
 * batch is not the micro-batch. */
static size_t loader_bytes(const ls_compiled *s)
{
    const ls_loader_options o = { LS_LOADER_DEFAULTS };
    const size_t step = (size_t)ls_compiled_runs(s) * ls_field_bytes(s->plans[LS_MICRO]->graph),
                 eval = s->eval_batch == s->micro_batch ? 0 : ls_field_bytes(s->plans[LS_EVAL]->graph);
    return ls_loader_bytes(step, o.ring) + (eval ? ls_loader_bytes(eval, o.ring) : 0);
}

/* Seconds of copies that are not steps of a program: its queue does them between its kernels. */
static double copy_seconds(const ls_transfers *t, const ls_calibration *c)
{
    return c && c->to_device > 0 && c->to_host > 0
               ? (t->to_device - t->fetched) / c->to_device + (t->to_host - t->rested) / c->to_host
               : 0;
}

static void count_messages(ls_step_cost *out, const ls_compiled *s)
{
    for (int program = LS_MICRO; program <= LS_UPDATE; program++) {
        const ls_plan *p = s->plans[program];
        for (int i = 0; i < p->n_collectives; i++)
            ls_message_count_add(&out->sent, &p->collectives[i].outgoing,
                                 program == LS_MICRO ? out->runs : 1);
    }
}

void ls_step_cost_of(ls_step_cost *out, const ls_compiled_recipe *c)
{
    const ls_compiled *s = &c->step;
    *out = (ls_step_cost){ .memory = ls_compiled_memory(s),
                           .micro_batch = s->micro_batch,
                           .runs = ls_compiled_runs(s),
                           .flops = ls_compiled_flops(s),
                           .idle = s->idle,
                           .seconds = ls_compiled_seconds(s) };
    out->n_traffic = ls_plan_traffic(out->traffic, 0, s->plans[LS_MICRO], ls_compiled_runs(s));
    out->n_traffic = ls_plan_traffic(out->traffic, out->n_traffic, s->plans[LS_UPDATE], 1);
    ls_plans_transfers(&out->transfers, LS_PROGRAMS, s->plans,
                       (int64_t[LS_PROGRAMS]){ [LS_MICRO] = ls_compiled_runs(s), [LS_UPDATE] = 1 });
    out->copying = copy_seconds(&out->transfers, c->calibration);
    out->seconds += out->seconds > 0 ? out->copying : 0;
    for (int i = 0; i < out->n_traffic; i++) {
        out->collectives += out->traffic[i].calls;
        out->bytes += out->traffic[i].bytes;
        out->communication += out->traffic[i].seconds;
    }
    for (int i = LS_MICRO; i <= LS_UPDATE; i++) {
        out->kernels += s->plans[i]->n_kernels;
        out->measured += s->plans[i]->n_measured;
    }
    const ls_parallel *p = &s->parallel;
    if (p->ranks_per_host > 0 && p->ranks_per_host < c->ranks)
        out->messages = ls_message_bytes(c->ranks);
    count_messages(out, s);
    out->loader = loader_bytes(s);
    out->same_bits = ls_setup_same_bits(out->why, c->recipe, s);
}

static void memory_json(ls_json *j, const ls_step_cost *s)
{
    const ls_step_memory *m = &s->memory;
    const ls_footprint *f = &m->plans;
    ls_json_object(j, "memory");
    ls_json_int(j, "total", (int64_t)m->total);
    ls_json_int(j, "state", (int64_t)f->state);
    ls_json_int(j, "io", (int64_t)f->io);
    ls_json_int(j, "arena", (int64_t)f->arena);
    ls_json_int(j, "window_arena", (int64_t)f->symmetric);
    ls_json_int(j, "mailboxes", (int64_t)f->mailboxes);
    ls_json_int(j, "micro_batch_sums", (int64_t)m->spares.level_bytes);
    ls_json_int(j, "buffer_copies", (int64_t)m->spares.undo_bytes);
    ls_json_int(j, "scratch", (int64_t)m->spares.scratch_bytes);
    ls_json_int(j, "staging", (int64_t)m->saves);
    ls_json_int(j, "of_it_window", (int64_t)f->window);
    ls_json_int(j, "of_it_host", (int64_t)m->host);
    ls_json_int(j, "of_it_device", (int64_t)m->device);
    ls_json_int(j, "node", (int64_t)f->node);
    ls_json_int(j, "messages", (int64_t)s->messages);
    ls_json_int(j, "loader", (int64_t)s->loader);
    if (m->apart) {
        ls_json_object(j, "host");
        ls_json_int(j, "window", (int64_t)(f->window - f->host_window));
        ls_json_int(j, "collectives", (int64_t)m->pinned);
        ls_json_int(j, "offloaded", (int64_t)m->offloaded);
        ls_json_int(j, "staging", (int64_t)m->saves);
        ls_json_close_object(j);
    }
    ls_json_object(j, "peak");
    for (int i = 0; i < LS_CAT_COUNT; i++)
        ls_json_int(j, ls_category_name((ls_category)i), (int64_t)m->by_category[i]);
    ls_json_close_object(j);
    ls_json_close_object(j);
}

static void transfers_json(ls_json *j, const ls_transfers *t)
{
    ls_json_object(j, "transfers");
    ls_json_f64(j, "to_device", t->to_device);
    ls_json_f64(j, "inputs", t->inputs);
    ls_json_f64(j, "collective_results", t->results);
    ls_json_f64(j, "from_offload", t->fetched);
    ls_json_f64(j, "to_host", t->to_host);
    ls_json_f64(j, "outputs", t->outputs);
    ls_json_f64(j, "collective_operands", t->operands);
    ls_json_f64(j, "shared_states", t->states);
    ls_json_f64(j, "to_offload", t->rested);
    ls_json_close_object(j);
}

void ls_step_cost_json(ls_json *j, const char *key, const ls_step_cost *s)
{
    ls_json_object(j, key);
    ls_json_int(j, "micro_batch", s->micro_batch);
    ls_json_int(j, "micro_batches", s->runs);
    ls_json_f64(j, "flops", s->flops);
    ls_json_f64(j, "seconds", s->seconds > 0 ? s->seconds : NAN);
    ls_json_f64(j, "communication_seconds", s->seconds > 0 ? s->communication : NAN);
    if (s->memory.apart)
        ls_json_f64(j, "copy_seconds", s->seconds > 0 ? s->copying : NAN);
    ls_json_int(j, "kernels", s->kernels);
    ls_json_int(j, "kernels_measured", s->measured);
    memory_json(j, s);
    ls_json_array(j, "collectives");
    for (int i = 0; i < s->n_traffic; i++) {
        const ls_traffic *t = &s->traffic[i];
        ls_json_object(j, NULL);
        ls_json_text(j, "kind", ls_collective_name(t->kind));
        ls_json_text(j, "group", t->group);
        ls_json_int(j, "ranks", t->ranks);
        ls_json_bool(j, "mapped", t->map);
        ls_json_int(j, "calls", t->calls);
        ls_json_f64(j, "bytes", t->bytes);
        ls_json_f64(j, "seconds", t->seconds > 0 ? t->seconds : NAN);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
    ls_json_f64(j, "bytes", s->bytes);
    ls_json_int(j, "messages_sent", s->sent.messages);
    ls_json_f64(j, "messages_bytes", s->sent.bytes);
    ls_json_int(j, "smallest_message", s->sent.least);
    ls_json_int(j, "largest_message", s->sent.most);
    ls_json_int(j, "small_messages", s->sent.small);
    ls_json_f64(j, "small_messages_bytes", s->sent.small_bytes);
    if (s->memory.apart)
        transfers_json(j, &s->transfers);
    ls_json_bool(j, "same_bits", s->same_bits);
    ls_json_text(j, "same_bits_why", s->same_bits ? NULL : s->why);
    ls_json_close_object(j);
}
