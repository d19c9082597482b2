/* resnet_step.c - forward and backward of tutorial 2's ResNet18, without the optimizer, and where the time
 * goes.
 *
 *   bench_resnet_step [isa|best] [threads] [batch] [size]
 *
 * Steps take turns with a burst of multiply-adds; the share is that of the nominal FLOPs (bench/conv.c) at
 * the best of both. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/cpu/isa.h"
#include "base/sys.h"
#include "passes/autodiff.h"
#include "lockstep/models.h"
#include "ops/rules.h"
#include "graph/identity.h"
#include "passes/objective.h"
#include "passes/passes.h"
#include "device/cpu/peak_rate.h"
#include "execute/trace.h"

/* The step's graph: the gradient of every parameter is an output. */
static ls_status build(ls_graph **g, const ls_resnet_config *c, int64_t batch)
{
    ls_value loss = LS_NONE, wrt[256], grads[256];
    int n = 0;
    LS_TRY(ls_graph_create(g, "step"));
    LS_TRY(ls_resnet_build(*g, c, batch));
    ls_objective o;
    LS_TRY(ls_objective_lower(&o, *g, batch, true));
    ls_objective_release(&o);
    for (int i = 0; i < (*g)->n_outputs; i++)
        if ((*g)->outputs[i].is.what == LS_IS_LOSS)
            loss = (*g)->outputs[i].value;
    for (int i = 0; i < (*g)->n_nodes; i++)
        if ((*g)->nodes[i]->op == &ls_op_param)
            wrt[n++] = (*g)->nodes[i]->out[0];
    LS_TRY(ls_backward(*g, loss, ls_fill(*g, LS_SCALAR(LS_F32), 1.0), n, wrt, grads));
    for (int i = 0; i < n; i++)
        (ls_output)(*g, ls_arena_printf(&(*g)->arena, "grad.%d", i), grads[i]);
    LS_TRY(ls_pass_cse(g));
    LS_TRY(ls_pass_dce(g));
    LS_TRY(ls_pass_fuse(g));
    return ls_pass_dce(g);
}

static ls_status fill(const ls_plan *p, ls_session *s)
{
    for (int i = 0; i < p->n_allocs; i++) {
        ls_place to;
        if (!p->allocs[i].name || ls_session_place(s, p->allocs[i].name, &to) != LS_OK)
            continue;
        const size_t bytes = ls_type_bytes(&to.type);
        void *x = calloc(bytes + 1, 1);
        LS_TRY(ls_sys_have(x));
        for (int64_t k = 0; k < ls_type_count(&to.type); k++)
            if (to.type.dtype == LS_F32)
                ((float *)x)[k] = to.type.ndim == 4 ? (float)((k * 37 + 11) % 101 - 50) * 1e-3f : 1.0f;
            else if (to.type.dtype == LS_U8)
                ((uint8_t *)x)[k] = (uint8_t)(k * k % 251);
        const ls_status written = ls_session_write(&to, x, bytes);
        free(x);
        LS_TRY(written);
    }
    return LS_OK;
}

static ls_status measure(const ls_device *d, const ls_resnet_config *c, int64_t batch)
{
    ls_graph *g = NULL;
    ls_plan *p = NULL;
    ls_session *s = NULL;
    ls_profile *profile = NULL;
    LS_TRY(build(&g, c, batch));
    LS_TRY(ls_plan_create(&p, g, d, NULL));
    LS_TRY(ls_session_create(&s, 1, &p, NULL));
    LS_TRY(ls_profile_create(&profile));
    LS_TRY(fill(p, s));
    LS_TRY(ls_session_run(s, 0, false));
    double best = 1e9, burst = 0;
    for (int i = 0; i < 12; i++) {
        const double rate = ls_cpu_peak_rate(d->arch, LS_F32, d->threads, 1), begin = ls_now();
        LS_TRY(ls_session_run(s, 0, false));
        const double seconds = ls_now() - begin;
        best = seconds < best ? seconds : best;
        burst = rate > burst ? rate : burst;
    }
    ls_session_profile(s, true);
    for (int i = 0; i < 3; i++) {
        LS_TRY(ls_session_run(s, 0, false));
        ls_profile_add(profile, s, 0);
    }
    ls_str text = { 0 };
    ls_profile_table(&text, profile, NULL, 80);
    printf("%s\n%s, %d threads, %d pictures of %d: %.1f ms, %.1f GFLOP, %.1f GFLOP/s, burst %.1f: %.0f %%; "
           "session %.0f MB\n",
           ls_str_text(&text), d->arch->name, d->threads, (int)batch, (int)c->image_size, best * 1e3,
           p->flops * 1e-9, p->flops / best * 1e-9, burst * 1e-9, 100 * p->flops / best / burst,
           (double)ls_session_bytes(s) * 1e-6);
    ls_str_release(&text);
    ls_profile_destroy(&profile);
    ls_session_destroy(&s);
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);
    return LS_OK;
}

int main(int argc, char **argv)
{
    ls_isa isa = ls_isa_best();
    const char *word = argc > 1 ? argv[1] : "best";
    const int64_t batch = argc > 3 ? atoi(argv[3]) : 64, size = argc > 4 ? atoi(argv[4]) : 28;
    ls_device d;
    if (argc > 5 || (strcmp(word, "best") && !ls_isa_parse(word, &isa)) || batch < 2 || size < 1) {
        fprintf(stderr, "usage: bench_resnet_step [level|best] [threads] [batch] [size]\n");
        return 2;
    }
    const ls_resnet_config c = { .depth = 18,
                                 .image_size = size,
                                 .in_channels = size > 100 ? 3 : 1,
                                 .classes = 10,
                                 .mean = 0.5,
                                 .std = 0.5 };
    if (ls_device_open(&d, "cpu",
                       &(ls_device_opts){ .isa = ls_isa_name(isa),
                                          .threads = argc > 2 ? atoi(argv[2]) : 1,
                                          .kernels = "own" }) ||
        measure(&d, &c, batch)) {
        fprintf(stderr, "%s\n", ls_error_message());
        return 1;
    }
    return 0;
}
