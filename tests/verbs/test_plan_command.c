/* test_plan_command.c - `plan`, `plan --compare`, `explain` and `inspect` of a recipe on several ranks: their
 * numbers agree with each other and with the meaning of sharding. No rank is started. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/json.h"
#include "base/str.h"
#include "support/support.h"
#include "verbs/commands.h"
#include "verbs/step_cost.h"

#define SETS(...)                                                                                       \
    .n_sets = (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), .sets = (const char *[]) \
    {                                                                                                   \
        __VA_ARGS__                                                                                     \
    }
#define RECIPE(...)                                                                               \
    {                                                                                             \
        .name = "vit-fashion-mnist", SETS("model.layers=4", "train.global_batch=16", __VA_ARGS__) \
    }

typedef struct output {
    ls_ui ui;
    char *text;
    size_t size;
} output;

static void open_output(output *o)
{
    *o = (output){ 0 };
    o->ui.out = open_memstream(&o->text, &o->size);
}

static char *close_output(output *o)
{
    fclose(o->ui.out);
    return o->text;
}

static json_t *parsed(char *text)
{
    json_t *root;
    ASSERT_OK(ls_json_parse(&root, text, strlen(text), "output"));
    free(text);
    return root;
}

static char *plan(ls_plan_command_opts o)
{
    output out;
    open_output(&out);
    ASSERT_OK(ls_plan_command(&o, &out.ui));
    return close_output(&out);
}

static char *explain(ls_explain_opts o)
{
    output out;
    open_output(&out);
    ASSERT_OK(ls_explain_command(&o, &out.ui));
    return close_output(&out);
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

static bool near(int64_t x, int64_t y, double relative)
{
    return fabs((double)(x - y)) <= relative * (double)y;
}

/* What FSDP promises, with a copy of each gathered unit per rank: 1/R of parameters, gradients and moments.
 */
static void shards_take_their_part(void **state)
{
    (void)state;
    json_t *one = parsed(plan((ls_plan_command_opts){ .recipe = RECIPE("workers=1"), .json = true }));
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        char workers[16];
        snprintf(workers, sizeof workers, "workers=%d", ranks);
        json_t *many = parsed(
            plan((ls_plan_command_opts){ .recipe = RECIPE(workers, "parallel.gather=copy"), .json = true }));
        assert_int_equal(number(many, "ranks"), ranks);
        const char *const SHARED[] = { "rank.memory.peak.parameters", "rank.memory.peak.optimizer" };
        for (int i = 0; i < 2; i++)
            assert_true(near(ranks * number(many, SHARED[i]), number(one, SHARED[i]), 0.02));
        /* at most two blocks and the root beside the slices */
        assert_true(number(many, "rank.memory.peak.gathered") <=
                    number(one, "rank.memory.peak.parameters") * 3 / 4);
        assert_true(number(many, "rank.memory.peak.gathered") > 0);
        assert_true(near(number(many, "rank.flops") * ranks, number(one, "rank.flops"), 0.02));
        json_decref(many);
    }
    json_decref(one);
}

/* Five steps of this rank's samples: the ring of four, and the one that is computed. */
static void the_loader_is_counted(void **state)
{
    (void)state;
    json_t *one = parsed(plan((ls_plan_command_opts){ .recipe = RECIPE("workers=1"), .json = true })),
           *four = parsed(plan((ls_plan_command_opts){ .recipe = RECIPE("workers=4"), .json = true }));
    ls_compiled_recipe c;
    ASSERT_OK(ls_compiled_recipe_make(&c, &(ls_recipe_arg)RECIPE("workers=1"), 0, NULL));
    const double samples = (double)c.recipe->train.global_batch, pixels = number(one, "rank.memory.loader");
    assert_int_equal(pixels, 5 * samples * (28 * 28 + 4));
    assert_int_equal(number(four, "rank.memory.loader"), pixels / 4);
    ls_compiled_recipe_release(&c);
    json_decref(one);
    json_decref(four);
}

