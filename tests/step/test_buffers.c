/* test_buffers.c - running statistics of batch norm. They advance once a step, from micro-batch 0; they have
 * the same bits on any number of ranks; evaluation uses them; they are saved and loaded with the weights.
 * With parallel.sync_batch_norm statistics are over ranks. The model is a small residual network;
 * golden/test_buffers.c tests ResNet18. Ranks are threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "golden/training.h"
#include "lockstep/nn.h"
#include "models/classifier.h"
#include "support/ranks.h"
#include "support/values.h"

enum {
    M = 4,
    ROWS = 4,
    SIZE = 8,
    PIXELS = SIZE * SIZE,
    STEPS = 4,
    SAMPLES = STEPS * M * ROWS,
    BUFFERS = 12,
    PARAMETERS = 14
};
static uint8_t images[SAMPLES][PIXELS];
static int32_t labels[SAMPLES];

static int make_data(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = i * 7 % 5;
        for (int k = 0; k < PIXELS; k++)
            images[i][k] = (uint8_t)(((k / (labels[i] + 1)) % 2 ? 150 : 20) +
                                     (int)((uint32_t)(i * PIXELS + k) * 2654435761u >> 26));
    }
    return 0;
}

static ls_value norm(ls_graph *g, const char *name, ls_value x, ls_value track)
{
    return ls_batch_norm(g, name, x, .track = track);
}

static ls_value block(ls_graph *g, ls_value x, ls_value track)
{
    LS_SCOPE(g, "layer1", "Block");
    ls_value y = ls_relu(
        g, norm(g, "bn1", ls_conv2d(g, "conv1", x, 8, 3, .stride = 2, .padding = 1, .bias = false), track));
    y = norm(g, "bn2", ls_conv2d(g, "conv2", y, 8, 3, .padding = 1, .bias = false), track);
    return ls_relu(g, ls_add(g, y,
                             norm(g, "downsample.1",
                                  ls_conv2d(g, "downsample.0", x, 8, 1, .stride = 2, .bias = false), track)));
}

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    ls_value x = ls_image_input(g, batch, 1, SIZE, 0.5, 0.5, NULL, NULL), track = LS_NONE;
    if (!ls_graph_is_evaluation(g))
        track = ls_track(g);
    x = ls_relu(g, norm(g, "bn1", ls_conv2d(g, "conv1", x, 6, 3, .padding = 1, .bias = false), track));
    x = ls_adaptive_avg_pool2d(g, block(g, x, track), 1, 1);
    ls_classifier_outputs(g, ls_linear(g, "fc", ls_reshape(g, x, batch, -1), 5), NULL);
    return ls_graph_finish(g);
}

typedef struct outcome {
    double losses[STEPS];
    uint64_t weights, buffers;
    float evaluated[M * ROWS]; /* as many as a micro-batch has */
    int skipped;
} outcome;

typedef struct job {
    ls_trainer_opts o;
    double lr;
    int other;     /* micro-batch whose images are changed; -1: none */
    bool overflow; /* f16: the scale is too large for the first step */
    outcome out;   /* of rank 0; the other ranks must have the same */
} job;

static uint64_t digest(int n, const ls_named_tensor *p)
{
    uint64_t h = 0;
    for (int i = 0; i < n; i++)
        h = ls_hash64_more(ls_hash64_more(h, p[i].name, strlen(p[i].name)), p[i].tensor.data,
                           ls_type_bytes(&p[i].tensor.type));
    return h;
}

static ls_status take_step(const job *j, ls_trainer *t, int step, outcome *out)
{
    uint8_t mine[M * ROWS][PIXELS];
    int32_t mine_labels[M * ROWS];
    const ls_share share = t->compiled.share;
    const int64_t joined = M / t->compiled.micro_batches; /* this many of M micro-batches make one of these */
    int n = 0;
    for (int64_t k = 0; k < share.count; k++)
        for (int64_t r = 0; r < joined * ROWS; r++, n++) {
            const int64_t m = (share.first + k * share.stride) * joined + r % joined,
                          sample = step * M * ROWS + m + r / joined * M;
            memcpy(mine[n], images[sample], PIXELS);
            mine[n][0] ^= (uint8_t)(m == j->other ? 64 : 0);
            mine_labels[n] = labels[sample];
        }
    ls_step_result result;
    LS_TRY(ls_trainer_step(t, mine[0], mine_labels, M * ROWS, j->lr, &result));
    out->losses[step] = result.loss;
    out->skipped += result.skipped;
    return LS_OK;
}

