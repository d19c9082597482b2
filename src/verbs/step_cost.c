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

/* Of the samples that this rank computes in a step, read ahead. */
static size_t loader_bytes(const ls_compiled *s)
{
    const ls_graph *g = s->plans[LS_MICRO]->graph;
    const ls_loader_options o = { LS_LOADER_DEFAULTS };
    return ls_loader_bytes((size_t)s->share.count * ls_field_bytes(g), o.ring);
}

void ls_step_cost_of(ls_step_cost *out, const ls_compiled_recipe *c)
{
    const ls_compiled *s = &c->step;
    *out = (ls_step_cost){ .tree = ls_compiled_tree_bytes(s),
                           .staging = s->staging_bytes,
                           .micro_batch = s->micro_batch,
                           .runs = s->share.count,
                           .flops = ls_compiled_flops(s),
                           .seconds = ls_compiled_seconds(s) };
    ls_plans_footprint(&out->memory, LS_PROGRAMS, s->plans);
    memcpy(out->by_category, out->memory.by_category, sizeof out->by_category);
    out->by_category[LS_CAT_GRADIENTS] += out->tree;
    out->by_category[LS_CAT_STAGING] = out->staging;
    out->total = out->memory.total + out->tree + out->staging;
    /* they are of the gradients that rest there */
    out->memory.host += s->units.sharding.offload ? out->tree : 0;
    out->n_traffic = ls_plan_traffic(out->traffic, 0, s->plans[LS_MICRO], s->share.count);
    out->n_traffic = ls_plan_traffic(out->traffic, out->n_traffic, s->plans[LS_UPDATE], 1);
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
    out->loader = loader_bytes(s);
    out->same_bits = ls_setup_same_bits(out->why, c->recipe, s);
}

static void memory_json(ls_json *j, const ls_step_cost *s)
{
    ls_json_object(j, "memory");
    ls_json_int(j, "total", (int64_t)s->total);
    ls_json_int(j, "state", (int64_t)s->memory.state);
    ls_json_int(j, "io", (int64_t)s->memory.io);
    ls_json_int(j, "arena", (int64_t)s->memory.arena);
    ls_json_int(j, "window_arena", (int64_t)s->memory.symmetric);
    ls_json_int(j, "micro_batch_sums", (int64_t)s->tree);
    ls_json_int(j, "staging", (int64_t)s->staging);
    ls_json_int(j, "of_it_window", (int64_t)s->memory.window);
    ls_json_int(j, "of_it_host", (int64_t)s->memory.host);
    ls_json_int(j, "node", (int64_t)s->memory.node);
    ls_json_int(j, "messages", (int64_t)s->messages);
    ls_json_int(j, "loader", (int64_t)s->loader);
    ls_json_object(j, "peak");
    for (int i = 0; i < LS_CAT_COUNT; i++)
        ls_json_int(j, ls_category_name((ls_category)i), (int64_t)s->by_category[i]);
    ls_json_close_object(j);
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
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
    ls_json_f64(j, "bytes", s->bytes);
    ls_json_bool(j, "same_bits", s->same_bits);
    ls_json_text(j, "same_bits_why", s->same_bits ? NULL : s->why);
    ls_json_close_object(j);
}
