/* test_slices.c - parallel.slices: with it the numbers of ranks on the axes of role tensor and context change
 * no bit of losses, norms, evaluations and checkpoints. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "step/split_model.h"
#include "support/support.h"

static void expect_file(const char *axes, const char *is, const char *want, const char *file)
{
    char path[600];
    char *a, *b;
    size_t n, m;
    snprintf(path, sizeof path, "%s/%s", want, file);
    ASSERT_OK(ls_file_read(&a, &n, path));
    snprintf(path, sizeof path, "%s/%s", is, file);
    ASSERT_OK(ls_file_read(&b, &m, path));
    if (n != m || memcmp(a, b, n))
        fail_msg("%s: %s has other bytes than that of one process", axes, file);
    free(a);
    free(b);
}

static bool same(const job *a, const job *b)
{
    return !memcmp(a->losses, b->losses, sizeof a->losses) && !memcmp(a->norms, b->norms, sizeof a->norms);
}

static job sliced(ls_build_fn build, int slices)
{
    job j = layout(1, 1, 1, LS_DATA_FSDP);
    j.build = build;
    j.model.kv_heads = 4;
    j.o.parallel.units = build ? "class:T5Block" : "class:Block";
    j.o.parallel.slices = slices;
    j.first = STEPS / 2 - 2;
    j.end = STEPS / 2; /* the step after which a job saves */
    return j;
}

static void expect_bits(job one, const char *const *axes)
{
    static int number;
    char dir[2][512], name[64];
    snprintf(name, sizeof name, "one %d", ++number);
    snprintf(dir[0], sizeof dir[0], "%s", ls_test_path(name));
    one.save = dir[0];
    run_job(&one);
    assert_true(one.losses[one.first] != one.losses[one.end - 1]);
    for (; *axes; axes++) {
        job j = one;
        snprintf(name, sizeof name, "%s %d", *axes, number);
        snprintf(dir[1], sizeof dir[1], "%s", ls_test_path(name));
        j.save = dir[1];
        j.o.parallel.mesh = mesh_of(*axes);
        run_job(&j);
        for (int i = one.first; i < one.end; i++)
            if (j.losses[i] != one.losses[i] || j.norms[i] != one.norms[i])
                fail_msg("%s, step %d: loss %.17g, norm %.17g; of one process %.17g, %.17g", *axes, i,
                         j.losses[i], j.norms[i], one.losses[i], one.norms[i]);
        assert_memory_equal(j.rows, one.rows, sizeof j.rows);
        expect_file(*axes, dir[1], dir[0], "model.safetensors");
        expect_file(*axes, dir[1], dir[0], "optimizer.safetensors");
    }
}

static const char *const ALL[] = { "tp2", "tp4", "cp2", "cp4", "cp2 tp2", "dp2 tp2", "dp2 cp2", NULL };
static const char *const SOME[] = { "tp2", "cp2", "cp2 tp2", NULL };

static void decoder(void **state)
{
    (void)state;
    expect_bits(sliced(NULL, 4), ALL);
}

static void untied_on_ref(void **state)
{
    (void)state;
    job j = sliced(NULL, 4);
    j.model.tied = false;
    j.o.device = "ref";
    expect_bits(j, (const char *const[]){ "tp4", "cp4", NULL });
}

/* Terms are rounded to bf16, their sum once: the type in which ranks add is that of one process. */
static void in_bf16(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        job j = sliced(k ? build_t5 : NULL, 2);
        j.o.param = LS_BF16;
        j.o.recompute = k ? NULL : "class:Block";
        expect_bits(j, SOME);
    }
}

static void with_sequence(void **state)
{
    (void)state;
    job j = sliced(NULL, 2);
    j.o.parallel.sequence = true;
    j.o.param = LS_BF16;
    expect_bits(j, SOME);
}

static void encoder_and_decoder(void **state)
{
    (void)state;
    expect_bits(sliced(build_t5, 4), SOME);
}

static void experts(void **state)
{
    (void)state;
    job j = sliced(NULL, 2);
    j.model.experts = 4;
    j.model.experts_per_token = 2;
    j.model.expert_size = 12;
    j.model.experts_every = 1;
    expect_bits(j, (const char *const[]){ "cp2 tp2", NULL });
}

/* Else the tests above would show nothing. */
static void without_slices_bits_differ(void **state)
{
    (void)state;
    job one = sliced(NULL, 0), split = one, two = sliced(NULL, 2);
    run_job(&one);
    run_job(&two);
    assert_false(same(&one, &two));
    for (int k = 0; k < 3; k++) { /* and as many ranks as slices have their bits */
        split.o.parallel.mesh = mesh_of(k == 2 ? "cp2 tp2" : k ? "cp2" : "tp2");
        run_job(&split);
        assert_true(!same(&split, &one) && same(&split, &two) == (k == 2));
    }
}

static ls_status build_mlp(ls_graph *g, const void *config, int64_t batch)
{
    return ls_mlp_build(g, config, batch);
}

static void what_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *axes;
        int slices, heads;
        ls_synchronize_choice when;
        const char *why;
    } CASES[] = {
        { "dp1", 3, 4, 0, "slices: 3: sums are added in a balanced tree of 2, 4, 8, .. 64 slices" },
        { "dp1", 128, 4, 0, "slices: 128: sums are added" },
        { "tp4", 2, 4, 0, "slices: 2 are not a multiple of the 4 ranks of axis tp" },
        { "cp4", 2, 4, 0, "slices: 2 are not a multiple of the 4 ranks of axis cp" },
        { "cp2 dp2", 4, 4, 0,
          "slices: 4, of a micro-batch, are added before micro-batches: write axis cp after dp" },
        { "dp2", 4, 4, LS_SYNCHRONIZE_ONCE, "synchronize: once adds micro-batches before ranks" },
        { "dp1", 4, 2, 0,
          "slices: 4 split sums as 4 ranks of axis tp would, and model.layers.0.self_attn has 2 key/value "
          "heads, "
          "which the 4 ranks of axis tp do not divide" },
        { "tp2", 16, 4, 0,
          "slices: 16 split sums as 16 ranks of axis cp would, and ids has 8 tokens, which the 16 ranks of "
          "axis cp "
          "do not divide" },
    };
    job plain = sliced(NULL, 2);
    ls_compiled c;
    const ls_mlp_config mlp = { .image_size = 2, .in_channels = 1, .classes = 3, .std = 1 };
    plain.o.parallel.units = "none";
    ASSERT_FAILS(ls_compile(&c, build_mlp, &mlp, &plain.o, NULL), LS_E_USAGE, "slices: has no effect");
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        job j = sliced(NULL, CASES[i].slices);
        j.model.kv_heads = CASES[i].heads;
        j.o.parallel.mesh = mesh_of(CASES[i].axes);
        j.o.parallel.synchronize = CASES[i].when;
        ASSERT_FAILS(ls_compile(&c, build_decoder, &j.model, &j.o, NULL), LS_E_USAGE, CASES[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoder),
        cmocka_unit_test(untied_on_ref),
        cmocka_unit_test(in_bf16),
        cmocka_unit_test(with_sequence),
        cmocka_unit_test(encoder_and_decoder),
        cmocka_unit_test(experts),
        cmocka_unit_test(without_slices_bits_differ),
        cmocka_unit_test(what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