static ls_status train(ls_group *g, const job *j, ls_trainer *t, outcome *out)
{
    ls_named_tensor p[PARAMETERS], b[BUFFERS];
    LS_TRY(ls_trainer_init(t, 5));
    if (j->overflow)
        LS_TRY(place_put_number(&t->loss_scale, 0x1p60));
    for (int step = 0; step < STEPS; step++)
        LS_TRY(take_step(j, t, step, out));
    LS_TRY(ls_trainer_eval(t, &images[0][0], labels, out->evaluated, NULL, NULL));
    RANK_CHECK(training_parameters(t, p, PARAMETERS) == PARAMETERS &&
               training_buffers(t, b, BUFFERS) == BUFFERS);
    int64_t elements = 0;
    for (int i = 0; i < PARAMETERS; i++)
        elements += ls_type_count(&p[i].tensor.type);
    RANK_CHECK(ls_trainer_parameter_count(t) == elements);
    RANK_CHECK(!strcmp(b[0].name, "bn1.running_mean") &&
               !strcmp(b[5].name, "layer1.bn1.num_batches_tracked"));
    for (int i = 2; i < BUFFERS; i += 3)
        RANK_CHECK(b[i].tensor.type.dtype == LS_I64 && *(int64_t *)b[i].tensor.data == STEPS);
    out->weights = digest(PARAMETERS, p);
    out->buffers = digest(BUFFERS, b);
    training_release(p, PARAMETERS);
    training_release(b, BUFFERS);
    return LS_OK;
}

static ls_status rank(ls_group *g, void *context)
{
    job *j = context;
    ls_trainer_opts o = j->o;
    ls_trainer *t;
    outcome mine, all[4];
    memset(&mine, 0, sizeof mine);
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    LS_TRY(ls_trainer_create_with(&t, build, NULL, &o));
    ls_status s = train(g, j, t, &mine);
    ls_trainer_destroy(&t);
    LS_TRY(s);
    LS_TRY(ls_group_all_gather(g, &mine, sizeof mine, all));
    RANK_CHECK(!memcmp(&mine, &all[0], sizeof mine));
    if (ls_group_rank(g) == 0)
        j->out = mine;
    return LS_OK;
}

static ls_trainer_opts options(int dp, int shard, ls_data_parallel data)
{
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = ROWS, .micro_batches = M };
    o.parallel.mesh = (ls_mesh){ .n = shard ? 2 : 1, .axes = { { "dp", dp }, { "shard", shard } } };
    o.parallel.data = data;
    return o;
}

static outcome run(job j)
{
    ASSERT_OK(run_ranks((int)ls_mesh_ranks(&j.o.parallel.mesh), rank, &j));
    return j.out;
}

static outcome usual(const ls_trainer_opts *o) { return run((job){ .o = *o, .lr = 1e-2, .other = -1 }); }

static void expect_same(const char *what, const outcome *got, const outcome *want)
{
    for (int k = 0; k < STEPS; k++)
        if (got->losses[k] != want->losses[k])
            fail_msg("%s: loss of step %d is %.17g, with one rank %.17g", what, k, got->losses[k],
                     want->losses[k]);
    if (got->weights != want->weights)
        fail_msg("%s: other weights", what);
    if (got->buffers != want->buffers)
        fail_msg("%s: other running statistics", what);
    if (memcmp(got->evaluated, want->evaluated, sizeof want->evaluated))
        fail_msg("%s: other losses in evaluation", what);
}

static const struct {
    const char *what;
    int dp, shard;
    ls_data_parallel data;
    const char *units;
    ls_synchronize_choice when;
} WAYS[] = {
    { "ddp on 2", 2, 0, LS_DATA_DDP, "none", LS_SYNCHRONIZE_ONCE },
    { "ddp on 4", 4, 0, LS_DATA_DDP, "none", LS_SYNCHRONIZE_AUTO },
    { "fsdp on 2", 2, 0, LS_DATA_FSDP, "class:Block", LS_SYNCHRONIZE_EACH },
    { "fsdp on 2, a block each", 2, 0, LS_DATA_FSDP, "class:Block", LS_SYNCHRONIZE_ONCE },
    { "fsdp on 4", 4, 0, LS_DATA_FSDP, "class:Block", LS_SYNCHRONIZE_EACH },
    { "hybrid on 2 x 2", 2, 2, LS_DATA_HYBRID, "class:Block", LS_SYNCHRONIZE_EACH },
};
enum { N_WAYS = (int)(sizeof WAYS / sizeof WAYS[0]) };

