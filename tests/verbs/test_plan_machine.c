/* test_plan_machine.c - `plan --machine`: the hosts that a plan is for, and what they cannot run. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "support/support.h"
#include "verbs/commands.h"

#define SETS(...)                                                                                       \
    .n_sets = (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), .sets = (const char *[]) \
    {                                                                                                   \
        __VA_ARGS__                                                                                     \
    }
#define RECIPE(...)                                                                               \
    {                                                                                             \
        .name = "vit-fashion-mnist", SETS("model.layers=4", "train.global_batch=16", __VA_ARGS__) \
    }

static char *plan(ls_plan_command_opts o)
{
    char *text;
    size_t size;
    ls_ui ui = { .out = open_memstream(&text, &size) };
    ASSERT_OK(ls_plan_command(&o, &ui));
    fclose(ui.out);
    return text;
}

static json_t *planned(ls_plan_command_opts o)
{
    json_t *root;
    o.json = true;
    char *text = plan(o);
    ASSERT_OK(ls_json_parse(&root, text, strlen(text), "output"));
    free(text);
    return root;
}

static const json_t *at(const json_t *o, const char *section, const char *key)
{
    o = *section ? json_object_get(o, section) : o;
    o = json_object_get(o, key);
    if (!o)
        fail_msg("no %s.%s", section, key);
    return o;
}
static int64_t number(const json_t *o, const char *section, const char *key)
{
    return (int64_t)json_number_value(at(o, section, key));
}

/* Ranks of a host, its GPUs and what they are connected with come from the machine; --set and
 * --ranks-per-host win. */
static void another_machine(void **state)
{
    (void)state;
    json_t *gpus = planned((ls_plan_command_opts){ .recipe = RECIPE("workers=16", "parallel.gather=copy"),
                                                   .machine = "h100" }),
           *cpus = planned(
               (ls_plan_command_opts){ .recipe = RECIPE("workers=16", "isa=avx2"), .machine = "epyc-9654" }),
           *spread = planned((ls_plan_command_opts){
               .recipe = RECIPE("workers=16"), .machine = "epyc-9654", .where.ranks_per_host = 4 });
    assert_string_equal(json_string_value(json_object_get(gpus, "device")), "cuda");
    assert_string_equal(json_string_value(json_object_get(gpus, "isa")), "sm_90");
    assert_string_equal(json_string_value(json_object_get(cpus, "isa")), "avx2");
    assert_int_equal(number(gpus, "host", "hosts"), 2);
    assert_int_equal(number(gpus, "host", "device_room"), 80000000000);
    assert_int_equal(number(cpus, "", "threads"), 24); /* 192 cores of 8 ranks */
    assert_int_equal(number(spread, "", "threads"), 48);
    assert_int_equal(number(spread, "host", "hosts"), 4);
    assert_int_equal(number(gpus, "rank", "messages_sent"), 0); /* links between GPUs send none */
    assert_true(number(cpus, "rank", "messages_sent") > 0);
    assert_in_range(number(cpus, "rank", "small_messages"), 1, number(cpus, "rank", "messages_sent"));
    const json_t *rank = json_object_get(gpus, "rank");
    const double seconds = json_number_value(json_object_get(rank, "seconds"));
    assert_true(seconds > 0);
    assert_float_equal(json_number_value(at(gpus, "", "samples_per_second")), 16 / seconds,
                       1e-6 * 16 / seconds);
    assert_float_equal(json_number_value(at(gpus, "", "epoch_seconds")),
                       (double)number(gpus, "", "steps_per_epoch") * seconds, 1e-6);
    size_t k;
    const json_t *call;
    json_array_foreach(json_object_get(rank, "collectives"), k, call)
    {
        assert_true(json_number_value(json_object_get(call, "seconds")) > 0);
    }
    assert_true(json_number_value(json_object_get(rank, "communication_seconds")) > 0);
    assert_true(json_is_true(json_object_get(json_object_get(gpus, "host"), "fits")));
    json_decref(gpus);
    json_decref(cpus);
    json_decref(spread);
    ls_ui ui = { .out = stdout };
    const ls_plan_command_opts wrong = { .recipe = RECIPE("workers=2"), .machine = "h10" };
    ASSERT_FAILS(ls_plan_command(&wrong, &ui), LS_E_USAGE, "--machine: h10", "a100, epyc-9654");
    const ls_plan_command_opts uneven = { .recipe = RECIPE("workers=12"), .machine = "h100" };
    ASSERT_FAILS(ls_plan_command(&uneven, &ui), LS_E_USAGE,
                 "host.ranks 8 of machine H100 SXM does not divide the 12", "or --ranks-per-host");
    const ls_plan_command_opts elsewhere = { .recipe = RECIPE("workers=2", "isa=generic"),
                                             .machine = "epyc-9654",
                                             .measure = true };
    ASSERT_FAILS(ls_plan_command(&elsewhere, &ui), LS_E_USAGE, "--measure", "2 x EPYC 9654", "doctor");
}

