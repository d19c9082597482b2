/* test_plan_apart.c - `plan` for a device whose memory is its own: the device's memory and the host's apart,
 * what a step copies between them, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "lockstep/models.h"
#include "lockstep/trainer.h"
#include "golden/training.h"
#include "support/support.h"
#include "verbs/commands.h"

#define SETS(...)                                                                                       \
    .n_sets = (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), .sets = (const char *[]) \
    {                                                                                                   \
        __VA_ARGS__                                                                                     \
    }
#define RECIPE(...)                                                                                      \
    {                                                                                                    \
        .name = "vit-fashion-mnist",                                                                     \
        SETS("model.layers=4", "train.global_batch=16", "train.micro_batch=2", "workers=2", __VA_ARGS__) \
    }

static ls_status plan(char **text, ls_plan_command_opts o)
{
    size_t size;
    ls_ui ui = { .out = open_memstream(text, &size) };
    const ls_status s = ls_plan_command(&o, &ui);
    fclose(ui.out);
    return s;
}

static json_t *plan_json(ls_plan_command_opts o)
{
    char *text;
    json_t *root;
    o.json = true;
    ASSERT_OK(plan(&text, o));
    ASSERT_OK(ls_json_parse(&root, text, strlen(text), "output"));
    free(text);
    return root;
}

static int64_t number(const json_t *root, const char *path)
{
    char copy[128], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *key = strtok_r(copy, ".", &rest); key; key = strtok_r(NULL, ".", &rest))
        root = json_object_get(root, key);
    if (!json_is_number(root))
        fail_msg("no number at %s", path);
    return (int64_t)json_number_value(root);
}

static void both_memories_are_shown(void **state)
{
    (void)state;
    const char *const COMPARE[] = { "device=cpu,emulated" };
    const ls_recipe_arg recipe = RECIPE("parallel.gather=copy"), automatic = RECIPE("device=emulated");
    json_t *root = plan_json((ls_plan_command_opts){ .recipe = recipe, .n_compare = 1, .compare = COMPARE });
    const json_t *columns = json_object_get(root, "columns"), *cpu = json_array_get(columns, 0),
                 *own = json_array_get(columns, 1);
    static const char *const SAME[] = { "state",        "io",           "arena",
                                        "window_arena", "of_it_window", "micro_batch_sums",
                                        "scratch",      "staging" };
    char key[64];
    for (size_t i = 0; i < sizeof SAME / sizeof *SAME; i++) {
        snprintf(key, sizeof key, "rank.memory.%s", SAME[i]);
        assert_int_equal(number(own, key), number(cpu, key));
    }
    const int64_t host = number(own, "rank.memory.of_it_host"),
                  device = number(own, "rank.memory.of_it_device");
    assert_int_equal(device, number(cpu, "rank.memory.total") - number(cpu, "rank.memory.staging"));
    assert_int_equal(number(own, "rank.memory.total"), device + host);
    assert_int_equal(number(own, "rank.memory.host.window"), number(own, "rank.memory.of_it_window"));
    assert_int_equal(number(own, "rank.memory.host.offloaded"), 0);
    assert_int_equal(host, number(own, "rank.memory.host.window") +
                               number(own, "rank.memory.host.collectives") +
                               number(own, "rank.memory.host.staging"));
    assert_null(json_object_get(json_object_get(json_object_get(cpu, "rank"), "memory"), "host"));
    assert_null(json_object_get(json_object_get(cpu, "rank"), "transfers"));
    assert_true(number(own, "rank.memory.host.collectives") > 0);
    assert_int_equal(number(own, "rank.transfers.to_device"),
                     number(own, "rank.transfers.inputs") + number(own, "rank.transfers.collective_results"));
    json_decref(root);

    /* without the word the same, and the plan says so */
    root = plan_json((ls_plan_command_opts){ .recipe = automatic });
    assert_int_equal(number(root, "rank.memory.of_it_device"), device);
    assert_true(number(root, "programs.micro.pinned_bytes") > 0);
    ASSERT_CONTAINS(json_string_value(json_object_get(root, "layout")), "gather copy");
    json_decref(root);
    char *text;
    ASSERT_OK(plan(&text, (ls_plan_command_opts){ .recipe = automatic }));
    static const char *const SAYS[] = { "on the device ",
                                        "mirror of the arena in the window ",
                                        "on the host ",
                                        "window that other ranks read ",
                                        "results of collectives on their way to the device ",
                                        "a step to the device: inputs ",
                                        "states that other ranks read " };
    for (size_t i = 0; i < sizeof SAYS / sizeof *SAYS; i++)
        ASSERT_CONTAINS(text, SAYS[i]);
    free(text);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    char *text;
    const ls_recipe_arg mapped = RECIPE("device=emulated", "parallel.gather=map"),
                        recipe = RECIPE("device=emulated");
    ASSERT_FAILS(plan(&text, (ls_plan_command_opts){ .recipe = mapped }), LS_E_USAGE,
                 "--set parallel.gather: map needs memory that all ranks of a host map", "device emulated");
    free(text);
    setenv("LOCKSTEP_EMULATED", "memory=3MiB", 1);
    ASSERT_FAILS(plan(&text, (ls_plan_command_opts){ .recipe = recipe }), LS_E_USAGE,
                 "--set device: a step needs ", "may use 1.5 MiB: device emulated has 3.0 MiB",
                 "the largest values there are ", "encoder.layers.encoder_layer_");
    free(text);
    ls_trainer *t;
    const ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .device = "emulated", .threads = 1, .micro_batch = 64 };
    ASSERT_FAILS(ls_trainer_create_with(&t, training_build_vit, &training_vit, &o), LS_E_UNSUPPORTED,
                 "device: a step needs ", "may use 3.0 MiB: device emulated has no more");
    unsetenv("LOCKSTEP_EMULATED");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(both_memories_are_shown),
                                        cmocka_unit_test(what_cannot_be_is_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