static ls_trainer_opts way(int i)
{
    ls_trainer_opts o = options(WAYS[i].dp, WAYS[i].shard, WAYS[i].data);
    o.parallel.units = WAYS[i].units;
    o.parallel.synchronize = WAYS[i].when;
    return o;
}

/* Every type, every way, and computed again. */
static void the_same_bits_on_any_ranks(void **state)
{
    (void)state;
    static const ls_dtype TYPES[] = { LS_F32, LS_BF16, LS_F16 };
    for (int type = 0; type < 3; type++) {
        ls_trainer_opts o = options(1, 0, LS_DATA_DDP);
        o.param = TYPES[type];
        const outcome one = usual(&o);
        assert_true(one.losses[STEPS - 1] < one.losses[0]);
        o.recompute = "class:Block";
        const outcome again = usual(&o);
        expect_same("computed again", &again, &one);
        for (int i = 0; i < N_WAYS; i++) {
            o = way(i);
            o.param = TYPES[type];
            o.recompute = i % 2 ? "class:Block" : NULL;
            const outcome got = usual(&o);
            expect_same(WAYS[i].what, &got, &one);
        }
    }
    ls_trainer_opts o = options(2, 0, LS_DATA_FSDP);
    o.parallel.offload = LS_OFFLOAD_CPU;
    const ls_trainer_opts plain = options(1, 0, LS_DATA_DDP);
    const outcome one = usual(&plain), away = usual(&o);
    expect_same("offload", &away, &one);
}

/* With a rate of 0 the weights stay, so that nothing but the statistics can tell what they were computed
 * from. */
static void micro_batch_0_alone_counts(void **state)
{
    (void)state;
    for (int i = -1; i < N_WAYS; i++) {
        const ls_trainer_opts o = i < 0 ? options(1, 0, LS_DATA_DDP) : way(i);
        const outcome plain = run((job){ .o = o, .other = -1 });
        for (int m = 0; m < M; m++) {
            const outcome changed = run((job){ .o = o, .other = m });
            assert_true(changed.losses[0] != plain.losses[0]);
            assert_true((changed.buffers != plain.buffers) == (m == 0));
            assert_true((memcmp(changed.evaluated, plain.evaluated, sizeof plain.evaluated) != 0) ==
                        (m == 0));
        }
    }
}

/* As in PyTorch, where they advance in the forward pass. */
static void a_skipped_step_counts(void **state)
{
    (void)state;
    ls_trainer_opts o = options(2, 0, LS_DATA_DDP);
    o.param = LS_F16;
    /* which looks at the counters */
    const outcome got = run((job){ .o = o, .lr = 1e-2, .other = -1, .overflow = true });
    assert_true(got.skipped > 0);
}

/* Statistics over micro-batches 0 .. R-1, then R .. 2R-1: whatever way those are laid over R ranks. */
static void synchronized_over_ranks(void **state)
{
    (void)state;
    static const ls_dtype TYPES[] = { LS_F32, LS_BF16 };
    for (int type = 0; type < 2; type++) {
        outcome of[5] = { 0 }; /* by number of ranks */
        ls_trainer_opts o = options(1, 0, LS_DATA_DDP);
        o.param = TYPES[type];
        of[0] = usual(&o);
        o.parallel.sync_batch_norm = true;
        of[1] = usual(&o);
        expect_same("one rank, synchronized", &of[1], &of[0]);
        for (int i = 0; i < N_WAYS; i++) {
            const int ranks = WAYS[i].dp * (WAYS[i].shard ? WAYS[i].shard : 1);
            o = way(i);
            o.param = TYPES[type];
            o.parallel.sync_batch_norm = true;
            o.parallel.synchronize = LS_SYNCHRONIZE_AUTO;
            o.recompute = i % 2 ? "class:Block" : NULL;
            const outcome got = usual(&o);
            if (!of[ranks].weights)
                of[ranks] = got;
            expect_same(WAYS[i].what, &got, &of[ranks]);
        }
        assert_true(of[1].weights != of[2].weights && of[2].weights != of[4].weights);
        assert_true(of[4].losses[STEPS - 1] < of[4].losses[0]);
    }
}

static void synchronized_micro_batches_count(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        ls_trainer_opts o = way(i);
        o.parallel.sync_batch_norm = true;
        o.parallel.synchronize = LS_SYNCHRONIZE_AUTO;
        const int ranks = (int)ls_mesh_ranks(&o.parallel.mesh);
        const outcome plain = run((job){ .o = o, .other = -1 });
        for (int m = 0; m < M; m++) {
            const outcome changed = run((job){ .o = o, .other = m });
            assert_true((changed.buffers != plain.buffers) == (m < ranks));
        }
    }
}

