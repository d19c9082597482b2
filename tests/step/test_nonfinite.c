/* test_nonfinite.c - a step whose loss or gradient is not finite changes nothing, in every layout, with every
 * optimizer and type: skipped, it leaves all that a checkpoint has as if its samples had never come; where it
 * stops, all ranks say the same at once, and the next step is possible. Ranks are threads. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "golden/training.h"
#include "lockstep/nn.h"
#include "support/mapping.h"
#include "support/ranks.h"

enum { IN = 6, HIDDEN = 8, OUT = 4, ROWS = 4, M = 4, STEPS = 5, BAD = 2 /* the step */ };

typedef struct model {
    bool norm; /* batch norm, whose running statistics move in `micro` */
} model;

/* The root of a square is |x|, whose gradient at 0 is infinite times 0: rows of zeros have a finite loss, and
 * a gradient of NaN. */
static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    const model *m = config;
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, batch, IN)),
             y = ls_input(g, "y", LS_TYPE(LS_F32, batch, OUT));
    ls_value h = ls_sqrt(g, ls_square(g, ls_linear(g, "in", x, HIDDEN, .bias = false)));
    if (m->norm)
        h = ls_batch_norm(g, "bn", h, .track = ls_graph_is_evaluation(g) ? LS_NONE : ls_track(g));
    ls_value out = ls_linear(g, "out", h, OUT);
    ls_wide_begin(g);
    ls_loss(g, "mse", ls_square(g, ls_sub(g, out, y)), 1, LS_BY_ELEMENT, NULL);
    ls_wide_end(g);
    return ls_graph_finish(g);
}

typedef enum badness { INFINITE_LOSS, NAN_LOSS, NAN_GRADIENT, LARGE_GRADIENT, KINDS } badness;

typedef struct job {
    ls_trainer_opts o;
    model model;
    badness kind;
    int ranks, bad; /* bad: the micro-batch that has a bad row in step BAD; -1: the step does not come */
    const char *save;
    ls_skip skip;         /* of the bad step */
    double losses[STEPS]; /* NAN: the bad step's */
    char message[1024];   /* where it stops */
    double seconds;       /* that it took to stop */
} job;

static void fill(float x[][IN], float y[][OUT], const job *j, int64_t m, int step)
{
    for (int r = 0; r < ROWS; r++) {
        const int64_t sample = m + r * M + step * 5;
        for (int i = 0; i < IN; i++)
            x[r][i] = (float)((sample * 7 + i * 3 + sample * i) % 11 + 1) / 11;
        for (int i = 0; i < OUT; i++)
            y[r][i] = (float)((sample * 5 + i) % 7) / 7;
    }
    if (step != BAD || m != j->bad)
        return;
    for (int i = 0; i < IN && j->kind == NAN_GRADIENT; i++)
        x[1][i] = 0;
    for (int i = 0; i < IN && j->kind == LARGE_GRADIENT; i++)
        x[1][i] = 1e13f;
    if (j->kind == INFINITE_LOSS || j->kind == NAN_LOSS)
        y[1][2] = j->kind == NAN_LOSS ? NAN : 1e30f;
}

static ls_status one_step(ls_trainer *t, const job *j, int step, ls_step_result *r)
{
    float x[M * ROWS][IN], y[M * ROWS][OUT];
    const ls_share share = t->compiled.share;
    const int64_t n = share.count * ROWS;
    for (int64_t k = 0; k < share.count; k++)
        fill(x + k * ROWS, y + k * ROWS, j, share.first + k * share.stride, step);
    const ls_tensor tx = ls_tensor_of(x, &LS_TYPE(LS_F32, n, IN)),
                    ty = ls_tensor_of(y, &LS_TYPE(LS_F32, n, OUT));
    LS_TRY(ls_trainer_put(t, "x", &tx, 0));
    LS_TRY(ls_trainer_put(t, "y", &ty, 0));
    return ls_trainer_run(t, n, 1e-2, r);
}

static ls_status stops(ls_group *g, ls_trainer *t, job *j, ls_step_result *r)
{
    char all[8][1024], mine[1024];
    const double start = ls_now();
    const ls_status s = one_step(t, j, BAD, r);
    if (s != LS_E_NUMERIC)
        return s == LS_OK ? ls_fail(LS_E_INTERNAL, "the step did not fail") : s;
    snprintf(mine, sizeof mine, "%s", ls_error_message());
    const double took = ls_now() - start;
    LS_TRY(ls_group_all_gather(g, mine, sizeof mine, all));
    for (int k = 0; k < ls_group_size(g); k++)
        RANK_CHECK(!strcmp(all[k], mine));
    if (ls_group_rank(g) == 0) {
        memcpy(j->message, mine, sizeof mine);
        j->seconds = took;
    }
    return LS_OK;
}

