/* test_snapshot.c - checkpoints that are written during training have the bytes of those that are written
 * between steps. A failure of the writer ends the run and keeps the last checkpoint. The plan counts the
 * staging memory. Any number of checkpoints can be kept. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/file.h"
#include "golden/training.h"
#include "support/ranks.h"
#include "loop/snapshot.h"
#include "step/state.h"

enum { STEPS = 20, ROWS = 2, PIXELS = 64 };

typedef struct job {
    const char *storage;
    const char *sets[3]; /* of the recipe */
    ls_trainer_opts o;
    int every;         /* steps between saves */
    int64_t best;      /* step of the best */
    rlim_t file_limit; /* 0: none. From the second save on */
    /* checkpoints that are there before the first save, as much of them as anybody looks at, and the rest of
     * an interrupted one */
    int others;
    /* three steps, each an epoch's end, with these losses in evaluation; NULL: STEPS of them */
    const double *losses;
    int64_t from;         /* step at which they begin */
    int64_t failed_after; /* out: rank 0's last step */
} job;

static ls_status limit_files(rlim_t bytes)
{
    struct rlimit l;
    getrlimit(RLIMIT_FSIZE, &l);
    l.rlim_cur = bytes ? bytes : l.rlim_max;
    return setrlimit(RLIMIT_FSIZE, &l) ? ls_fail(LS_E_INTERNAL, "setrlimit") : LS_OK;
}

static ls_status make_others(const ls_rundir *d, int n)
{
    char path[700];
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/checkpoints/step-%08d", d->path, 100 + i);
        LS_TRY(ls_make_dirs(path));
        strcat(path, "/manifest.json");
        LS_TRY(ls_file_write(path, "x", 1));
    }
    snprintf(path, sizeof path, "%s/checkpoints/.lockstep-unfinished-step-00000007/deeper", d->path);
    return ls_make_dirs(path);
}

/* What ls_loop_run does, with nothing but steps and saves. */
static ls_status loop(ls_group *g, job *j, ls_trainer *t, const ls_recipe *r, ls_rundir *d, ls_snapshots *s)
{
    static const uint8_t images[8][ROWS][PIXELS] = { { { 200, 1, 30 } }, { { 4, 5, 60 } }, { { 7, 80, 9 } } };
    static const int32_t labels[8][ROWS] = { { 1, 2 }, { 3, 4 }, { 0, 1 } };
    for (int64_t step = j->from + 1; step <= (j->losses ? j->from + 3 : STEPS); step++) {
        ls_step_result result;
        bool writing;
        LS_TRY(ls_snapshots_before_step(s, d, &writing));
        t->request = writing ? LS_REQUEST_WAIT : 0;
        LS_TRY(ls_trainer_step(t, &images[0][0][0], &labels[0][0], 4 * ROWS, 1e-2 / (double)step, &result));
        if (ls_group_rank(g) == 0)
            j->failed_after = step;
        LS_TRY(ls_snapshots_after_step(s, d, (t->requested & LS_REQUEST_WAIT) != 0));
        ls_epoch_row row = { .train_loss = NAN };
        ls_resume_point at = { .step = step, .metrics = d->metrics };
        if (j->losses) {
            ls_metric_list_set(&row.eval, "loss", j->losses[step - 1]);
            at.ended = &row;
            const ls_status saved = ls_snapshot_save(
                s, t, r, d, &at, 0, ls_rundir_is_best(d, j->losses[step - 1], false, step, 0));
            ls_metric_list_release(&row.eval);
            LS_TRY(saved);
        } else if (step % j->every == 0) {
            if (j->file_limit && step > j->every) {
                LS_TRY(ls_snapshots_finish(s, d));
                LS_TRY(limit_files(j->file_limit));
            }
            LS_TRY(ls_snapshot_save(s, t, r, d, &at, 0, false));
            if (step == j->best)
                LS_TRY(ls_snapshot_save(s, t, r, d, &at, 0, true));
        }
    }
    return ls_snapshots_finish(s, d);
}