/* What messages to other hosts need is not part of a step's memory, but of the process's. */
static void messages_are_counted(void **state)
{
    (void)state;
    json_t *one = parsed(plan((ls_plan_command_opts){ .recipe = RECIPE("workers=4"), .json = true }));
    json_t *two = parsed(plan(
        (ls_plan_command_opts){ .recipe = RECIPE("workers=4"), .json = true, .where.ranks_per_host = 2 }));
    assert_int_equal(number(one, "rank.memory.messages"), 0);
    assert_true(number(two, "rank.memory.messages") >= 6 << 20);
    json_decref(one);
    json_decref(two);
}

/* Bytes of a step are the same in `plan` and, collective by collective, in `explain`. */
static void plan_and_explain_agree(void **state)
{
    (void)state;
    static const char *const LAYOUTS[][3] = {
        { "parallel.gather=copy", "parallel.data=fsdp", "parallel.reshard_after_forward=2" },
        { "train.micro_batch=2", "parallel.data=fsdp", "parallel.reshard_after_forward=false" },
        { "train.micro_batch=1", "parallel.data=ddp", "train.clip_norm=1" }
    };
    for (int l = 0; l < 3; l++) {
        const ls_recipe_arg recipe = RECIPE("workers=4", LAYOUTS[l][0], LAYOUTS[l][1], LAYOUTS[l][2]);
        json_t *p = parsed(plan((ls_plan_command_opts){ .recipe = recipe, .json = true }));
        json_t *e = parsed(explain((ls_explain_opts){ .recipe = recipe, .rank = 3, .json = true }));
        const int64_t runs = number(e, "micro_batches");
        int64_t calls = 0, counted = 0;
        double bytes = 0;
        const char *const PROGRAMS[] = { "micro", "update" };
        for (int i = 0; i < 2; i++) {
            const json_t *list = json_object_get(json_object_get(e, PROGRAMS[i]), "collectives"), *c;
            size_t k;
            json_array_foreach(list, k, c)
            {
                calls += i ? 1 : runs;
                bytes += (double)(i ? 1 : runs) * json_number_value(json_object_get(c, "bytes"));
                assert_true(number(c, "start") < number(c, "wait"));
                assert_true(number(c, "overlaps") <= number(c, "wait") - number(c, "start") - 1);
            }
        }
        const json_t *rows = json_object_get(json_object_get(p, "rank"), "collectives"), *row;
        size_t k;
        json_array_foreach(rows, k, row) counted += number(row, "calls");
        assert_true(calls > 0);
        assert_int_equal(counted, calls);
        assert_float_equal(json_number_value(json_object_get(json_object_get(p, "rank"), "bytes")), bytes, 0);
        json_decref(p);
        json_decref(e);
    }
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++)
        n++;
    return n;
}

/* Blocks that repeat are shown once; --full shows each, and every step of every program has its line. */
static void alike_blocks_are_folded(void **state)
{
    (void)state;
    const ls_recipe_arg recipe = RECIPE("workers=2", "model.layers=8");
    char *folded = explain((ls_explain_opts){ .recipe = recipe, .rank = 1 }),
         *full = explain((ls_explain_opts){ .recipe = recipe, .rank = 1, .full = true });
    ASSERT_CONTAINS(folded, "as rank 1 of 2 runs it: dp=2, fsdp in 9 units (class:EncoderBlock)");
    ASSERT_CONTAINS(folded, "micro-batch 1 of 2");
    ASSERT_CONTAINS(folded, "the same forward for encoder.layers.encoder_layer_1 to "
                            "encoder.layers.encoder_layer_6 (6 times): steps ");
    ASSERT_CONTAINS(folded, "the same backward for encoder.layers.encoder_layer_4 to ");
    assert_null(strstr(folded, "forward  encoder.layers.encoder_layer_3.mlp.0\n"));
    ASSERT_CONTAINS(full, "forward  encoder.layers.encoder_layer_3.mlp.0\n");
    assert_null(strstr(full, "the same forward"));
    assert_int_equal(count(full, "  start  "), count(full, "  wait   "));
    /* micro (mapped: not again), eval */
    assert_int_equal(count(full, "  start  all_gather unit encoder.layers.encoder_layer_3 "), 2);
    char line[16];
    int steps;
    const char *micro = strstr(full, "program micro on ");
    assert_int_equal(sscanf(strstr(micro, "): ") + 3, "%d steps", &steps), 1);
    for (int i = 0; i < steps; i++) {
        snprintf(line, sizeof line, "\n%5d  ", i);
        const char *at = strstr(micro, line);
        if (!at || at > strstr(full, "program update on "))
            fail_msg("step %d of %d has no line", i, steps);
    }
    free(folded);
    free(full);
    /* transfers stand between the blocks */
    const ls_recipe_arg offload = RECIPE("workers=2", "model.layers=8", "parallel.offload=cpu");
    folded = explain((ls_explain_opts){ .recipe = offload });
    ASSERT_CONTAINS(folded, "the same forward for encoder.layers.encoder_layer_1 to "
                            "encoder.layers.encoder_layer_6 (6 times): steps ");
    free(folded);
}

