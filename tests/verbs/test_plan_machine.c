/* test_plan_machine.c - `plan --machine`: the hosts that a plan is for, and what they cannot run. */
#include <stdlib.h>
#include <string.h>

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
    const json_t *rank = json_object_get(gpus, "rank");
    assert_true(json_number_value(json_object_get(rank, "seconds")) > 0);
    assert_true(json_number_value(json_object_get(rank, "communication_seconds")) > 0);
    assert_true(json_is_true(json_object_get(json_object_get(gpus, "host"), "fits")));
    json_decref(gpus);
    json_decref(cpus);
    json_decref(spread);
    ls_ui ui = { .out = stdout };
    const ls_plan_command_opts wrong = { .recipe = RECIPE("workers=2"), .machine = "h10" };
    ASSERT_FAILS(ls_plan_command(&wrong, &ui), LS_E_USAGE, "--machine: h10", "a100, epyc-9654");
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
    ASSERT_CONTAINS(large, "machine A100 SXM 80GB: 1 host of 8 ranks, 128 cores each");
    ASSERT_CONTAINS(large, " of the 74.5 GiB of its GPU: IT DOES NOT FIT");
    free(many);
    free(too_many);
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_machine),
        cmocka_unit_test(what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