static ls_status train(ls_group *g, job *j, ls_trainer *t)
{
    double scale = 0;
    LS_TRY(ls_trainer_init(t, 3));
    for (int step = 0; step < STEPS; step++) {
        ls_step_result r = { .loss = NAN };
        if (step == BAD && j->bad < 0)
            continue;
        LS_TRY(step == BAD && j->o.nonfinite == LS_NONFINITE_STOP ? stops(g, t, j, &r)
                                                                  : one_step(t, j, step, &r));
        RANK_CHECK(r.skipped == (r.skip != LS_SKIP_NONE));
        RANK_CHECK(step == BAD || r.skip == LS_SKIP_NONE);
        RANK_CHECK(r.skip != LS_SKIP_LOSS || r.loss_scale == scale);
        scale = r.loss_scale;
        if (ls_group_rank(g) == 0) {
            j->losses[step] = step == BAD ? NAN : r.loss;
            j->skip = step == BAD ? r.skip : j->skip;
        }
    }
    return j->save ? ls_trainer_save_checkpoint(t, j->save) : LS_OK;
}

static ls_status rank(ls_group *g, void *context)
{
    job *j = context;
    ls_trainer_opts o = j->o;
    ls_trainer *t;
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    ls_group_set_deadline(g, 30);
    LS_TRY(ls_trainer_create_with(&t, build, &j->model, &o));
    const ls_status s = train(g, j, t);
    ls_trainer_destroy(&t);
    return s;
}

static const char *describe(const job *j)
{
    static char s[200];
    char mesh[128];
    snprintf(s, sizeof s, "kind %d in micro-batch %d, mesh %s, data %d, gather %d, %s, optimizer %d, clip %g",
             j->kind, j->bad, ls_mesh_text(mesh, &j->o.parallel.mesh), j->o.parallel.data,
             j->o.parallel.gather, ls_dtype_name(j->o.param), j->o.optimizer.kind, j->o.clip_norm);
    return s;
}

/* The step is skipped, and stops; both leave what a run without it leaves. */
static void expect_nothing_changed(job j, ls_skip why)
{
    char folders[3][300];
    job runs[3] = { j, j, j };
    static int number;
    for (int i = 0; i < 3; i++) {
        snprintf(folders[i], sizeof folders[i], "%s-%d", ls_test_path("state"), number++);
        runs[i].save = folders[i];
        runs[i].bad = i ? j.bad : -1;
        runs[i].o.nonfinite = i == 1 ? LS_NONFINITE_SKIP : LS_NONFINITE_STOP;
        if (run_ranks(j.ranks, rank, &runs[i]) != LS_OK)
            fail_msg("%s: %s", describe(&runs[i]), ls_error_message());
    }
    for (int i = 1; i < 3; i++) {
        if (runs[i].skip != why)
            fail_msg("%s: skip is %d", describe(&runs[i]), runs[i].skip);
        for (int k = 0; k < STEPS; k++)
            if (k != BAD && runs[i].losses[k] != runs[0].losses[k])
                fail_msg("%s: another loss in step %d", describe(&runs[i]), k);
        ls_test_same_file(folders[0], folders[i], "model.safetensors");
        ls_test_same_file(folders[0], folders[i], "optimizer.safetensors");
    }
    if (runs[2].seconds > 10)
        fail_msg("%s: stopped after %g seconds", describe(&j), runs[2].seconds);
    const char *want = why == LS_SKIP_LOSS        ? "the loss of micro-batch"
                       : j.kind == LARGE_GRADIENT ? "the gradient is too large"
                                                  : "the gradient is not finite";
    if (!strstr(runs[2].message, want) || (j.kind == NAN_GRADIENT && !strstr(runs[2].message, "output 0 of")))
        fail_msg("%s: %s", describe(&j), runs[2].message);
    if (j.kind == NAN_GRADIENT || j.kind == NAN_LOSS || j.kind == INFINITE_LOSS) {
        char number_text[40];
        snprintf(number_text, sizeof number_text, "micro-batch %d", j.bad);
        if (!strstr(runs[2].message, number_text))
            fail_msg("%s: %s", describe(&j), runs[2].message);
    }
}

