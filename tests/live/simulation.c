#include "simulation.h"

#include <math.h>

#include "base/hash.h"
#include "golden/training.h"

ls_status simulation_model(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, batch, IN)),
             y = ls_input(g, "y", LS_TYPE(LS_F32, batch, OUT)),
             id = ls_input(g, "id", LS_TYPE(LS_I32, batch));
    ls_value p = ls_linear(g, "out", ls_tanh(g, ls_linear(g, "in", x, 8)), OUT);
    ls_loss(g, "mse", ls_square(g, ls_sub(g, p, y)), 1, LS_BY_ELEMENT, NULL);
    ls_loss(g, "class", ls_cross_entropy(g, p, id), 0.125, LS_BY_VALID, "id");
    ls_measure(g, "worst", ls_square(g, ls_sub(g, p, y)), LS_LARGEST, LS_BY_SAMPLE, NULL);
    return ls_graph_finish(g);
}

ls_status simulation_trainer(ls_trainer **out, ls_group *g)
{
    ls_trainer_opts o = ls_trainer_opts_default();
    const int ranks = g ? ls_group_size(g) : 1;
    o.threads = 1;
    o.micro_batch = MICRO;
    o.micro_batches = ranks;
    o.padding = true;
    o.parallel.mesh.axes[0].size = ranks;
    o.parallel.rank = g ? ls_group_rank(g) : 0;
    o.group = g;
    LS_TRY(ls_trainer_create_with(out, simulation_model, NULL, &o));
    return ls_trainer_init(*out, 7);
}

void simulation_sample(int64_t id, float x[IN], float y[OUT])
{
    for (int k = 0; k < IN; k++)
        x[k] = (float)sin(0.37 * (double)id + k);
    y[0] = x[0] * x[1];
    y[1] = x[2] - x[0];
}

ls_status simulation_put(ls_live *q, int64_t first, int64_t m)
{
    enum { MOST = 512 };
    static _Thread_local double x[MOST][IN + 2];
    static _Thread_local float y[MOST][OUT];
    static _Thread_local int32_t id[MOST];
    for (int64_t i = 0; i < m; i++) {
        float one[IN];
        simulation_sample(first + i, one, y[i]);
        for (int k = 0; k < IN; k++)
            x[i][k + 1] = (double)one[k];
        id[i] = (first + i) % 5 == 0 ? LS_IGNORE_LABEL : (int32_t)((first + i) % OUT);
    }
    const ls_tensor fields[] = { { &x[0][1], LS_TYPE(LS_F64, m, IN), { IN + 2, 1 } },
                                 ls_tensor_of(y, &LS_TYPE(LS_F32, m, OUT)),
                                 ls_tensor_of(id, &LS_TYPE(LS_I32, m)) };
    LS_TRY(ls_live_put(q, "x", &fields[0]));
    LS_TRY(ls_live_put(q, "y", &fields[1]));
    return ls_live_put(q, "id", &fields[2]);
}

ls_status simulation_push(ls_live *q, int64_t first, int64_t m)
{
    LS_TRY(simulation_put(q, first, m));
    return ls_live_push(q, m);
}

uint64_t simulation_weights(ls_trainer *t)
{
    ls_named_tensor p[8];
    uint64_t h = 0;
    const int n = training_parameters(t, p, 8);
    for (int i = 0; i < n; i++)
        h = ls_hash64_more(h, p[i].tensor.data, ls_type_bytes(&p[i].tensor.type));
    training_release(p, n);
    return n > 0 ? h : 0;
}