static ls_status train(ls_group *g, void *context)
{
    job *j = context;
    ls_recipe *r;
    ls_trainer *t;
    ls_rundir *d = NULL;
    ls_snapshots s = { 0 };
    ls_trainer_opts o = j->o;
    char storage[600];
    snprintf(storage, sizeof storage, "run.storage=%s", j->storage);
    const char *const sets[] = { storage, j->sets[0], j->sets[1], j->sets[2] };
    const char *text = "run: {name: one}\nmodel: {type: mlp}\ndata: {type: mnist}\ncheckpoint: {keep: 3}\n";
    LS_TRY(ls_recipe_load_text(&r, text, strlen(text), "test.yaml", 1 + !!sets[1] + !!sets[2] + !!sets[3],
                               sets));
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    o.stage_saves = r->checkpoint.async;
    static const ls_mlp_config MLP = { .image_size = 8,
                                       .in_channels = 1,
                                       .classes = 5,
                                       .n_hidden = 2,
                                       .hidden = { 1, 1 },
                                       .mean = 0.5,
                                       .std = 0.5 };
    LS_TRY(ls_trainer_create_with(&t, training_build_mlp, &MLP, &o));
    LS_TRY(ls_trainer_init(t, 1));
    LS_TRY(ls_rundir_open_ranks(&d, r, g, false));
    if (j->others)
        LS_TRY(make_others(d, j->others));
    LS_TRY(ls_snapshots_open(&s, d, j->from));
    ls_snapshots_compare(&s, r, NULL, NULL);
    const ls_status status = loop(g, j, t, r, d, &s);
    char message[1024];
    snprintf(message, sizeof message, "%s", ls_error_message());
    if (status != LS_OK) {
        limit_files(0);
        ls_group_fail(g, status, message);
        ls_snapshots_abandon(&s, d);
        RANK_CHECK(!strcmp(message, ls_error_message()));
    }
    ls_snapshots_release(&s);
    ls_trainer_destroy(&t);
    LS_TRY(ls_rundir_close(&d, status == LS_OK ? LS_RUN_FINISHED : LS_RUN_FAILED,
                           status == LS_OK ? NULL : message));
    ls_recipe_destroy(&r);
    return status == LS_OK ? LS_OK : ls_fail(status, "%s", message);
}

static ls_trainer_opts layout(int ranks, ls_data_parallel data)
{
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = ROWS, .micro_batches = 4 };
    o.parallel.mesh.axes[0].size = ranks;
    o.parallel.data = data;
    return o;
}

static char *slurp(const char *storage, const char *name, size_t *size)
{
    char path[900], *text;
    snprintf(path, sizeof path, "%s/one/%s", storage, name);
    ASSERT_OK(ls_file_read(&text, size, path));
    return text;
}

static void same(const char *a, const char *b, const char *name)
{
    size_t n, m;
    char *x = slurp(a, name, &n), *y = slurp(b, name, &m);
    if (n != m || memcmp(x, y, n))
        fail_msg("%s differs between %s and %s", name, a, b);
    free(x);
    free(y);
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++)
        n++;
    return n;
}

/* Saves follow one another as fast as they can: one waits for the other, or training goes on for some steps.
 */
static void the_same_bytes(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        ls_data_parallel data;
        int every;
    } CASES[] = {
        { 1, LS_DATA_FSDP, 4 },
        { 2, LS_DATA_FSDP, 2 },
        { 4, LS_DATA_DDP, 4 },
    };
    char at_once[512], beside[512];
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char name[32];
        for (int async = 0; async < 2; async++) {
            snprintf(name, sizeof name, "%s-%zu", async ? "beside" : "at-once", i);
            snprintf(async ? beside : at_once, sizeof beside, "%s", ls_test_path(name));
            ASSERT_OK(
                run_ranks(CASES[i].ranks, train,
                          &(job){ .storage = async ? beside : at_once,
                                  .sets = { async ? "checkpoint.async=true" : "checkpoint.async=false" },
                                  .o = layout(CASES[i].ranks, CASES[i].data),
                                  .every = CASES[i].every,
                                  .best = 8 }));
        }
        static const char *const FILES[] = { "config.json", "model.safetensors", "optimizer.safetensors" };
        for (int step = 0; step < 4; step++) /* the last three, and the best */
            for (int f = 0; f < 3; f++) {
                char file[64];
                snprintf(file, sizeof file, "checkpoints/step-%08d/%s",
                         step ? STEPS - (step - 1) * CASES[i].every : 8, FILES[f]);
                same(at_once, beside, file);
            }
        char folder[600];
        snprintf(folder, sizeof folder, "%s/one/checkpoints", beside);
        assert_int_equal(ls_test_count(folder), 6); /* with the links */
        char *best = ls_path_join(folder, "best"), *latest = ls_path_join(folder, "latest");
        ASSERT_OK(ls_checkpoint_verify(best, LS_VERIFY_FULL, NULL));
        ASSERT_OK(ls_checkpoint_verify(latest, LS_VERIFY_FULL, NULL));
        free(best);
        free(latest);
        size_t n;
        char *rows = slurp(beside, "metrics.jsonl", &n), *result = slurp(beside, "result.json", &n);
        assert_int_equal(count(rows, "\"kind\":\"checkpoint\""), STEPS / CASES[i].every);
        assert_int_equal(count(rows, "\"waited\":"), STEPS / CASES[i].every);
        ASSERT_CONTAINS(result, "\"best_checkpoint\":\"checkpoints/step-00000008\"");
        assert_int_equal(count(result, "{\"path\":\"checkpoints/"), 4);
        free(rows);
        free(result);
    }
}