/* Two rounds of two ranks normalize what two micro-batches of twice the size do: in f64 there is no other
 * difference. */
static void synchronized_is_the_joint_batch(void **state)
{
    (void)state;
    ls_trainer_opts o = options(2, 0, LS_DATA_DDP), joint = options(1, 0, LS_DATA_DDP);
    o.device = joint.device = "ref";
    o.param = o.output = joint.param = joint.output = LS_F64;
    o.parallel.reduce = LS_F64;
    o.parallel.sync_batch_norm = true;
    joint.micro_batch = 2 * ROWS;
    joint.micro_batches = M / 2;
    const outcome two = usual(&o), one = usual(&joint);
    for (int k = 0; k < STEPS; k++)
        if (!(fabs(two.losses[k] - one.losses[k]) < 1e-11))
            fail_msg("loss of step %d is %.17g, of the joint batch %.17g", k, two.losses[k], one.losses[k]);
    for (int i = 0; i < ROWS; i++)
        assert_float_equal(two.evaluated[i], one.evaluated[i], 1e-6);
}

/* The last norm sees one pixel of each sample: one value a channel with a micro-batch of one. */
static ls_status build_narrow(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    ls_value x = ls_image_input(g, batch, 1, SIZE, 0.5, 0.5, NULL, NULL), track = LS_NONE;
    if (!ls_graph_is_evaluation(g))
        track = ls_track(g);
    x = norm(g, "bn", ls_conv2d(g, "conv", x, 4, SIZE, .bias = false), track);
    ls_classifier_outputs(g, ls_linear(g, "fc", ls_reshape(g, x, batch, -1), 5), NULL);
    return ls_graph_finish(g);
}

static ls_status narrow_rank(ls_group *g, void *context)
{
    ls_trainer_opts o = *(const ls_trainer_opts *)context;
    ls_trainer *t;
    ls_step_result result;
    const int rank = ls_group_rank(g);
    o.group = g;
    o.parallel.rank = rank;
    LS_TRY(ls_trainer_create_with(&t, build_narrow, NULL, &o));
    ls_status s = ls_trainer_init(t, 5);
    for (int step = 0; step < 3 && s == LS_OK; step++) {
        s = ls_trainer_step(t, images[2 * step + rank], &labels[2 * step + rank], 1, 1e-2, &result);
        RANK_CHECK(s != LS_OK || isfinite(result.loss));
    }
    ls_named_tensor b[3];
    RANK_CHECK(s != LS_OK || training_buffers(t, b, 3) == 3);
    for (int i = 0; i < 4 && s == LS_OK; i++) /* mean and variance of 4 channels */
        RANK_CHECK(isfinite(((const float *)b[0].tensor.data)[i]) &&
                   isfinite(((const float *)b[1].tensor.data)[i]));
    if (s == LS_OK)
        training_release(b, 3);
    ls_trainer_destroy(&t);
    return s;
}

/* One value of each channel on a rank: refused where it is alone, as in torch, and not where ranks share. */
static void one_value_a_rank_is_enough(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_trainer_opts o = options(1, 0, LS_DATA_DDP);
    o.micro_batch = o.micro_batches = 1;
    ASSERT_FAILS(ls_trainer_create_with(&t, build_narrow, NULL, &o), LS_E_SHAPE, "test_buffers.c:",
                 "batch_norm in bn", "one value per channel has no variance");
    o.parallel.sync_batch_norm = true;
    ASSERT_FAILS(ls_trainer_create_with(&t, build_narrow, NULL, &o), LS_E_SHAPE,
                 "one value per channel has no variance");
    o = options(2, 0, LS_DATA_DDP);
    o.micro_batch = 1;
    o.micro_batches = 2;
    o.parallel.sync_batch_norm = true;
    ASSERT_OK(run_ranks(2, narrow_rank, &o));
}

/* Padding would count in the statistics: the graph says so, whatever the model is called. */
static void batches_have_no_padding(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_trainer_opts o = options(1, 0, LS_DATA_DDP);
    o.padding = true;
    ASSERT_FAILS(ls_trainer_create_with(&t, build, NULL, &o), LS_E_USAGE, "padding: ",
                 "test_buffers.c:", "batch_norm in bn1", "would change the loss \"loss\"", "drop_last: true");
    ASSERT_OK(ls_trainer_create_with(&t, training_build_mlp, &training_mlp, &o));
    ls_trainer_destroy(&t);
    o.eval_only = true; /* normalises by running statistics */
    ASSERT_OK(ls_trainer_create_with(&t, build, NULL, &o));
    ls_trainer_destroy(&t);
}