/* The local shards of all ranks are the tensor, each element once; replicas have the same shards. */
static void parts_cover_the_tensor(void **state)
{
    (void)state;
    static const char *const NAMES[] = { "conv_proj.weight", "encoder.pos_embedding",
                                         "encoder.layers.encoder_layer_1.self_attention.in_proj_weight",
                                         "encoder.layers.encoder_layer_3.mlp.3.bias" };
    static const int64_t COUNTS[] = { 128 * 49, 17 * 128, 384 * 128, 128 };
    for (int hybrid = 0; hybrid < 2; hybrid++)
        for (int i = 0; i < 4; i++) {
            const ls_recipe_arg recipe = RECIPE(
                "workers=4", hybrid ? "parallel.mesh={dp: 2, shard: 2}" : "parallel.mesh={dp: 4}",
                hybrid ? "parallel.data=hybrid" : "parallel.data=fsdp");
            json_t *root = parsed(
                explain((ls_explain_opts){ .recipe = recipe, .param = NAMES[i], .json = true }));
            const json_t *parts = json_object_get(root, "parts");
            assert_int_equal(json_array_size(parts), 4);
            int64_t until = 0;
            for (size_t r = 0; r < (hybrid ? 2 : 4); r++) {
                const json_t *part = json_array_get(parts, r);
                assert_true(number(part, "first") == until || number(part, "first") == number(part, "end"));
                until = number(part, "first") == number(part, "end") ? until : number(part, "end");
                if (hybrid)
                    assert_int_equal(number(json_array_get(parts, r + 2), "end"), number(part, "end"));
            }
            assert_int_equal(until, COUNTS[i]);
            ASSERT_CONTAINS(json_string_value(json_object_get(root, "use")),
                            hybrid ? "replicate(dp) -> all_gather(shard)" : "all_gather(dp)");
            ASSERT_CONTAINS(json_string_value(json_object_get(root, "gradient")),
                            hybrid ? "reduce_scatter(shard) -> all_reduce(dp)" : "reduce_scatter(dp)");
            json_decref(root);
        }
    char *text = explain(
        (ls_explain_opts){ .recipe = RECIPE("workers=4"),
                           .param = "encoder.layers.encoder_layer_1.self_attention.in_proj_weight" });
    ASSERT_CONTAINS(text, "forward   gathered by all_gather");
    ASSERT_CONTAINS(text, "backward  gradient, summed over the ranks by reduce_scatter");
    ASSERT_CONTAINS(text, "update    update by adam");
    ASSERT_CONTAINS(text, "rank 0   holds elements 0 to 24640 of 49152: rows 0 to 192, the last in part\n");
    free(text);
    text = explain((ls_explain_opts){
        .recipe = RECIPE("workers=4", "parallel.gather=copy", "parallel.reshard_after_forward=2"),
        .param = "encoder.layers.encoder_layer_1.mlp.0.weight" });
    ASSERT_CONTAINS(text, "forward   a slice of its unit kept by copy");
    ASSERT_CONTAINS(text, "backward  gathered by all_gather (again)");
    ASSERT_CONTAINS(text, "backward  read by linear_dx in encoder.layers.encoder_layer_1.mlp.0");
    free(text);
}