/* trainer.json is the largest file, and the writer's: its thread fails where the step that began the save has
 * not. */
static void a_failure_ends_the_run(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    char path[6000] = "data.path=";
    memset(path + strlen(path), 'x', sizeof path - 1 - strlen(path)); /* trainer.json has the recipe in it */
    for (int ranks = 1; ranks <= 2; ranks++) {
        char storage[512];
        snprintf(storage, sizeof storage, "%s", ls_test_path(ranks == 1 ? "failing-1" : "failing-2"));
        job j = { .storage = storage,
                  .sets = { "checkpoint.async=true", path },
                  .o = layout(ranks, LS_DATA_FSDP),
                  .every = 9,
                  .file_limit = 5000 };
        const ls_status s = run_ranks(ranks, train, &j);
        limit_files(0);
        assert_true(s != LS_OK); /* of this rank, or of the other, which hears of it */
        ASSERT_CONTAINS(ls_error_message(), "saving checkpoint ");
        ASSERT_CONTAINS(ls_error_message(), "step-00000018: ");
        ASSERT_CONTAINS(ls_error_message(), "trainer.json: cannot write: File too large");
        assert_in_range(j.failed_after, 18, 20);
        char folder[600];
        snprintf(folder, sizeof folder, "%s/one/checkpoints", storage);
        assert_int_equal(ls_test_count(folder), 2);
        char *latest = ls_path_join(folder, "latest");
        ASSERT_OK(ls_checkpoint_verify(latest, LS_VERIFY_FULL, NULL));
        free(latest);
    }
}

/* What interrupted saves leave goes away at the next start; of any number of checkpoints, as many stay as are
 * wanted. */
static void any_number_is_kept(void **state)
{
    (void)state;
    char storage[512], folder[600];
    snprintf(storage, sizeof storage, "%s", ls_test_path("many"));
    snprintf(folder, sizeof folder, "%s/one/checkpoints", storage);
    ASSERT_OK(run_ranks(1, train,
                        &(job){ .storage = storage,
                                .o = layout(1, LS_DATA_FSDP),
                                .every = STEPS,
                                .sets = { "checkpoint.keep=70" },
                                .others = 90 }));
    assert_int_equal(ls_test_count(folder), 70 + 1); /* and `latest` */
    for (int i = 0; i < 90; i++) {
        char name[32];
        snprintf(name, sizeof name, "step-%08d", 100 + i);
        char *path = ls_path_join(folder, name);
        assert_int_equal(ls_dir_exists(path), i >= 21);
        free(path);
    }
}

