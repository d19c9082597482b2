/* lockstep plan --search: every layout is tried or refused with a reason, what fits is ranked by time, and
 * what the user has set stays. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/ui.h"
#include "support/support.h"
#include "verbs/commands.h"

#define RECIPE(...)                                                                             \
    {                                                                                           \
        .name = "vit-fashion-mnist",                                                            \
        .n_sets = (int)(sizeof((const char *[]){ SMALL, __VA_ARGS__ }) / sizeof(const char *)), \
        .sets = (const char *[])                                                                \
        {                                                                                       \
            SMALL, __VA_ARGS__                                                                  \
        }                                                                                       \
    }
#define SMALL \
    "model.layers=2", "model.hidden_size=32", "model.mlp_size=32", "train.global_batch=8", "threads=1"

static char *output;
static ls_status search(ls_plan_command_opts o)
{
    size_t size;
    free(output);
    output = NULL;
    FILE *f = open_memstream(&output, &size);
    ls_ui ui = { .out = f };
    o.search = true;
    const ls_status s = ls_plan_command(&o, &ui);
    fclose(f);
    return s;
}

static json_t *layouts(ls_plan_command_opts o, json_t **root)
{
    o.json = true;
    ASSERT_OK(search(o));
    ASSERT_OK(ls_json_parse(root, output, strlen(output), "the output"));
    return json_object_get(*root, "layouts");
}

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static int order(const json_t *o)
{
    const char *outcome = text(o, "outcome");
    return !strcmp(outcome, "fits") ? 0 : !strcmp(outcome, "too large") ? 1 : 2;
}

static void ranked(void **state)
{
    (void)state;
    json_t *root;
    const json_t *o,
        *all = layouts((ls_plan_command_opts){ .recipe = RECIPE("workers=2"), .measure = true }, &root);
    size_t i;
    double least = 1e30, most = 0, before = 0;
    int refused = 0, ddp = 0, tensor = 0, pipeline = 0, interleaved = 0;
    json_array_foreach(all, i, o)
    {
        const json_t *settings = json_object_get(o, "settings");
        tensor += strstr(text(settings, "parallel.mesh"), "tp") != NULL;
        pipeline += strstr(text(settings, "parallel.mesh"), "pp") != NULL;
        assert_null(strstr(text(settings, "parallel.mesh"), "ep")); /* it has no experts */
        interleaved += !strcmp(text(settings, "parallel.schedule"), "interleaved");
        ddp += !strcmp(text(settings, "parallel.data"), "ddp");
        if (order(o) == 2) {
            refused++;
            assert_true(strlen(text(o, "why")) > 10);
            continue;
        }
        const double memory = json_number_value(json_object_get(o, "memory")),
                     seconds = json_number_value(json_object_get(o, "seconds"));
        assert_true(!refused && seconds >= before && seconds > 0); /* refused ones stand last */
        before = seconds;
        least = memory < least ? memory : least;
        most = memory > most ? memory : most;
    }
    /* micro-batches 4, 2, 1 with and without recomputation, in three ways to split data and with three
     * schedules of a pipeline; 8 .. 1 by tensor */
    assert_int_equal(ddp, 6);
    assert_int_equal(tensor, 16);
    assert_int_equal(pipeline, 18);
    assert_int_equal(interleaved, 6); /* refused: the model has too few layers */
    assert_int_equal(json_array_size(all), 18 + 16 + 18);
    assert_true(refused > 6 && refused < 17 + 6); /* a sequence of 17 tokens is not divided */
    assert_true(json_is_true(json_object_get(json_array_get(all, 0), "measured")));
    const int64_t cap = json_integer_value(json_object_get(json_array_get(all, 0), "memory")) - 1;
    assert_true(least <= (double)cap && most > (double)cap);
    json_decref(root);
    /* the fastest one does not fit any more: some do, and those that do not stand behind them */
    int n[3] = { 0 }, last = 0;
    all = layouts((ls_plan_command_opts){ .recipe = RECIPE("workers=2"), .memory = cap }, &root);
    json_array_foreach(all, i, o)
    {
        n[order(o)]++;
        assert_true(order(o) >= last);
        last = order(o);
        if (last < 2)
            assert_true((json_integer_value(json_object_get(o, "memory")) <= cap) == (last == 0));
    }
    assert_true(n[0] > 0 && n[1] > 0 && n[2] == refused);
    char fastest[128]; /* which one it is depends on what was measured */
    snprintf(fastest, sizeof fastest, "fastest: --set parallel.mesh='%s' --set ",
             text(json_object_get(json_array_get(all, 0), "settings"), "parallel.mesh"));
    json_decref(root);
    ASSERT_OK(search((ls_plan_command_opts){ .recipe = RECIPE("workers=2"), .memory = cap }));
    ASSERT_CONTAINS(output, "52 layouts of 2 ranks: ");
    ASSERT_CONTAINS(output, fastest);
    ASSERT_CONTAINS(output, "times as long, in ");
    ASSERT_CONTAINS(output, ": that needs ");
    ASSERT_CONTAINS(output, "\nrefused, ");
    ASSERT_CONTAINS(output, "17 tokens");
}

