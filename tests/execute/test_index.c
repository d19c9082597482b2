/* test_index.c - numbers of elements that are not there, in gather and scatter_add. */
#include <stdio.h>
#include <string.h>

#include "lockstep/graph.h"
#include "plan/plan.h"
#include "support/values.h"

/* A number without an element stops the run at the op, with the model's line; nothing is read or written
 * beyond memory. */
static void an_index_without_an_element_is_named(void **state)
{
    (void)state;
    for (int scatter = 0; scatter < 2; scatter++) {
        ls_graph *g;
        ls_plan *p;
        ls_session *s;
        ls_device d;
        char line[64];
        ASSERT_OK(ls_graph_create(&g, "index"));
        const ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4, 3)),
                       index = ls_input(g, "index", LS_TYPE(LS_I32, 4));
        const int at = __LINE__ + 1;
        const ls_value y = scatter ? ls_index_add(g, x, 0, index, x) : ls_index_select(g, x, 0, index);
        ls_output(g, "y", y);
        ASSERT_OK(ls_graph_finish(g));
        ASSERT_OK(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
        ASSERT_OK(ls_plan_create(&p, g, &d, NULL));
        ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
        value_fill(s, "x", 0);
        value_put(s, "index", (int32_t[]){ 0, 3, 1, 2 }, sizeof(int32_t[4]));
        ASSERT_OK(ls_session_run(s, 0, true));
        value_set(s, "index", 2, 4);
        assert_int_equal(ls_session_run(s, 0, true), LS_E_NUMERIC);
        snprintf(line, sizeof line, "test_index.c:%d", at);
        assert_non_null(strstr(ls_error_message(), scatter ? "scatter_add" : "gather"));
        assert_non_null(strstr(ls_error_message(), line));
        ls_session_destroy(&s);
        ls_plan_destroy(&p);
        ls_graph_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(an_index_without_an_element_is_named) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