/* The two best epochs stay beside the newest, in this start and the next, by what trainer.json says. */
static void as_many_of_the_best_stay(void **state)
{
    (void)state;
    static const double LOSSES[] = { 0.4, 0.2, 0.6, 0.3, 0.5, NAN },
                        EQUAL[] = { 0.4, 0.5, 0.5, 0.5, 0.5, 0.5 }; /* of equal ones the oldest stay */
    static const char *const WHICH[] = { "checkpoint.async=false", "checkpoint.async=true" };
    for (int which = 0; which < 4; which++) {
        const bool async = which & 1, equal = which & 2;
        char storage[512], folder[600], run[32];
        snprintf(run, sizeof run, "best-%d", which);
        snprintf(storage, sizeof storage, "%s", ls_test_path(run));
        snprintf(folder, sizeof folder, "%s/one/checkpoints", storage);
        for (int start = 0; start < 2; start++)
            ASSERT_OK(run_ranks(1, train,
                                &(job){ .storage = storage,
                                        .o = layout(1, LS_DATA_FSDP),
                                        .every = 1,
                                        .sets = { "checkpoint={keep: 1, keep_best: 2}", WHICH[async] },
                                        .from = 3 * start,
                                        .losses = equal ? EQUAL : LOSSES }));
        for (int step = 1; step <= 6; step++) {
            char name[32];
            snprintf(name, sizeof name, "step-%08d", step);
            char *path = ls_path_join(folder, name);
            assert_int_equal(ls_dir_exists(path),
                             equal ? step <= 2 || step == 6 : step == 2 || step == 4 || step == 6);
            free(path);
        }
    }
}

/* What plan and report count is what the copies take. */
static void staging_is_counted(void **state)
{
    (void)state;
    static const struct {
        int ranks, rank;
        ls_data_parallel data;
    } CASES[] = { { 1, 0, LS_DATA_FSDP }, { 4, 0, LS_DATA_FSDP }, { 4, 3, LS_DATA_DDP } };
    size_t bytes[3];
    for (int i = 0; i < 3; i++) {
        ls_compiled c;
        ls_trainer_opts o = layout(CASES[i].ranks, CASES[i].data);
        o.parallel.rank = CASES[i].rank;
        o.stage_saves = true;
        ASSERT_OK(ls_compile(&c, training_build_vit, &training_vit, &o, NULL));
        bytes[i] = c.staging_bytes;
        ls_compiled_release(&c);
        o.stage_saves = false;
        ASSERT_OK(ls_compile(&c, training_build_vit, &training_vit, &o, NULL));
        assert_int_equal(c.staging_bytes, 0);
        if (i == 0) { /* parameters and both moments, step counter; each at a multiple of 64 bytes */
            const size_t exact = 3 * 4 * (size_t)c.units.parameters + 8;
            assert_in_range(bytes[0], exact, exact + 64 * (3 * (size_t)c.units.n_slots + 1));
        }
        ls_compiled_release(&c);
    }
    for (int i = 1; i < 3; i++)
        assert_in_range(bytes[i], bytes[0] / 4 - bytes[0] / 50, bytes[0] / 4 + bytes[0] / 50);
}

/* Whether an epoch's checkpoint would be among the best: of equal ones the older is better, and the one that
 * `best` names is better than all. */
static void among_the_best(void **state)
{
    (void)state;
    ls_kept kept[] = { { 1, 0.5 }, { 2, NAN }, { 3, 0.25 }, { 4, 0.75 } };
    ls_snapshots s = { .all = kept, .n = 4, .best = 4, .latest = 4 };
    ls_recipe r = { .checkpoint = { .best = { .metric = "eval_loss", .mode = LS_MODE_MIN } } };
    static const struct {
        double value;
        int64_t keep_best;
        bool yes;
    } CASES[] = {
        { 0.3, 3, true }, /* after 4, the best, and 3 */
        { 0.3, 2, false }, { 0.6, 3, false }, { 0.6, 4, true },  { 0.25, 2, false },
        { 0.2, 2, true },  { 0.5, 3, false }, { 0.49, 3, true }, { NAN, 9, false }, /* undefined: never */
        { 0.1, 1, false }, /* the caller knows whether it is the best */
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        for (int highest = 0; highest < 2; highest++) {
            ls_epoch_row row = { .train_loss = 1 };
            bool yes;
            /* values of ls_kept are lower where they are better */
            ls_metric_list_set(&row.eval, "loss", highest ? -CASES[i].value : CASES[i].value);
            r.checkpoint.best.mode = highest ? LS_MODE_MAX : LS_MODE_MIN;
            r.checkpoint.keep_best = CASES[i].keep_best;
            ASSERT_OK(ls_snapshot_among_best(&s, NULL, NULL, &r, &row, &yes));
            assert_int_equal(yes, CASES[i].yes);
            ls_metric_list_release(&row.eval);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(among_the_best),           cmocka_unit_test(the_same_bytes),
        cmocka_unit_test(a_failure_ends_the_run),   cmocka_unit_test(any_number_is_kept),
        cmocka_unit_test(as_many_of_the_best_stay), cmocka_unit_test(staging_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
