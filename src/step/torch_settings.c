/* torch_settings.c - see torch_settings.h. */
#include "torch_settings.h"

#include <math.h>
#include <string.h>

#include "trainer.h"

/* Appends what a kind of optimizer has beside the settings of all. */
static int add_own(ls_dcp_setting *out, const ls_optimizer *o)
{
    const ls_dcp_setting adam[] = {
        { "betas", LS_DCP_PAIR, o->beta1, o->beta2 },
        { "eps", LS_DCP_FLOAT, o->eps, 0 },
        { "amsgrad", LS_DCP_BOOL, false, 0 },
        { "capturable", LS_DCP_BOOL, false, 0 },
        { "decoupled_weight_decay", LS_DCP_BOOL, o->kind == LS_ADAMW, 0 },
    };
    const ls_dcp_setting sgd[] = {
        { "momentum", LS_DCP_FLOAT, o->momentum, 0 },
        { "dampening", LS_DCP_FLOAT, o->dampening, 0 },
        { "nesterov", LS_DCP_BOOL, o->nesterov, 0 },
    };
    switch (o->kind) {
    case LS_ADAM:
    case LS_ADAMW: memcpy(out, adam, sizeof adam); return (int)(sizeof adam / sizeof adam[0]);
    case LS_SGD: memcpy(out, sgd, sizeof sgd); return (int)(sizeof sgd / sizeof sgd[0]);
    case LS_LION: out[0] = adam[0]; return 1; /* its published implementation stores these */
    case LS_MUON:
    case LS_ADAFACTOR: break;
    }
    return 0;
}

int ls_torch_settings(ls_dcp_setting list[LS_TORCH_MOST], const ls_optimizer *o, double lr, double initial,
                      double weight_decay)
{
    const ls_dcp_setting all[] = {
        { "lr", LS_DCP_FLOAT, lr, 0 },
        { "initial_lr", LS_DCP_FLOAT, initial, 0 }, /* which PyTorch's schedulers read */
        { "weight_decay", LS_DCP_FLOAT, weight_decay, 0 },
        { "maximize", LS_DCP_BOOL, false, 0 },
        { "foreach", LS_DCP_NONE, 0, 0 },
        { "differentiable", LS_DCP_BOOL, false, 0 },
        { "fused", LS_DCP_NONE, 0, 0 },
    };
    const int n = (int)(sizeof all / sizeof all[0]), own = add_own(list + n, o);
    memcpy(list, all, sizeof all);
    return own ? n + own : 0;
}

static void write_setting(ls_json *j, const ls_dcp_setting *s)
{
    switch (s->kind) {
    case LS_DCP_NONE: ls_json_text(j, s->name, NULL); return;
    case LS_DCP_BOOL: ls_json_bool(j, s->name, s->a != 0); return;
    case LS_DCP_FLOAT: ls_json_f64(j, s->name, s->a); return;
    case LS_DCP_PAIR:
        ls_json_array(j, s->name);
        ls_json_f64(j, NULL, s->a);
        ls_json_f64(j, NULL, s->b);
        ls_json_close_array(j);
    }
}

static void write_group(ls_json *j, const ls_compiled *c, int group, double lr)
{
    const ls_optimizer_group *g = group ? &c->groups[group - 1]
                                        : &(ls_optimizer_group){ LS_OPTIMIZER_GROUP_DEFAULTS };
    ls_dcp_setting list[LS_TORCH_MOST];
    const int n = ls_torch_settings(list, &c->optimizer, lr * g->lr_factor, lr * g->lr_factor,
                                    g->weight_decay < 0 ? c->optimizer.weight_decay : g->weight_decay);
    ls_json_object(j, NULL);
    for (int i = 0; i < n; i++)
        write_setting(j, &list[i]);
    ls_json_array(j, "params");
    for (int i = 0; i < c->units.n_slots; i++)
        if (!c->units.slots[i].frozen && c->units.slots[i].group == group)
            ls_json_text(j, NULL, c->units.slots[i].name);
    ls_json_close_array(j);
    ls_json_close_object(j);
}

void ls_torch_groups_write(ls_json *j, const ls_trainer *t)
{
    const ls_compiled *c = &t->compiled;
    ls_dcp_setting unused[LS_TORCH_MOST];
    ls_json_f64(j, "lr", t->last_lr);
    if (isnan(t->last_lr) || !ls_torch_settings(unused, &c->optimizer, 0, 0, 0)) {
        ls_json_text(j, "param_groups", NULL);
        return;
    }
    ls_json_array(j, "param_groups");
    for (int group = 0; group <= c->n_groups; group++)
        write_group(j, c, group, t->last_lr);
    ls_json_close_array(j);
}