static void settings_side_by_side(void **state)
{
    (void)state;
    const char *const COMPARE[] = { "parallel.gather=copy", "parallel.reshard_after_forward=true,false,3",
                                    "optimizer.betas=[0.9, 0.99],[0.8, 0.9]" };
    json_t *root = parsed(plan((ls_plan_command_opts){
        .recipe = RECIPE("workers=4"), .n_compare = 3, .compare = COMPARE, .json = true }));
    const json_t *columns = json_object_get(root, "columns");
    assert_int_equal(json_array_size(columns), 6);
    const json_t *dropped = json_array_get(columns, 0), *kept = json_array_get(columns, 2),
                 *refused = json_array_get(columns, 5);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(dropped, "settings"), "optimizer.betas")),
        "[0.9, 0.99]");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(refused, "settings"), "optimizer.betas")),
        "[0.8, 0.9]");
    assert_true(number(dropped, "rank.memory.peak.gathered") < number(kept, "rank.memory.peak.gathered"));
    /* the tutorial's trade: memory for communication */
    assert_true(number(dropped, "rank.bytes") > number(kept, "rank.bytes"));
    ASSERT_CONTAINS(json_string_value(json_object_get(refused, "refused")), "reshard_after_forward");
    assert_null(json_object_get(refused, "rank"));
    json_decref(root);

    char *text = plan(
        (ls_plan_command_opts){ .recipe = RECIPE("workers=4"), .n_compare = 3, .compare = COMPARE });
    ASSERT_CONTAINS(text, "refused, parallel.gather=copy parallel.reshard_after_forward=3");
    ASSERT_CONTAINS(text, "all_gather over dp");
    free(text);

    output out;
    open_output(&out);
    const char *const ALL_WRONG[] = { "parallel.reshard_after_forward=3,5" },
                      *const NO_VALUES[] = { "parallel.gather" },
                      *const EMPTY[] = { "parallel.gather=map,,copy" },
                      *const MANY[] = { "train.epochs=1,2,3,4,5", "run.seed=1,2,3,4" };
    ASSERT_FAILS(
        ls_plan_command(
            &(ls_plan_command_opts){ .recipe = RECIPE("workers=4"), .n_compare = 1, .compare = ALL_WRONG },
            &out.ui),
        LS_E_USAGE, "every setting", "reshard_after_forward");
    for (int n = 0; n < 5; n++) { /* lists, the table and its settings */
        ls_fault_arm(1u << LS_POINT_MEMORY, n, LS_FAIL_ONCE);
        ASSERT_FAILS(ls_plan_command(&(ls_plan_command_opts){ .recipe = RECIPE("workers=4"),
                                                              .n_compare = 1,
                                                              .compare = ALL_WRONG },
                                     &out.ui),
                     LS_E_MEMORY, "memory");
        ls_fault_disarm();
    }
    ASSERT_FAILS(
        ls_plan_command(
            &(ls_plan_command_opts){ .recipe = RECIPE("workers=4"), .n_compare = 1, .compare = NO_VALUES },
            &out.ui),
        LS_E_USAGE, "KEY=VALUE");
    ASSERT_FAILS(
        ls_plan_command(
            &(ls_plan_command_opts){ .recipe = RECIPE("workers=4"), .n_compare = 1, .compare = EMPTY },
            &out.ui),
        LS_E_USAGE, "empty value");
    ASSERT_FAILS(
        ls_plan_command(
            &(ls_plan_command_opts){ .recipe = RECIPE("workers=4"), .n_compare = 2, .compare = MANY },
            &out.ui),
        LS_E_USAGE, "16");
    ASSERT_FAILS(ls_explain_command(&(ls_explain_opts){ .recipe = RECIPE("workers=4"), .rank = 4 }, &out.ui),
                 LS_E_USAGE, "--rank 4", "0 to 3");
    assert_int_equal(strlen(close_output(&out)), 0);
    free(out.text);
}