/* What a host cannot run, and what is large without need. */
static void what_does_not_fit(void **state)
{
    (void)state;
    char *many = plan((ls_plan_command_opts){ .recipe = RECIPE("workers=16", "threads=1000") }),
         *too_many = plan((ls_plan_command_opts){ .recipe = RECIPE("workers=2048", "train.global_batch=2048"),
                                                  .machine = "h100",
                                                  .where.ranks_per_host = 2048 }),
         *large = plan((ls_plan_command_opts){
             .recipe = RECIPE("workers=8", "train.global_batch=4194304", "train.micro_batch=524288"),
             .machine = "a100" });
    ASSERT_CONTAINS(many, "note    16 ranks of 1000 threads share ");
    ASSERT_CONTAINS(many, "times as long (--machine and --ranks-per-host plan for other hosts)");
    ASSERT_CONTAINS(too_many, "cannot be started: a host runs at most 1024 ranks, not 2048");
    char *whole = plan((ls_plan_command_opts){ .recipe = RECIPE("workers=2", "parallel.mesh={dp: 1, tp: 2}",
                                                                "train.global_batch=128", "model.layers=10",
                                                                "parallel.recompute=units") }),
         *split = plan((ls_plan_command_opts){ .recipe = RECIPE("workers=2", "train.global_batch=128") });
    ASSERT_CONTAINS(whole, "memory are activations that are whole on each rank of the tensor axis");
    ASSERT_CONTAINS(whole, "parallel.sequence: true splits them");
    assert_null(strstr(split, "tensor axis")); /* there is none: dp only */
    free(whole);
    free(split);
    ASSERT_CONTAINS(large, "machine A100 SXM 80GB: 1 host of 8 ranks, 128 cores each");
    ASSERT_CONTAINS(large, " of the 74.5 GiB of its GPU: IT DOES NOT FIT");
    free(many);
    free(too_many);
    free(large);
}

/* A column for each machine, with what does not fit. */
static void machines_side_by_side(void **state)
{
    (void)state;
    const char *compare[] = { "machine=a100,h200" };
    ls_plan_command_opts o = { .recipe = RECIPE("workers=16", "train.global_batch=4194304",
                                                "train.micro_batch=262144"),
                               .n_compare = 1,
                               .compare = compare };
    json_t *both = planned(o);
    char *text = plan(o);
    const json_t *columns = at(both, "", "columns"), *small = json_array_get(columns, 0),
                 *large = json_array_get(columns, 1);
    assert_string_equal(json_string_value(at(small, "settings", "machine")), "a100");
    assert_true(json_is_false(at(small, "", "fits")));
    assert_true(json_is_true(at(large, "", "fits")));
    assert_true(json_number_value(at(small, "rank", "seconds")) !=
                json_number_value(at(large, "rank", "seconds")));
    ASSERT_CONTAINS(text, "machine                                      a100           h200\n");
    ASSERT_CONTAINS(text, "hosts x ranks of each                       2 x 8          2 x 8\n");
    ASSERT_CONTAINS(text, "fits                                      NO: GPU            yes\n");
    free(text);
    json_decref(both);
    compare[0] = "machine=a1000";
    ls_ui ui = { .out = stdout };
    ASSERT_FAILS(ls_plan_command(&o, &ui), LS_E_USAGE, "a1000: cannot open", "h100-96gb");
}

/* --search takes what a rank has on the machine. */
static void a_search_fits_the_machine(void **state)
{
    (void)state;
    const ls_plan_command_opts o = { .recipe = RECIPE("workers=8", "train.global_batch=4194304",
                                                      "parallel.mesh={dp: auto}", "parallel.data=ddp",
                                                      "parallel.recompute=none"),
                                     .machine = "a100",
                                     .search = true };
    char *text = plan(o);
    ASSERT_CONTAINS(text, " fit into 74.5 GiB a rank, ");
    ASSERT_CONTAINS(text, "times are not measured, but by the figures of machine A100 SXM 80GB\n");
    assert_null(strstr(text, "near shapes")); /* no shape was measured */
    assert_null(strstr(text, " a rank, 0 do not"));
    free(text);
}

static json_t *simulated(ls_plan_command_opts o)
{
    o.simulate = true;
    return planned(o);
}

