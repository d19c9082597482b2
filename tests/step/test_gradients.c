/* test_gradients.c - the gradient of each parameter over axes that split tokens, layers, stages or experts:
 * that of one process, in f64, up to the order of sums. The first step of SGD keeps gradients as its moments.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/weights.h"
#include "step/split_model.h"
#include "support/support.h"

/* Runs a step and opens its moments. */
static ls_weights *gradients_of(job *j, const char *name)
{
    char path[600];
    ls_weights *w;
    snprintf(path, sizeof path, "%s", ls_test_path(name));
    j->save = path;
    j->first = STEPS / 2 - 1; /* the step after which a job saves */
    j->end = STEPS / 2;
    j->o.optimizer = (ls_optimizer){ .kind = LS_SGD, .momentum = 0.9 };
    j->o.clip_norm = 0;
    run_job(j);
    snprintf(path + strlen(path), sizeof path - strlen(path), "/optimizer.safetensors");
    ASSERT_OK(ls_weights_open(&w, path));
    return w;
}

static double *numbers_of(const ls_weight *t)
{
    double *x = malloc((size_t)ls_type_count(&t->type) * sizeof *x);
    assert_non_null(x);
    ASSERT_OK(ls_weight_read(t, LS_F64, x));
    return x;
}

/* Each number, up to 1e-12 of the largest one of its parameter. */
static void equal(const char *axes, const ls_weights *is, const ls_weights *want)
{
    int compared = 0;
    assert_int_equal(ls_weights_count(is), ls_weights_count(want));
    for (int64_t i = 0; i < ls_weights_count(want); i++) {
        const ls_weight *a = ls_weights_at(want, i), *b = ls_weights_find(is, a->name);
        assert_non_null(b);
        const int64_t n = ls_type_count(&a->type);
        if (a->type.dtype != LS_F64)
            continue;
        double *x = numbers_of(a), *y = numbers_of(b), largest = 0;
        for (int64_t k = 0; k < n; k++)
            largest = fmax(largest, fabs(x[k]));
        assert_true(largest > 0);
        for (int64_t k = 0; k < n; k++)
            if (!(fabs(x[k] - y[k]) <= 1e-12 * largest))
                fail_msg("%s: %s[%lld] is %.17g, of one process %.17g", axes, a->name, (long long)k, y[k],
                         x[k]);
        compared++;
        free(x);
        free(y);
    }
    assert_true(compared > 15);
}

typedef struct lie {
    const char *axes; /* NULL: the last one */
    ls_data_parallel data;
    int slices;
} lie;

static const lie LIES[] = {
    { "cp2", LS_DATA_FSDP, 0 }, { "cp2 tp2", LS_DATA_FSDP, 0 }, { "shard2 cp2", LS_DATA_FSDP, 0 },
    { "pp2", LS_DATA_FSDP, 0 }, { "dp2 pp2", LS_DATA_DDP, 0 },  { "pp2 tp2", LS_DATA_FSDP, 0 },
    { "dp1", LS_DATA_FSDP, 4 }, { "cp2", LS_DATA_FSDP, 4 },     { "cp2 tp2", LS_DATA_FSDP, 4 },
    { NULL, LS_DATA_FSDP, 0 },
};

static void of_one_process(job one, const lie *lies, const char *folder)
{
    one.o.device = "ref";
    one.o.param = one.o.output = one.o.parallel.reduce = LS_F64;
    ls_weights *want = gradients_of(&one, folder);
    for (const lie *l = lies; l->axes; l++) {
        job j = one;
        char name[64];
        j.o.parallel.mesh = mesh_of(l->axes);
        j.o.parallel.data = l->data;
        j.o.parallel.slices = l->slices;
        snprintf(name, sizeof name, "%s %s %d %d", folder, l->axes, l->data, l->slices);
        ls_weights *is = gradients_of(&j, name);
        equal(name, is, want);
        ls_weights_close(&is);
    }
    ls_weights_close(&want);
}

static job dense(void)
{
    job j = layout(1, 1, 1, LS_DATA_FSDP);
    j.model.kv_heads = 4;
    return j;
}

static void decoder(void **state)
{
    (void)state;
    of_one_process(dense(), LIES, "decoder");
}

static void encoder_and_decoder(void **state)
{
    (void)state;
    job j = dense();
    j.build = build_t5;
    j.o.parallel.units = "class:T5Block";
    of_one_process(j, LIES, "t5");
}

/* A Mixtral: each layer has experts, and a router without a bias. */
static void mixture(void **state)
{
    (void)state;
    static const lie DEALT[] = { { "ep2", LS_DATA_FSDP, 0 },     { "dp2 ep2", LS_DATA_FSDP, 0 },
                                 { "dp2 ep2", LS_DATA_DDP, 0 },  { "ep2 tp2", LS_DATA_FSDP, 0 },
                                 { "ep2 cp2", LS_DATA_FSDP, 0 }, { "ep2 pp2", LS_DATA_FSDP, 0 },
                                 { NULL, LS_DATA_FSDP, 0 } };
    job j = dense();
    j.model.tied = j.model.qkv_bias = j.model.output_bias = j.model.mlp_bias = false;
    j.model.experts = 4;
    j.model.experts_per_token = 2;
    j.model.expert_size = 12;
    j.model.experts_every = 1;
    j.model.normalize_experts = true;
    of_one_process(j, DEALT, "mixture");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoder),
        cmocka_unit_test(encoder_and_decoder),
        cmocka_unit_test(mixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