/* What docs/explain.md says of mixed precision and offload. */
static void memory_strategies(void **state)
{
    (void)state;
    const char *const COMPARE[] = { "precision.param=f32,bf16", "parallel.offload=none,cpu" };
    json_t *root = parsed(plan((ls_plan_command_opts){
        .recipe = RECIPE("workers=2", "parallel.gather=copy", "train.global_batch=128"),
        .n_compare = 2,
        .compare = COMPARE,
        .json = true }));
    const json_t *columns = json_object_get(root, "columns"), *f32 = json_array_get(columns, 0),
                 *bf16 = json_array_get(columns, 2), *offload = json_array_get(columns, 1);
    assert_true(near(2 * number(bf16, "rank.memory.peak.activations"),
                     number(f32, "rank.memory.peak.activations"), 0.02));
    assert_true(
        near(2 * number(bf16, "rank.memory.peak.gathered"), number(f32, "rank.memory.peak.gathered"), 0.001));
    /* (slices are aligned for both types) */
    assert_true(
        near(number(bf16, "rank.memory.peak.optimizer"), number(f32, "rank.memory.peak.optimizer"), 0.001));
    assert_int_equal(number(f32, "rank.memory.of_it_host"), 0);
    /* parameters, gradients, two moments; and the counters */
    const int64_t slices = number(f32, "rank.memory.peak.parameters");
    assert_true(near(number(offload, "rank.memory.of_it_host"), 4 * slices, 0.01));
    assert_true(number(offload, "rank.memory.total") - number(offload, "rank.memory.of_it_host") <
                number(f32, "rank.memory.total") - 3 * slices);
    const int64_t device = number(offload, "rank.memory.total") - number(offload, "rank.memory.of_it_host");
    json_decref(root);
    const ls_recipe_arg recipe = RECIPE("workers=2", "parallel.gather=copy", "train.global_batch=128");
    char *text = plan((ls_plan_command_opts){ .recipe = recipe, .n_compare = 1, .compare = &COMPARE[1] });
    char row[128], bytes[32];
    ls_format_bytes(bytes, (uint64_t)device);
    snprintf(row, sizeof row, "  of it on the device %27s %14s\n", "-", bytes);
    ASSERT_CONTAINS(text, row);
    free(text);
}

/* Two buffers of gradients for the tree of two micro-batches, one for a running sum: the difference is in
 * each sum that has them, wherever they rest. The copy that is saved while training goes on is counted, too.
 */
static void buffers_are_in_the_sums(void **state)
{
    (void)state;
    const char *const COMPARE[] = { "train.accumulate=tree,running", "parallel.offload=none,cpu",
                                    "checkpoint.async=false,true" };
    const ls_recipe_arg recipe = RECIPE("workers=2", "train.micro_batch=2");
    const ls_plan_command_opts o = { .recipe = recipe, .n_compare = 3, .compare = COMPARE, .json = true };
    json_t *root = parsed(plan(o));
    const json_t *columns = json_object_get(root, "columns"), *c;
    size_t k;
    json_array_foreach(columns, k, c)
    {
        static const char *const PARTS[] = {
            "state", "io", "arena", "window_arena", "micro_batch_sums", "buffer_copies", "scratch", "staging"
        };
        const json_t *memory = json_object_get(json_object_get(c, "rank"), "memory");
        int64_t parts = 0;
        for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++)
            parts += number(memory, PARTS[i]);
        assert_int_equal(number(c, "rank.memory.total"), parts);
        assert_int_equal(number(c, "rank.memory.peak.staging"), number(c, "rank.memory.staging"));
        assert_int_equal(number(c, "rank.memory.staging") > 0, k % 2);
    }
    for (k = 0; k < 4; k++) {
        const json_t *of[2] = { json_array_get(columns, k), json_array_get(columns, 4 + k) };
        const json_t *tree = json_object_get(json_object_get(of[0], "rank"), "memory");
        const json_t *running = json_object_get(json_object_get(of[1], "rank"), "memory");
        const int64_t buffer = number(tree, "micro_batch_sums") - number(running, "micro_batch_sums");
        assert_true(buffer > 0);
        assert_int_equal(number(tree, "peak.gradients") - number(running, "peak.gradients"), buffer);
        assert_int_equal(number(tree, "of_it_host") - number(running, "of_it_host"), k / 2 ? buffer : 0);
    }
    json_decref(root);
}