/* Played, a step takes the time that the plan says, and each player's parts fill its time. */
static void a_step_is_played(void **state)
{
    (void)state;
    static const struct {
        const char *mesh, *machine;
        int players;
    } CASES[] = {
        { "parallel.mesh={dp: 16}", "h100", 1 },
        { "parallel.mesh={dp: 16}", "epyc-9654", 1 },
        { "parallel.mesh={dp: 4, tp: 2, pp: 2}", "xeon-8480", 2 },
        { "parallel.mesh={dp: 4, pp: 4}", "epyc-9654", 4 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        ls_plan_command_opts o = { .recipe = RECIPE("workers=16", CASES[i].mesh, "train.micro_batch=1"),
                                   .machine = CASES[i].machine };
        json_t *plan_of = planned(o), *played = simulated(o), *p;
        const double seconds = json_number_value(at(played, "", "seconds")),
                     expected = json_number_value(at(plan_of, "rank", "seconds"));
        /* (the plan counts what a stage waits for the network also while it waits for another stage) */
        assert_true(seconds > (CASES[i].players > 2 ? 0.8 : 0.99) * expected && seconds < 1.01 * expected);
        assert_int_equal(json_array_size(at(played, "", "players")), CASES[i].players);
        size_t k;
        json_array_foreach(at(played, "", "players"), k, p)
        {
            static const char *const PARTS[] = { "computes", "collectives", "receives", "sends" };
            double sum = 0;
            for (int j = 0; j < 4; j++)
                sum += json_number_value(at(p, "", PARTS[j]));
            assert_float_equal(sum, json_number_value(at(p, "", "done")), 1e-3 * sum);
            assert_true(json_number_value(at(p, "", "done")) <= seconds);
            /* before the update all ranks agree that gradients are finite, so none is done early */
            assert_true(json_number_value(at(p, "", "done")) > 0.9 * seconds);
            assert_true(CASES[i].players == 1 || json_number_value(at(p, "", "receives")) > 0);
        }
        assert_true(json_array_size(at(played, "", "waits")) > 0);
        json_decref(plan_of);
        json_decref(played);
    }
}

static void lanes_of_ranks(void **state)
{
    (void)state;
    char path[256], *page;
    size_t size;
    snprintf(path, sizeof path, "%s", ls_test_path("ranks.html"));
    ls_plan_command_opts o = { .recipe = RECIPE("workers=1024", "parallel.mesh={dp: 512, pp: 2}",
                                                "train.micro_batch=1", "train.global_batch=2048"),
                               .machine = "xeon-8480",
                               .simulate = true,
                               .html = path };
    char *text = plan(o);
    ASSERT_CONTAINS(text, "a step on 1024 ranks on 128 hosts of 2 x Xeon Platinum 8480+");
    ASSERT_CONTAINS(text, "waits, the longest first");
    ASSERT_CONTAINS(text, "values of position 1, backward");
    ASSERT_OK(ls_file_read(&page, &size, path));
    ASSERT_CONTAINS(page, "<h1>Simulated step of vit-fashion-mnist</h1>");
    ASSERT_CONTAINS(page, "(position 1 of the pipeline)");
    ASSERT_CONTAINS(page, ", for values of position 1, backward; from ");
    free(page);
    free(text);
    /* thousands of short waits are drawn, too, with the height of their part of the time */
    ls_plan_command_opts many = { .recipe = RECIPE("workers=2", "train.micro_batch=1",
                                                   "train.global_batch=2048"),
                                  .machine = "epyc-9654",
                                  .simulate = true,
                                  .html = path };
    json_t *played = simulated(many);
    ASSERT_OK(ls_file_read(&page, &size, path));
    assert_true(size < 1000000);
    double waits = 0, all = 0;
    for (const char *at = page; (at = strstr(at, "\" y=\"")); at++) {
        const double width = atof(strstr(at, "width=\"") + 7), height = atof(strstr(at, "height=\"") + 8);
        const char *color = strstr(at, "fill=\"");
        all += width * height;
        waits += !strncmp(color, "fill=\"var(--c-amber)", 20) ? width * height : 0;
    }
    const json_t *player = json_array_get(at(played, "", "players"), 0);
    const double told = 100 * json_number_value(at(player, "", "collectives")) /
                        json_number_value(at(played, "", "seconds"));
    assert_true(told > 5);
    assert_float_equal(100 * waits / all, told, 1);
    free(page);
    json_decref(played);
    ls_ui ui = { .out = stdout };
    setenv("LOCKSTEP_CACHE", ls_test_path("empty"), 1);
    const ls_plan_command_opts unknown = { .recipe = RECIPE("workers=2"), .simulate = true };
    ASSERT_FAILS(ls_plan_command(&unknown, &ui), LS_E_USAGE, "--simulate plays times", "--machine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_machine),  cmocka_unit_test(what_does_not_fit),
        cmocka_unit_test(a_step_is_played), cmocka_unit_test(a_search_fits_the_machine),
        cmocka_unit_test(lanes_of_ranks),   cmocka_unit_test(machines_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
