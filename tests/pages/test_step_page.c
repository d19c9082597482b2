/* test_step_page.c - the page of a step: its words and tables have the numbers of the plans, whichever
 * layouts it shows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "golden/training.h"
#include "page.h"
#include "pages/step_page.h"
#include "plan/describe.h"
#include "support/ranks.h"
#include "support/small_vit.h"

static const ls_vit_config SMALL = { SMALL_VIT, .layers = 3, .mlp_size = 32, .classes = 10 };

static ls_trainer *make_trainer(void)
{
    ls_trainer *t;
    ASSERT_OK(ls_trainer_create(&t, training_build_vit, &SMALL, .micro_batch = 4, .micro_batches = 2,
                                .threads = 1));
    return t;
}

static char *read_page(const char *path)
{
    char *text;
    size_t size;
    ASSERT_OK(ls_file_read(&text, &size, path));
    page_check(text);
    return text;
}

static int steps_of_phase(const ls_plan *p, ls_phase phase)
{
    int n = 0;
    for (int k = 0; k < p->n_steps; k++)
        n += p->steps[k].part == LS_PART_RUN && p->graph->nodes[p->steps[k].node]->phase == phase;
    return n;
}

static const char *milliseconds(char out[32], double s)
{
    snprintf(out, 32, s >= 0.1 ? "%.0f ms" : s >= 0.01 ? "%.1f ms" : "%.2f ms", 1e3 * s);
    return out;
}

/* Every number in words, without a script. */
static void words_have_the_numbers_of_the_plan(void **state)
{
    (void)state;
    ls_trainer *t = make_trainer();
    const ls_plan *micro = t->compiled.plans[LS_MICRO], *update = t->compiled.plans[LS_UPDATE];
    const char *path = ls_test_path("step.html");
    char text[128], bytes[32];
    double *seconds[2] = { malloc(sizeof(double) * (size_t)micro->n_steps),
                           malloc(sizeof(double) * (size_t)update->n_steps) };
    for (int k = 0; k < micro->n_steps; k++)
        seconds[0][k] = 0.001;
    for (int k = 0; k < update->n_steps; k++)
        seconds[1][k] = 0.002;
    const ls_step_times times[] = { { seconds[0], 5 }, { seconds[1], 5 } };
    ASSERT_OK(ls_step_page_one(
        path, &(ls_step_view){ .name = "<b>&", .layout = "", .compiled = &t->compiled, .times = times }));
    char *page = read_page(path);
    ASSERT_CONTAINS(page, "<h1>Step of &lt;b&gt;&amp;</h1>");
    ASSERT_CONTAINS(page, "one rank · 2 × 4 samples of this rank");
    ASSERT_CONTAINS(page, "times measured: the median of 5 runs");
    snprintf(text, sizeof text, "<b>%s</b><span>a step, measured</span>",
             milliseconds(bytes, 2 * 0.001 * micro->n_steps + 0.002 * update->n_steps));
    ASSERT_CONTAINS(page, text);
    const int forward = 2 * steps_of_phase(micro, LS_PHASE_FORWARD),
              backward = 2 * steps_of_phase(micro, LS_PHASE_BACKWARD);
    snprintf(text, sizeof text, "<tr><th scope=\"row\">forward</th><td>%d</td><td>%s</td>", forward,
             milliseconds(bytes, 0.001 * forward));
    ASSERT_CONTAINS(page, text);
    snprintf(text, sizeof text, "<tr><th scope=\"row\">backward</th><td>%d</td><td>%s</td>", backward,
             milliseconds(bytes, 0.001 * backward));
    ASSERT_CONTAINS(page, text);
    snprintf(text, sizeof text, "<tr><th scope=\"row\">update</th><td>%d</td>", update->n_steps);
    ASSERT_CONTAINS(page, text);
    ASSERT_CONTAINS(page, "<tr><th scope=\"row\">activations</th>");
    ASSERT_CONTAINS(page, "Where the time goes");
    ls_str explained = { 0 };
    ls_explain_text(&explained, micro, false);
    char *line = strndup(ls_str_text(&explained), strcspn(ls_str_text(&explained), "\n"));
    ASSERT_CONTAINS(page, line); /* what `explain` prints */
    assert_null(strstr(page, "Collectives by unit"));
    for (int program = LS_MICRO; program <= LS_UPDATE; program++) { /* a sentence for every kernel */
        const ls_plan *p = t->compiled.plans[program];
        for (int k = 0; k < p->n_steps; k++) {
            const ls_op *op = p->graph->nodes[p->steps[k].node]->op;
            snprintf(text, sizeof text, "<dt>%s</dt><dd>%.20s", op->name, op->summary);
            ASSERT_CONTAINS(page, text);
            snprintf(text, sizeof text, "\"%s\":\"%.20s", op->name, op->summary);
            ASSERT_CONTAINS(page, text);
        }
    }
    free(line);
    free(page);
    ls_str_release(&explained);
    free(seconds[0]);
    free(seconds[1]);
    ls_trainer_destroy(&t);
}

static ls_status write_two(void *context)
{
    const ls_trainer *t = context;
    const ls_step_view view = { .name = "a=1", .layout = "", .compiled = &t->compiled };
    ls_step_page p;
    ls_step_page_begin(&p, "two <layouts>");
    ls_status s = ls_step_page_add(&p, &view);
    ls_step_page_refuse(&p, "a=3", "3 & 4 are too many");
    if (s == LS_OK)
        s = ls_step_page_add(&p, &view);
    if (s == LS_OK)
        s = ls_step_page_write(&p, ls_test_path("two.html"));
    ls_step_page_release(&p);
    return s;
}

static void layouts_stand_side_by_side(void **state)
{
    (void)state;
    ls_trainer *t = make_trainer();
    ASSERT_OK(write_two(t));
    char *page = read_page(ls_test_path("two.html"));
    ASSERT_CONTAINS(page, "<h1>two &lt;layouts&gt;</h1>");
    ASSERT_CONTAINS(page, "a=3 is refused: 3 &amp; 4 are too many");
    ASSERT_CONTAINS(page, "<h2>a=1</h2>");
    ASSERT_CONTAINS(page, "Side by side");
    assert_null(strstr(page, "time of a step")); /* there is no calibration */
    free(page);
    ls_trainer_destroy(&t);
}

/* A plan whose arena had no memory once has none later, so the next page is of another trainer. */
static ls_status write_or_renew(void *context)
{
    ls_trainer **t = context;
    const ls_status s = write_two(*t);
    if (s != LS_OK) {
        char message[256];
        snprintf(message, sizeof message, "%s", ls_error_message());
        ls_trainer_destroy(t);
        *t = make_trainer();
        return ls_fail(s, "%s", message);
    }
    return s;
}

/* Every allocation is refused in turn. */
static void a_page_is_written_without_memory(void **state)
{
    (void)state;
    ls_trainer *t = make_trainer();
    assert_true(ls_test_memory(write_or_renew, &t, 3) > 10);
    ls_trainer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(words_have_the_numbers_of_the_plan),
                                        cmocka_unit_test(layouts_stand_side_by_side),
                                        cmocka_unit_test(a_page_is_written_without_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