static job job_of(int dp, int shard, int tp)
{
    job j = { .o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = ROWS, .micro_batches = M },
              .model = { tp == 0 },
              .ranks = dp * (shard ? shard : 1) * (tp ? tp : 1),
              .bad = M - 1 };
    ls_parallel *p = &j.o.parallel;
    p->mesh = (ls_mesh){ .n = 1, .axes = { { "dp", dp } } };
    if (shard)
        p->mesh = (ls_mesh){ .n = 2, .axes = { { "dp", dp }, { "shard", shard } } };
    if (tp) {
        p->mesh = (ls_mesh){ .n = 2, .axes = { { "dp", dp }, { "tp", tp } } };
        p->tensor = "colwise:in rowwise:out";
    }
    return j;
}

static ls_skip why(badness k) { return k < NAN_GRADIENT ? LS_SKIP_LOSS : LS_SKIP_GRADIENT; }

static void every_layout(void **state)
{
    (void)state;
    static const struct {
        int dp, shard, tp;
        ls_data_parallel data;
        bool copy, once, offload;
    } LAYOUTS[] = {
        { .dp = 1 },
        { .dp = 1, .offload = true },
        { .dp = 2, .data = LS_DATA_FSDP },
        { .dp = 2, .data = LS_DATA_FSDP, .copy = true },
        { .dp = 2, .data = LS_DATA_FSDP, .once = true },
        { .dp = 2, .data = LS_DATA_FSDP, .copy = true, .offload = true },
        { .dp = 4, .data = LS_DATA_FSDP },
        { .dp = 2, .data = LS_DATA_DDP },
        { .dp = 2, .data = LS_DATA_DDP, .once = true },
        { .dp = 2, .shard = 2, .data = LS_DATA_HYBRID },
        { .dp = 1, .tp = 2, .data = LS_DATA_FSDP },
        { .dp = 2, .tp = 2, .data = LS_DATA_FSDP },
    };
    for (size_t i = 0; i < sizeof LAYOUTS / sizeof LAYOUTS[0]; i++)
        for (badness k = 0; k < LARGE_GRADIENT; k++) {
            job j = job_of(LAYOUTS[i].dp, LAYOUTS[i].shard, LAYOUTS[i].tp);
            j.kind = k;
            j.o.parallel.data = LAYOUTS[i].data;
            j.o.parallel.gather = LAYOUTS[i].copy ? LS_GATHER_COPY : LS_GATHER_AUTO;
            j.o.parallel.synchronize = LAYOUTS[i].once ? LS_SYNCHRONIZE_ONCE : LS_SYNCHRONIZE_EACH;
            j.o.parallel.offload = LAYOUTS[i].offload ? LS_OFFLOAD_CPU : LS_OFFLOAD_NONE;
            j.o.clip_norm = k == NAN_LOSS || i % 2 ? 0.5 : 0;
            expect_nothing_changed(j, why(k));
        }
}

static void every_optimizer(void **state)
{
    (void)state;
    for (int o = LS_ADAM; o <= LS_ADAFACTOR; o++)
        for (int clip = 0; clip < 2; clip++) {
            job j = job_of(1 + clip, 0, 0);
            j.kind = clip ? INFINITE_LOSS : NAN_GRADIENT;
            j.bad = 1;
            j.o.optimizer.kind = (ls_optimizer_kind)o;
            j.o.optimizer.momentum = 0.9;
            j.o.optimizer.weight_decay = 0.1;
            j.o.clip_norm = clip;
            j.o.ema_decay = 0.9;
            j.o.accumulation = clip ? LS_SUM_RUNNING : LS_SUM_TREE;
            expect_nothing_changed(j, why(j.kind));
        }
}

/* bf16 with one micro-batch on one rank: the gradient lies where the weights were. */
static void every_type(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int batches = 1; batches <= M; batches += M - 1)
            for (badness k = 0; k < LARGE_GRADIENT; k++)
                for (int half = 0; half < 2; half++) {
                    job j = job_of(ranks, 0, 0);
                    if ((half && k == NAN_GRADIENT) || batches % ranks)
                        continue; /* f16: an overflow, of which the scale becomes smaller */
                    j.kind = k;
                    j.o.param = half ? LS_F16 : LS_BF16;
                    j.o.scaler.init = 1;
                    j.o.micro_batches = batches;
                    j.bad = batches - 1;
                    j.o.parallel.gather = mapping_or_auto(LS_GATHER_MAP);
                    expect_nothing_changed(j, why(k));
                }
}