static void cannot_be_synchronized(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_trainer_opts o = options(1, 0, LS_DATA_DDP);
    o.parallel.sync_batch_norm = true;
    ASSERT_FAILS(ls_trainer_create_with(&t, training_build_mlp, &training_mlp, &o), LS_E_USAGE,
                 "sync_batch_norm: ", "no batch norm");
    o.parallel.synchronize = LS_SYNCHRONIZE_ONCE;
    ASSERT_FAILS(ls_trainer_create_with(&t, build, NULL, &o), LS_E_USAGE, "synchronize: once",
                 "auto or each");
}

static void step_alone(ls_trainer *t, int step)
{
    outcome out;
    ASSERT_OK(take_step(&(job){ .lr = 1e-2, .other = -1 }, t, step, &out));
}

static void evaluation_saves_and_loads(void **state)
{
    (void)state;
    const char *path = ls_test_path("model.safetensors"),
               *short_path = ls_test_path("parameters.safetensors");
    ls_trainer_opts o = options(1, 0, LS_DATA_DDP);
    float fresh[ROWS], trained[ROWS], loaded[ROWS];
    ls_trainer *t, *e;
    ASSERT_OK(ls_trainer_create_with(&t, build, NULL, &o));
    ASSERT_OK(ls_trainer_init(t, 5));
    ASSERT_OK(ls_trainer_eval(t, &images[0][0], labels, fresh, NULL, NULL));
    for (int k = 0; k < STEPS; k++)
        step_alone(t, k);
    ASSERT_OK(ls_trainer_eval(t, &images[0][0], labels, trained, NULL, NULL));
    assert_true(memcmp(fresh, trained, sizeof fresh) != 0);
    ASSERT_OK(ls_trainer_save(t, path));

    /* a row does not depend on the rows beside it */
    uint8_t few[ROWS][PIXELS] = { { 0 } };
    memcpy(few[0], images[0], PIXELS);
    ASSERT_OK(ls_trainer_eval(t, &few[0][0], labels, loaded, NULL, NULL));
    assert_memory_equal(loaded, trained, sizeof *loaded);

    ls_weights *w;
    ASSERT_OK(ls_weights_open(&w, path));
    assert_int_equal(ls_weights_count(w), PARAMETERS + BUFFERS);
    int64_t tracked = 0;
    ASSERT_OK(
        ls_weight_read(ls_weights_find(w, "layer1.downsample.1.num_batches_tracked"), LS_I64, &tracked));
    assert_int_equal(tracked, STEPS);
    o.eval_only = true;
    ASSERT_OK(ls_trainer_create_with(&e, build, NULL, &o));
    ASSERT_OK(ls_trainer_load(e, w));
    ASSERT_OK(ls_trainer_eval(e, &images[0][0], labels, loaded, NULL, NULL));
    assert_memory_equal(loaded, trained, sizeof loaded);
    ls_weights_close(&w);

    ls_named_tensor p[PARAMETERS];
    assert_int_equal(training_parameters(t, p, PARAMETERS), PARAMETERS);
    ASSERT_OK(ls_weights_save(short_path, PARAMETERS, p));
    training_release(p, PARAMETERS);
    ASSERT_OK(ls_weights_open(&w, short_path));
    ASSERT_FAILS(ls_trainer_load(e, w), LS_E_SHAPE, "12 missing", "bn1.num_batches_tracked");
    ls_weights_close(&w);
    ls_trainer_destroy(&e);

    ASSERT_OK(ls_trainer_init(t, 5)); /* starts from initial values */
    ASSERT_OK(ls_trainer_eval(t, &images[0][0], labels, loaded, NULL, NULL));
    assert_memory_equal(loaded, fresh, sizeof loaded);
    ls_trainer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits_on_any_ranks),
        cmocka_unit_test(micro_batch_0_alone_counts),
        cmocka_unit_test(a_skipped_step_counts),
        cmocka_unit_test(synchronized_over_ranks),
        cmocka_unit_test(synchronized_micro_batches_count),
        cmocka_unit_test(synchronized_is_the_joint_batch),
        cmocka_unit_test(cannot_be_synchronized),
        cmocka_unit_test(one_value_a_rank_is_enough),
        cmocka_unit_test(batches_have_no_padding),
        cmocka_unit_test(evaluation_saves_and_loads),
    };
    return cmocka_run_group_tests(tests, make_data, NULL);
}
