/* test_initial.c - initial values are made part by part: what a trainer then has is what the whole parameter
 * would get, on any ranks, also where a parameter is larger than a part; a state that has another value gets
 * its first one again. */
#include <stdlib.h>
#include <string.h>

#include "golden/training.h"
#include "lockstep/nn.h"
#include "models/classifier.h"
#include "nn/init.h"
#include "support/ranks.h"

enum { SIZE = 32, OUT = 2100, SEED = 11 }; /* a weight of 2,150,400 elements: more than two parts */

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    const ls_value x = ls_image_input(g, batch, 1, SIZE, 0.5, 0.5, NULL, NULL),
                   track = ls_graph_is_evaluation(g) ? LS_NONE : ls_track(g),
                   h = ls_linear(g, "fc1", ls_reshape(g, x, batch, -1), OUT),
                   y = ls_batch_norm(g, "bn", ls_reshape(g, h, batch, OUT, 1, 1), .track = track);
    ls_classifier_outputs(g, ls_linear(g, "fc2", ls_reshape(g, y, batch, OUT), 5), NULL);
    return ls_graph_finish(g);
}

static ls_status check_parameters(ls_group *g, ls_trainer *t)
{
    ls_named_tensor p[6];
    const int n = training_parameters(t, p, 6);
    RANK_CHECK(n == 6);
    for (int i = 0; i < n; i++) {
        const ls_slot *s = &t->compiled.units.slots[i];
        const size_t bytes = ls_type_bytes(&s->whole);
        void *want = malloc(bytes);
        ls_init_values(want, s->whole.dtype, 0, ls_type_count(&s->whole), s->init, SEED, s->name, 1);
        const bool same = !memcmp(want, p[i].tensor.data, bytes);
        free(want);
        RANK_CHECK(same);
    }
    training_release(p, n);
    return LS_OK;
}

static ls_status check_buffers(ls_group *g, ls_trainer *t, float variance)
{
    ls_named_tensor b[3];
    RANK_CHECK(training_buffers(t, b, 3) == 3);
    for (int i = 0; i < OUT; i++)
        RANK_CHECK(((float *)b[0].tensor.data)[i] == 0 && ((float *)b[1].tensor.data)[i] == variance);
    training_release(b, 3);
    return LS_OK;
}

static ls_status rank(ls_group *g, void *context)
{
    const int ranks = ls_group_size(g);
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .micro_batch = 2, .micro_batches = ranks, .threads = 2,
                          .group = g };
    ls_trainer *t;
    ls_named_tensor b[3];
    o.parallel.mesh.axes[0].size = ranks;
    o.parallel.rank = ls_group_rank(g);
    o.parallel.data = *(const ls_data_parallel *)context;
    LS_TRY(ls_trainer_create_with(&t, build, NULL, &o));
    LS_TRY(ls_trainer_init(t, SEED));
    LS_TRY(check_parameters(g, t));
    LS_TRY(check_buffers(g, t, 1));
    RANK_CHECK(training_buffers(t, b, 3) == 3); /* mean and variance are moved, and come back */
    for (int i = 0; i < OUT; i++)
        ((float *)b[0].tensor.data)[i] = ((float *)b[1].tensor.data)[i] = 7;
    LS_TRY(training_set(t, b, 2));
    training_release(b, 3);
    LS_TRY(ls_trainer_init(t, SEED));
    LS_TRY(check_parameters(g, t));
    LS_TRY(check_buffers(g, t, 1));
    ls_trainer_destroy(&t);
    return LS_OK;
}

static void parts_make_the_whole(void **state)
{
    (void)state;
    static const ls_data_parallel WAYS[] = { LS_DATA_DDP, LS_DATA_FSDP };
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int k = 0; k < 2; k++)
            ASSERT_OK(run_ranks(ranks, rank, (void *)(uintptr_t)&WAYS[k]));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(parts_make_the_whole) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
