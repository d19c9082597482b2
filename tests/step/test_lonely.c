/* test_lonely.c - one rank makes a mistake in a collective call: it keeps its status, the others get
 * LS_E_PEER with its message, and nobody waits for a rank that does not come. */
#include <stdio.h>
#include <string.h>

#include "images.h"
#include "step/state.h"

enum { ROOM = 8 }; /* samples of a rank in a step */

static ls_trainer_opts options(void)
{
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = 2, .micro_batches = 8 };
    o.parallel.mesh = (ls_mesh){ .n = 2, .axes = { { "dp", 1 }, { "shard", 2 } } };
    return o;
}

typedef struct lonely {
    ls_status (*call)(ls_trainer *t, ls_group *g, const char *dir);
    ls_status code;
    int rank;
    const char *says;
} lonely;

/* Rank 1's file has no tensor of the model. */
static ls_status load_another(ls_trainer *t, ls_group *g, const char *dir)
{
    char path[600];
    float x[2] = { 0 };
    const ls_type type = LS_TYPE(LS_F32, 2);
    const ls_named_tensor other = { "x", ls_tensor_of(x, &type) };
    ls_weights *w;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    LS_TRY(ls_trainer_save(t, path));
    snprintf(path, sizeof path, "%s/other.safetensors", dir);
    LS_TRY(ls_group_rank(g) == 1 ? ls_weights_save(path, 1, &other) : LS_OK);
    LS_TRY(ls_group_barrier(g));
    snprintf(path, sizeof path, "%s/%s.safetensors", dir, ls_group_rank(g) == 1 ? "other" : "model");
    LS_TRY(ls_weights_open(&w, path));
    const ls_status s = ls_trainer_load(t, w);
    ls_weights_close(&w);
    return s;
}

/* Rank 1's checkpoint has lost its optimizer. */
static ls_status load_half(ls_trainer *t, ls_group *g, const char *dir)
{
    char path[600];
    ls_checkpoint c;
    snprintf(path, sizeof path, "%s/checkpoint-%s", dir, ls_group_kind(g));
    LS_TRY(ls_trainer_save_checkpoint(t, path));
    LS_TRY(ls_checkpoint_open(&c, path, LS_VERIFY_SIZES, g));
    ls_checkpoint half = c;
    half.optimizer = NULL;
    const ls_status s = ls_trainer_load_state(t, ls_group_rank(g) == 1 ? &half : &c, NULL);
    ls_checkpoint_release(&c);
    return s;
}

/* Rank 0 alone writes; it alone has had the whole model in memory. */
static ls_status save_nowhere(ls_trainer *t, ls_group *g, const char *dir)
{
    char path[600];
    snprintf(path, sizeof path, "%s/no such folder/model.safetensors", dir);
    const ls_status s = ls_trainer_save(t, path);
    RANK_CHECK((t->whole != NULL) == (ls_group_rank(g) == 0));
    return s;
}

/* A step of samples that were put: rank 1 gives another number of samples, or another learning rate. */
static ls_status run_step(ls_trainer *t, int64_t samples, double lr)
{
    ls_step_result r;
    const ls_tensor x = ls_tensor_of(images, &LS_TYPE(LS_U8, ROOM, 1, 8, 8)),
                    y = ls_tensor_of(labels, &LS_TYPE(LS_I32, ROOM));
    LS_TRY(ls_trainer_put(t, "images", &x, 0));
    LS_TRY(ls_trainer_put(t, "labels", &y, 0));
    return ls_trainer_run(t, samples, lr, &r);
}

static ls_status run_a_part(ls_trainer *t, ls_group *g, const char *dir)
{
    (void)dir;
    LS_TRY(run_step(t, ROOM, 1e-2));
    return run_step(t, ROOM - ls_group_rank(g), 1e-2);
}

static ls_status run_backwards(ls_trainer *t, ls_group *g, const char *dir)
{
    (void)dir;
    return run_step(t, ROOM, ls_group_rank(g) ? -1 : 1e-2);
}

/* Both ranks get the error. */
static ls_status run_faster(ls_trainer *t, ls_group *g, const char *dir)
{
    (void)dir;
    const ls_status s = run_step(t, ROOM, ls_group_rank(g) ? 2e-2 : 1e-2);
    RANK_CHECK(s == LS_E_ARG);
    return ls_group_rank(g) ? s : LS_E_PEER;
}

static ls_status evaluate_other_data(ls_trainer *t, ls_group *g, const char *dir)
{
    (void)dir;
    const ls_tensor x = ls_tensor_of(images, &LS_TYPE(LS_U8, 4, 1, 8, 8)),
                    y = ls_tensor_of(labels, &LS_TYPE(LS_I32, 4));
    ls_dataset *set = NULL;
    ls_metric m[4];
    int n;
    LS_TRY(ls_dataset_put(&set, ls_group_rank(g) ? "pictures" : "images", &x));
    LS_TRY(ls_dataset_put(&set, "labels", &y));
    const ls_status s = ls_trainer_evaluate(t, set, m, 4, &n);
    ls_dataset_close(&set);
    return s;
}

static ls_status lonely_rank(ls_group *g, void *context)
{
    const lonely *l = context;
    ls_trainer *t;
    ls_trainer_opts o = options();
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    ls_group_set_deadline(g, 20);
    LS_TRY(ls_trainer_create_with(&t, training_build_vit, &VIT, &o));
    LS_TRY(ls_trainer_init(t, 5));
    const ls_status s = l->call(t, g, ls_test_dir());
    RANK_CHECK(s == (ls_group_rank(g) == l->rank ? l->code : LS_E_PEER));
    RANK_CHECK(strstr(ls_error_message(), l->says)); /* not that somebody did not come */
    ls_trainer_destroy(&t);
    return LS_OK;
}

static void one_failure_is_everyones(void **state)
{
    (void)state;
    static const lonely CASES[] = { { load_another, LS_E_SHAPE, 1, "missing" },
                                    { load_half, LS_E_FORMAT, 1, "without optimizer state" },
                                    { save_nowhere, LS_E_IO, 0, "no such folder" },
                                    { run_a_part, LS_E_ARG, 1, "must be padded" },
                                    { run_backwards, LS_E_ARG, 1, "learning rate is -1" },
                                    { run_faster, LS_E_ARG, 1, "is 0.01 on rank 0 and 0.02 on rank 1" },
                                    { evaluate_other_data, LS_E_SHAPE, 1, "\"images\"" } };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        ASSERT_OK(run_ranks(2, lonely_rank, (void *)&CASES[i]));
}
int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_failure_is_everyones) };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
