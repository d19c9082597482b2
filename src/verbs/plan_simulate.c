/* plan_simulate.c - see plan_simulate.h. */
#include "plan_simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/shown.h"
#include "base/str.h"
#include "base/sys.h"
#include "pages/simulate_page.h"
#include "plan_machine.h"
#include "stage_players.h"
#include "step_cost.h"

enum { SHOWN = 10 };

typedef struct job {
    const ls_plan_command_opts *o;
    ls_stage_players p;
    const char **lanes; /* [players] */
    const char ***what; /* [players][spans]: ls_sim_result */
    ls_sim_wait *waits;
    ls_sim_result result;
} job;

/* "ranks 0-3, 8", "rank 2" */
static void ranks_text(ls_str *out, const job *j, int player)
{
    int count = 0, runs = 0;
    for (int r = 0; r < j->p.ranks; r++)
        count += j->p.player_of[r] == player;
    ls_str_printf(out, "rank%s ", count == 1 ? "" : "s");
    for (int r = 0; r < j->p.ranks; r++) {
        if (j->p.player_of[r] != player || (r && j->p.player_of[r - 1] == player))
            continue;
        int end = r;
        while (end + 1 < j->p.ranks && j->p.player_of[end + 1] == player)
            end++;
        if (runs++ == 4) {
            ls_str_printf(out, ", ... (%d)", count);
            break;
        }
        ls_str_printf(out, "%s%d", runs > 1 ? ", " : "", r);
        if (end > r)
            ls_str_printf(out, "-%d", end);
    }
    if (j->p.n > 1)
        ls_str_printf(out, " (position %d of the pipeline)", player);
}

static ls_status name_lanes(job *j)
{
    j->lanes = LS_ARENA_ARRAY(&j->p.arena, const char *, j->p.n);
    LS_TRY(ls_arena_status(&j->p.arena));
    for (int k = 0; k < j->p.n; k++) {
        ls_str text = { 0 };
        ranks_text(&text, j, k);
        j->lanes[k] = ls_arena_printf(&j->p.arena, "%s", ls_str_text(&text));
        ls_str_release(&text);
    }
    return ls_arena_status(&j->p.arena);
}

static int longer(const void *pa, const void *pb)
{
    const ls_sim_wait *a = pa, *b = pb;
    return a->seconds != b->seconds ? (a->seconds < b->seconds) - (a->seconds > b->seconds)
                                    : a->player - b->player;
}

/* What a player waits for: the same collective of other blocks counts as one. */
static const char *what_of(job *j, const ls_player *p, const ls_sim_span *s)
{
    const ls_plan *plan = p->programs[s->program];
    const ls_plan_collective *c = &plan->collectives[plan->steps[s->step].collective];
    static const char *const PHASES[] = {
        [LS_PHASE_FORWARD] = "forward", [LS_PHASE_BACKWARD] = "backward", [LS_PHASE_UPDATE] = "update"
    };
    const char *phase = PHASES[plan->graph->nodes[c->node]->phase];
    if (s->kind == LS_SIM_COLLECTIVE)
        return ls_arena_printf(&j->p.arena, "%s over %s, %s", ls_collective_name(c->kind), c->group, phase);
    return ls_arena_printf(&j->p.arena, "%s position %d, %s",
                           s->kind == LS_SIM_SEND ? "room to send to" : "values of", c->peer, phase);
}

static ls_status find_waits(job *j)
{
    int room = 0;
    j->what = LS_ARENA_ARRAY(&j->p.arena, const char **, j->p.n);
    LS_TRY(ls_arena_status(&j->p.arena));
    j->result.what = (const char *const *const *)j->what;
    for (int k = 0; k < j->p.n; k++) {
        j->what[k] = LS_ARENA_ARRAY(&j->p.arena, const char *, j->p.players[k].n_spans);
        LS_TRY(ls_arena_status(&j->p.arena));
        for (int i = 0; i < j->p.players[k].n_spans; i++) {
            const ls_sim_span *s = &j->p.players[k].spans[i];
            j->what[k][i] = "";
            if (s->kind == LS_SIM_COMPUTE)
                continue;
            const char *what = what_of(j, &j->p.players[k], s);
            LS_TRY(ls_arena_status(&j->p.arena));
            int w = 0;
            while (w < j->result.n_waits && (j->waits[w].player != k || strcmp(j->waits[w].what, what)))
                w++;
            if (w == room) {
                ls_sim_wait *more = ls_sys_grow(j->waits, w, &room, sizeof *more);
                LS_TRY(ls_sys_have(more));
                j->waits = more;
            }
            if (w == j->result.n_waits)
                j->waits[j->result.n_waits++] = (ls_sim_wait){ .player = k, .what = what };
            const double seconds = s->to - s->from;
            j->what[k][i] = j->waits[w].what;
            j->waits[w].times++;
            j->waits[w].seconds += seconds;
            if (seconds > j->waits[w].longest) {
                j->waits[w].longest = seconds;
                j->waits[w].at = s->from;
            }
        }
    }
    if (j->result.n_waits)
        qsort(j->waits, (size_t)j->result.n_waits, sizeof *j->waits, longer);
    j->result.waits = j->waits;
    return LS_OK;
}