static void what_is_set_stays(void **state)
{
    (void)state;
    json_t *root;
    const json_t *o, *all = layouts((ls_plan_command_opts){ .recipe = RECIPE("workers=2", "parallel.data=ddp",
                                                                             "parallel.mesh={dp: 2}") },
                                    &root);
    size_t i;
    assert_true(json_array_size(all) > 0);
    json_array_foreach(all, i, o)
    {
        assert_null(json_object_get(json_object_get(o, "settings"), "parallel.data"));
        assert_null(json_object_get(json_object_get(o, "settings"), "parallel.mesh"));
    }
    json_decref(root);
    /* 6 samples of each rank are 2 micro-batches of 3 samples, which are not halved */
    all = layouts((ls_plan_command_opts){ .recipe = RECIPE("workers=2", "train.global_batch=12",
                                                           "parallel.data=ddp", "parallel.mesh={dp: 2}") },
                  &root);
    int threes = 0;
    json_array_foreach(all, i, o)
    {
        const char *micro = text(json_object_get(o, "settings"), "train.micro_batch");
        threes += !strcmp(micro, "3");
        assert_string_not_equal(micro, "1");
    }
    assert_true(threes > 0);
    json_decref(root);
    /* the schedules of the pipeline that is given, with micro-batches 4, 2, 1 and with recomputation or not
     */
    all = layouts((ls_plan_command_opts){ .recipe = RECIPE("workers=2", "parallel.mesh={pp: 2}") }, &root);
    int zero = 0;
    json_array_foreach(all, i, o)
        zero += !strcmp(text(json_object_get(o, "settings"), "parallel.schedule"), "zero_bubble");
    assert_int_equal(zero, 6);
    assert_int_equal(json_array_size(all), 18);
    json_decref(root);
    ASSERT_FAILS(search((ls_plan_command_opts){ .recipe = RECIPE("workers=3") }), LS_E_USAGE,
                 "no layout of 3 ranks");
    setenv("LOCKSTEP_CACHE", ls_test_path("empty"), 1);
    ASSERT_FAILS(search((ls_plan_command_opts){ .recipe = RECIPE("workers=2") }), LS_E_USAGE,
                 "lockstep doctor");
    free(output);
}

/* Of a model with experts also the layouts that deal them to ranks. */
static void experts_are_dealt(void **state)
{
    (void)state;
    const char *path = ls_test_path("experts.yaml"), *lines = ls_test_path("lines.txt");
    FILE *f = fopen(lines, "w");
    for (int i = 0; i < 40; i++)
        fprintf(f, "line %d of 40\n", i);
    fclose(f);
    f = fopen(path, "w");
    fprintf(f,
            "model: {type: qwen3_moe, layers: 1, heads: 2, kv_heads: 2, hidden_size: 16, mlp_size: 24, "
            "vocab_size: 258, experts: 4, experts_per_token: 2, expert_size: 8, experts_every: 1}\n"
            "data: {type: text, train_text: %s, documents: line, tokenizer: bytes, seq_length: 8}\n"
            "train: {global_batch: 4}\nthreads: 1\nworkers: 4\n",
            lines);
    fclose(f);
    json_t *root;
    const json_t *o,
        *all = layouts((ls_plan_command_opts){ .recipe = { .name = path }, .measure = true }, &root);
    size_t i;
    int two = 0, four = 0, beside = 0, fits = 0;
    json_array_foreach(all, i, o)
    {
        const char *mesh = text(json_object_get(o, "settings"), "parallel.mesh");
        two += !strcmp(mesh, "{dp: 2, ep: 2}");
        four += !strcmp(mesh, "{dp: 1, ep: 4}");
        beside += strstr(mesh, "tp: 2, ep: 2") != NULL;
        fits += strstr(mesh, "ep") && !order(o);
    }
    /* with a micro-batch of 1, in three ways to split data, with recomputation or not */
    assert_int_equal(two, 6);
    assert_int_equal(four, 6);
    assert_true(beside > 0 && fits >= 12);
    json_decref(root);
}

int main(void)
{
    setenv("LOCKSTEP_CACHE", ls_test_path("cache"), 1);
    const struct CMUnitTest tests[] = { cmocka_unit_test(ranked), cmocka_unit_test(experts_are_dealt),
                                        cmocka_unit_test(what_is_set_stays) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
