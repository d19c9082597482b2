/* test_trace.c - profiles: trace viewers can read the trace, and the numbers of the table add up. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/graph.h"
#include "base/file.h"
#include "base/json.h"
#include "execute/trace.h"
#include "support/support.h"

static void profile_of_two_programs(void **state)
{
    (void)state;
    ls_device d;
    ls_graph *g[2];
    ls_plan *p[2];
    ls_session *s;
    ls_profile *profile;
    ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(ls_graph_create(&g[i], i ? "second" : "first"));
        ls_value x = ls_input(g[i], "x", LS_TYPE(LS_F32, 32, 32)),
                 w = ls_param(g[i], "w", LS_TYPE(LS_F32, 32, 32), (ls_init){ 0 });
        ls_scope_push(g[i], "block \"0\"", "");
        ls_value y = ls_matmul_wt(g[i], x, w, LS_NONE);
        ls_scope_pop(g[i]);
        ls_output(g[i], i ? "b" : "a", i ? ls_tanh(g[i], ls_tanh(g[i], y)) : y);
        ASSERT_OK(ls_graph_finish(g[i]));
        ASSERT_OK(ls_plan_create(&p[i], g[i], &d, NULL));
    }
    ASSERT_OK(ls_session_create(&s, 2, p, NULL));
    ASSERT_OK(ls_profile_create(&profile));
    ls_session_profile(s, true);
    for (int run = 0; run < 6; run++) {
        ASSERT_OK(ls_session_run(s, run % 2, false));
        ls_profile_step(profile, 10 + run / 2);
        ls_profile_add(profile, s, run % 2);
    }
    const char *path = ls_test_path("trace.json");
    ASSERT_OK(ls_trace_write(path, profile));

    char *text;
    size_t size;
    json_t *root;
    ASSERT_OK(ls_file_read(&text, &size, path));
    ASSERT_OK(ls_json_parse(&root, text, size, path));
    const json_t *events = json_object_get(root, "traceEvents");
    int ops = 0, programs = 0, steps = 0;
    double until = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X"))
            continue;
        const double start = json_number_value(json_object_get(e, "ts")),
                     seconds = json_number_value(json_object_get(e, "dur"));
        if (json_integer_value(json_object_get(e, "tid")) == 0) {
            char marker[32];
            snprintf(marker, sizeof marker, "ProfilerStep#%d", 10 + steps++);
            assert_string_equal(json_string_value(json_object_get(e, "name")), marker);
            continue;
        }
        if (json_integer_value(json_object_get(e, "tid")) == 1) {
            programs++;
            continue;
        }
        ops++;
        /* microseconds; one after the other, over all runs */
        assert_true(seconds > 0 && start >= until - 1e-3);
        until = start + seconds;
        const char *name = json_string_value(json_object_get(e, "name"));
        const json_t *args = json_object_get(e, "args");
        if (strstr(name, "linear")) {
            assert_string_equal(name, "block \"0\" linear");
            ASSERT_CONTAINS(json_string_value(json_object_get(args, "op")),
                            "linear(f32 [32, 32], f32 [32, 32]");
            const json_t *dims = json_array_get(json_object_get(args, "Input Dims"), 1);
            assert_int_equal(json_integer_value(json_array_get(dims, 0)), 32);
            assert_string_equal(json_string_value(json_array_get(json_object_get(args, "Output type"), 0)),
                                "f32");
            assert_true(json_number_value(json_object_get(args, "flops")) >= 2 * 32 * 32 * 32);
        }
    }
    assert_int_equal(programs, 6);
    assert_int_equal(steps, 3);
    assert_int_equal(ops, 3 * 1 + 3 * 3);
    json_decref(root);
    free(text);

    ls_str table = { 0 };
    const ls_calibration c = {
        .flops = 1e12, .gemm_efficiency = 1, .bytes_cache = 1e12, .bytes_memory = 1e11, .op_overhead = 0
    };
    ls_profile_table(&table, profile, &c, 10);
    ASSERT_CONTAINS(table.data, "6 runs");
    ASSERT_CONTAINS(table.data, "of limit");
    int calls = 0, lines = 0;
    double share = 0;
    for (char *line = strtok(table.data, "\n"); line; line = strtok(NULL, "\n")) {
        int n;
        double us, percent;
        if (++lines > 2 && sscanf(line, "%d %lf %lf%%", &n, &us, &percent) == 3) {
            calls += n;
            share += percent;
        }
    }
    assert_int_equal(calls, 12);
    assert_float_equal(share, 100, 0.2);
    ls_str_clear(&table);
    ls_profile_table(&table, profile, NULL, 10);
    ASSERT_CONTAINS(table.data, "lockstep doctor");
    ls_str_release(&table);

    ls_profile_destroy(&profile);
    ls_session_destroy(&s);
    for (int i = 0; i < 2; i++) {
        ls_plan_destroy(&p[i]);
        ls_graph_destroy(&g[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(profile_of_two_programs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