static ls_status simulate_text(const job *j, const ls_ui *ui)
{
    char a[32], b[32], d[32];
    const ls_sim_result *r = &j->result;
    ls_str out = { 0 };
    ls_str_printf(&out, "%s, simulated: %s a step on %s%s%s\n", r->name, ls_format_duration(a, r->seconds),
                  r->place, *r->layout ? ": " : "", r->layout);
    ls_str_printf(&out, "%9s %12s %9s %9s %11s\n", "computes", "collectives", "receives", "sends",
                  "done early");
    for (int k = 0; k < r->n; k++) {
        const ls_player *p = &r->players[k];
        const double *x = p->by_kind, all = r->seconds / 100;
        ls_str_printf(&out, "%7.1f %% %10.1f %% %7.1f %% %7.1f %% %9.1f %%  %s\n", x[LS_SIM_COMPUTE] / all,
                      x[LS_SIM_COLLECTIVE] / all, x[LS_SIM_RECEIVE] / all, x[LS_SIM_SEND] / all,
                      (r->seconds - p->seconds) / all, r->lanes[k]);
    }
    ls_str_add(&out, r->n_waits ? "waits, the longest first\n" : "it waits for nothing\n");
    for (int i = 0; i < r->n_waits && i < SHOWN; i++) {
        const ls_sim_wait *w = &r->waits[i];
        ls_str_printf(&out, "%10s  %4d x  %s: %s; longest %s, at %s\n", ls_format_duration(a, w->seconds),
                      w->times, r->lanes[w->player], w->what, ls_format_duration(b, w->longest),
                      ls_format_duration(d, w->at));
    }
    return ls_print_result(ui->out, &out);
}

static ls_status simulate_json(const job *j, const ls_ui *ui)
{
    const ls_sim_result *r = &j->result;
    ls_json o = { 0 };
    ls_json_object(&o, NULL);
    ls_json_f64(&o, "seconds", r->seconds);
    ls_json_int(&o, "ranks", j->p.ranks);
    ls_json_text(&o, "place", r->place);
    ls_json_text(&o, "layout", r->layout);
    ls_json_array(&o, "players");
    for (int k = 0; k < r->n; k++) {
        ls_json_object(&o, NULL);
        ls_json_text(&o, "ranks", r->lanes[k]);
        ls_json_int(&o, "rank", r->players[k].rank);
        for (int i = 0; i < LS_SIM_KINDS; i++)
            ls_json_f64(&o, LS_SIM_NAMES[i], r->players[k].by_kind[i]);
        ls_json_f64(&o, "done", r->players[k].seconds);
        ls_json_close_object(&o);
    }
    ls_json_close_array(&o);
    ls_json_array(&o, "waits");
    for (int i = 0; i < r->n_waits; i++) {
        ls_json_object(&o, NULL);
        ls_json_int(&o, "player", r->waits[i].player);
        ls_json_text(&o, "what", r->waits[i].what);
        ls_json_int(&o, "times", r->waits[i].times);
        ls_json_f64(&o, "seconds", r->waits[i].seconds);
        ls_json_f64(&o, "longest", r->waits[i].longest);
        ls_json_f64(&o, "at", r->waits[i].at);
        ls_json_close_object(&o);
    }
    ls_json_close_array(&o);
    ls_json_close_object(&o);
    return ls_print_result(ui->out, &o.out);
}

static ls_status simulate_run(job *j, const ls_compiled_recipe *c, const ls_ui *ui)
{
    for (int k = 0; k < j->p.n; k++)
        if (!(j->p.compiled[k]->step.plans[LS_MICRO]->seconds > 0))
            return ls_fail(LS_E_USAGE,
                           "--simulate plays times, and nothing was measured with %d thread%s: run `lockstep "
                           "doctor` first, or add --measure or --machine",
                           c->step.device.threads, c->step.device.threads == 1 ? "" : "s");
    LS_TRY(name_lanes(j));
    ls_step_cost cost;
    ls_plan_host host;
    ls_step_cost_of(&cost, c);
    ls_plan_host_of(&host, c, &cost);
    if ((c->machine || c->step.device.here) && ls_plan_host_lacks(&host))
        ls_log_warn("the step does not fit (%s): `lockstep plan` without --simulate says what it needs",
                    ls_plan_host_lacks(&host));
    const int each = c->ranks_per_host > 0 && c->ranks_per_host < c->ranks ? c->ranks_per_host : c->ranks,
              hosts = c->ranks / each;
    ls_str layout = { 0 };
    if (c->ranks > 1)
        ls_layout_text(&layout, &c->step);
    j->result = (ls_sim_result){ .name = c->recipe->run.name,
                                 .layout = ls_arena_printf(&j->p.arena, "%s", ls_str_text(&layout)),
                                 .place = ls_arena_printf(&j->p.arena, "%d rank%s on %d host%s%s%s", c->ranks,
                                                          c->ranks == 1 ? "" : "s", hosts,
                                                          hosts == 1 ? "" : "s", c->machine ? " of " : "",
                                                          c->machine ? c->machine->name : ""),
                                 .n = j->p.n,
                                 .players = j->p.players,
                                 .lanes = j->lanes };
    ls_str_release(&layout);
    LS_TRY(ls_stage_players_play(&j->result.seconds, &j->p));
    LS_TRY(find_waits(j));
    LS_TRY(ls_arena_status(&j->p.arena));
    if (j->o->html) {
        LS_TRY(ls_simulate_page(j->o->html, &j->result));
        ls_log_info("the simulated step is in %s: open it in a browser", j->o->html);
    }
    return (j->o->json ? simulate_json : simulate_text)(j, ui);
}

ls_status ls_plan_simulate(const ls_plan_command_opts *o, const ls_ui *ui)
{
    job j = { .o = o };
    ls_compiled_recipe first;
    LS_TRY(ls_compiled_recipe_make(&first, &o->recipe, 0, &o->where));
    ls_status s = o->measure ? ls_compiled_recipe_measure(&first) : LS_OK;
    if (s == LS_OK) {
        s = ls_stage_players_make(&j.p, &first, &o->recipe, &o->where, o->measure);
        if (s == LS_OK)
            s = simulate_run(&j, &first, ui);
        ls_stage_players_release(&j.p);
    }
    ls_compiled_recipe_release(&first);
    free(j.waits);
    return s;
}