/* Adam would keep an infinite square for ever. With clipping the norm is what counts, and it is finite. */
static void a_gradient_that_is_too_large(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        job j = job_of(ranks, 0, 0);
        j.model.norm = false;
        j.kind = LARGE_GRADIENT;
        expect_nothing_changed(j, LS_SKIP_GRADIENT);
        j.o.clip_norm = 1;
        j.o.nonfinite = LS_NONFINITE_SKIP;
        ASSERT_OK(run_ranks(ranks, rank, &j));
        assert_int_equal(j.skip, LS_SKIP_NONE);
    }
}

/* max_skips in a row; a good step between them begins the count anew. */
static void too_many_in_a_row(void **state)
{
    (void)state;
    job j = job_of(1, 0, 0);
    ls_trainer *t;
    ls_step_result r;
    j.kind = NAN_LOSS;
    j.o.nonfinite = LS_NONFINITE_SKIP;
    j.o.max_skips = 3;
    ASSERT_OK(ls_trainer_create_with(&t, build, &j.model, &j.o));
    ASSERT_OK(ls_trainer_init(t, 3));
    for (int i = 0; i < 2; i++)
        ASSERT_OK(one_step(t, &j, BAD, &r));
    ASSERT_OK(one_step(t, &j, 0, &r));
    assert_false(r.skipped);
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(one_step(t, &j, BAD, &r));
        assert_int_equal(r.skip, LS_SKIP_LOSS);
        assert_true(isnan(r.loss));
    }
    ASSERT_FAILS(one_step(t, &j, BAD, &r), LS_E_NUMERIC, "input \"y\"", "micro-batch 3", "step 3 in a row",
                 "max_skips is 3");
    ASSERT_OK(one_step(t, &j, 0, &r));
    ls_trainer_destroy(&t);
    j.o.max_skips = 0;
    ASSERT_FAILS(ls_trainer_create_with(&t, build, &j.model, &j.o), LS_E_USAGE, "max_skips");
    j.o.max_skips = 1;
    j.o.nonfinite = (ls_nonfinite)7;
    ASSERT_FAILS(ls_trainer_create_with(&t, build, &j.model, &j.o), LS_E_USAGE, "nonfinite 7");
}

static ls_status build_classes(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, batch, IN)), y = ls_input(g, "y", LS_TYPE(LS_I32, batch));
    ls_loss(g, "ce", ls_cross_entropy(g, ls_linear(g, "out", x, OUT), y), 1, LS_BY_VALID, "y");
    return ls_graph_finish(g);
}

/* A label that is not a class is named, and not only the NaN that it makes. */
static void a_label_that_is_not_a_class(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_step_result r;
    float x[ROWS][IN] = { { 1 }, { 2 } };
    int32_t y[ROWS] = { 0, LS_IGNORE_LABEL, OUT, 1 };
    const ls_tensor tx = ls_tensor_of(x, &LS_TYPE(LS_F32, ROWS, IN)),
                    ty = ls_tensor_of(y, &LS_TYPE(LS_I32, ROWS));
    ASSERT_OK(ls_trainer_create(&t, build_classes, NULL, .micro_batch = ROWS));
    ASSERT_OK(ls_trainer_init(t, 1));
    ASSERT_OK(ls_trainer_put(t, "x", &tx, 0));
    ASSERT_OK(ls_trainer_put(t, "y", &ty, 0));
    ASSERT_FAILS(ls_trainer_run(t, ROWS, 1e-2, &r), LS_E_NUMERIC,
                 "label 4 of row 2 is not a class: labels are 0 to 3, or -100 for none", "test_nonfinite.c:");
    y[2] = OUT - 1;
    ASSERT_OK(ls_trainer_put(t, "x", &tx, 0));
    ASSERT_OK(ls_trainer_put(t, "y", &ty, 0));
    ASSERT_OK(ls_trainer_run(t, ROWS, 1e-2, &r));
    ls_trainer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),      cmocka_unit_test(every_optimizer),
        cmocka_unit_test(every_type),        cmocka_unit_test(a_gradient_that_is_too_large),
        cmocka_unit_test(too_many_in_a_row), cmocka_unit_test(a_label_that_is_not_a_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