/* Calls and seconds of all kinds of collectives, on a machine that has been measured. */
static void collectives_are_added_up(void **state)
{
    (void)state;
    const ls_calibration machine = { .arch = "avx2",
                                     .threads = 1,
                                     .flops = 1e11,
                                     .gemm_efficiency = 0.5,
                                     .bytes_cache = 1e11,
                                     .bytes_memory = 1e10,
                                     .op_overhead = 1e-6 };
    const ls_recipe_arg recipe = RECIPE("workers=2", "train.micro_batch=2", "threads=1", "isa=avx2");
    ls_compiled_recipe c;
    ls_step_cost cost;
    ASSERT_OK(ls_compiled_recipe_make(&c, &recipe, 0, NULL));
    ls_compiled_release(&c.step);
    ASSERT_OK(ls_compile(&c.step, ls_recipe_build, c.recipe, &c.setup.trainer, &machine));
    ls_step_cost_of(&cost, &c);
    int64_t calls = 0;
    double seconds = 0;
    assert_true(cost.n_traffic > 1);
    for (int i = 0; i < cost.n_traffic; i++) {
        assert_true(cost.traffic[i].calls > 0 && cost.traffic[i].seconds > 0);
        calls += cost.traffic[i].calls;
        seconds += cost.traffic[i].seconds;
    }
    assert_int_equal(cost.collectives, calls);
    assert_float_equal(cost.communication, seconds, 1e-12);
    assert_true(cost.seconds > cost.communication);
    ls_compiled_recipe_release(&c);
}

/* What stands against the same bits is said, and what does not is not. */
static void the_promise_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *sets[3], *says;
    } CASES[] = {
        { { "workers=4", "train.micro_batch=2", "parallel.data=ddp" }, "bits    the same on 1, 2, 4" },
        { { "workers=1", "threads=1", "isa=generic" }, "train.micro_batch is not set, so it is" },
        { { "workers=2", "train.micro_batch=2", "train.accumulate=running" },
          "not promised to be those of other layouts: train.accumulate" },
        { { "workers=3", "train.global_batch=24", "train.micro_batch=1" }, "layouts: the sum over ranks" },
        { { "workers=2", "precision.param=bf16", "precision.reduce=bf16" }, "layouts: precision.reduce:" },
        { { "workers=1", "train.micro_batch=2", "precision.reduce=bf16" }, "layouts: precision.reduce:" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char *text = plan(
            (ls_plan_command_opts){ .recipe = RECIPE(CASES[i].sets[0], CASES[i].sets[1], CASES[i].sets[2]) });
        ASSERT_CONTAINS(text, CASES[i].says);
        free(text);
    }
}

static void inspect_says_who_holds_what(void **state)
{
    (void)state;
    output out;
    open_output(&out);
    ASSERT_OK(ls_inspect_command(&(ls_inspect_opts){ .model = RECIPE("workers=2") }, &out.ui));
    char *text = close_output(&out);
    ASSERT_CONTAINS(text, "f32 [384, 128]  unit encoder.layers.encoder_layer_2  rank 0: all");
    ASSERT_CONTAINS(text, "f32 [128, 128]  unit encoder.layers.encoder_layer_2  rank 1: all");
    free(text);
    open_output(&out);
    ASSERT_OK(ls_inspect_command(&(ls_inspect_opts){ .model = RECIPE("workers=1") }, &out.ui));
    text = close_output(&out);
    assert_null(strstr(text, "rank 0"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_take_their_part),   cmocka_unit_test(messages_are_counted),
        cmocka_unit_test(the_loader_is_counted),    cmocka_unit_test(plan_and_explain_agree),
        cmocka_unit_test(alike_blocks_are_folded),  cmocka_unit_test(parts_cover_the_tensor),
        cmocka_unit_test(settings_side_by_side),    cmocka_unit_test(the_promise_is_said),
        cmocka_unit_test(memory_strategies),        cmocka_unit_test(buffers_are_in_the_sums),
        cmocka_unit_test(collectives_are_added_up), cmocka_unit_test(inspect_says_who_holds_what),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
