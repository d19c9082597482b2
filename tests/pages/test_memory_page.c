/* test_memory_page.c - rank-N.memory.html: it is well-formed, has no external resources, and shows the
 * numbers of the plan, with and without a profile. Also the trace of a rank, in which collectives have a
 * track. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "golden/training.h"
#include "page.h"
#include "plan/describe.h"
#include "support/ranks.h"
#include "support/small_vit.h"
#include "pages/memory_page.h"

static void record(void *profile, ls_trainer *t, int program)
{
    ls_profile_add(profile, t->session, t->session_plan[program]);
}

static char *written(const ls_trainer *t, const ls_profile *p)
{
    const char *path = ls_test_path("rank-3.memory.html");
    char *text;
    size_t size;
    ls_str peak = { 0 };
    ASSERT_OK(ls_memory_page_write(path, t, p, 3, &peak));
    ASSERT_OK(ls_file_read(&text, &size, path));
    page_check(text);
    ASSERT_CONTAINS(ls_str_text(&peak), "in unit encoder.layers.encoder_layer_");
    /* (which category and unit hold the most depends on the workspace that kernels of the level want) */
    ASSERT_CONTAINS(ls_str_text(&peak), ", of it ");
    ASSERT_CONTAINS(ls_str_text(&peak), " holds the most, ");
    ASSERT_CONTAINS(text, ls_str_text(&peak));
    ASSERT_CONTAINS(text, "The peak by unit and category");
    ASSERT_CONTAINS(text, "<tr><td>encoder.layers.encoder_layer_1</td><td>");
    ASSERT_CONTAINS(text, "<tr><td>root</td><td>");
    ls_str_release(&peak);
    return text;
}

/* The most that any moment holds, from the allocations themselves. */
static size_t most_held(const ls_trainer *t)
{
    ls_footprint f;
    ls_plans_footprint(&f, LS_PROGRAMS, t->compiled.plans);
    size_t most = 0;
    for (int i = LS_MICRO; i <= LS_UPDATE; i++) {
        const ls_plan *p = t->compiled.plans[i];
        for (int k = 0; k < p->n_steps; k++) {
            size_t sum = 0;
            for (int a = 0; a < p->n_allocs; a++)
                if (ls_is_transient(&p->allocs[a]) && p->allocs[a].first <= k && k <= p->allocs[a].last)
                    sum += (p->allocs[a].bytes + 63) / 64 * 64;
            most = sum > most ? sum : most;
        }
    }
    return most + f.state + f.io + t->compiled.spares.level_bytes;
}

/* The most that a column of the chart has, in bytes. */
static double most_drawn(const char *page)
{
    json_t *chart = page_chart(page, "memory over the step with the peak");
    const json_t *all = json_object_get(chart, "series"), *series;
    double most = 0;
    for (size_t k = 0; k < json_array_size(json_object_get(chart, "labels")); k++) {
        double sum = 0;
        size_t i;
        json_array_foreach(all, i, series) sum += page_number(json_object_get(series, "points"), k, 1);
        most = sum > most ? sum : most;
    }
    json_decref(chart);
    return most * (1 << 20);
}

static const ls_vit_config SMALL = { SMALL_VIT, .layers = 3, .mlp_size = 32, .classes = 10 };
static const uint8_t images[8 * 64];
static const int32_t labels[8];

static void profiled_and_planned(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_profile *p;
    ASSERT_OK(ls_trainer_create(&t, training_build_vit, &SMALL, .micro_batch = 4, .micro_batches = 2,
                                .threads = 1));
    ASSERT_OK(ls_trainer_init(t, 0));
    ASSERT_OK(ls_profile_create(&p));
    ls_session_profile(t->session, true);
    t->after_run = record;
    t->context = p;
    ls_step_result r;
    for (int i = 0; i < 3; i++)
        ASSERT_OK(ls_trainer_step(t, images, labels, 8, 1e-3, &r));
    char bytes[32], expect[96];
    snprintf(expect, sizeof expect, "\"kind\":\"peak\",\"text\":\"peak %s\"",
             ls_format_bytes(bytes, most_held(t)));

    char *page = written(t, p);
    ASSERT_CONTAINS(page, "Memory of rank 3");
    ASSERT_CONTAINS(page, expect);
    ASSERT_CONTAINS(page, "times as measured");
    assert_true(fabs(most_drawn(page) - (double)most_held(t)) < 1); /* points are of single precision */
    /* (not the labels: a busy machine decides which programs are wide enough for one) */
    ASSERT_CONTAINS(page, "The profiled steps");
    ASSERT_CONTAINS(page, "exp_avg.unit root");
    ASSERT_CONTAINS(page, "encoder_layer_2");
    free(page);

    page = written(t, NULL);
    ASSERT_CONTAINS(page, expect);
    ASSERT_CONTAINS(page, "times as planned");
    ASSERT_CONTAINS(page, "\"kind\":\"line\",\"text\":\"update\"");
    assert_null(strstr(page, "The profiled steps"));
    free(page);
    ls_profile_destroy(&p);
    ls_trainer_destroy(&t);
}

/* ---- two ranks */

/* expected: of `micro`, of each program */
typedef struct files {
    const char *page[2], *trace[2];
    int collectives, runs;
} files;

static ls_status rank(ls_group *g, void *context)
{
    files *f = context;
    const int r = ls_group_rank(g);
    ls_trainer *t;
    ls_profile *p;
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = 2, .micro_batches = 4,
                          .group = g };
    o.parallel.mesh.axes[0].size = 2;
    o.parallel.rank = r;
    o.parallel.units = "class:EncoderBlock";
    o.parallel.gather = LS_GATHER_COPY;
    LS_TRY(ls_trainer_create_with(&t, training_build_vit, &SMALL, &o));
    LS_TRY(ls_profile_create(&p));
    ls_status s = ls_trainer_init(t, 0);
    ls_session_profile(t->session, true);
    t->after_run = record;
    t->context = p;
    ls_step_result result;
    for (int i = 0; i < 2 && s == LS_OK; i++)
        s = ls_trainer_step(t, images, labels, 8, 1e-3, &result);
    if (s == LS_OK)
        s = ls_memory_page_write(f->page[r], t, p, r, NULL);
    if (s == LS_OK)
        s = ls_trace_write(f->trace[r], p);
    if (r == 0) {
        f->runs = 2 * (int)t->compiled.share.count;
        f->collectives = t->compiled.plans[LS_MICRO]->n_collectives;
    }
    ls_profile_destroy(&p);
    ls_trainer_destroy(&t);
    return s;
}

static void check_trace(const files *f, const char *path)
{
    char *text;
    size_t size;
    json_t *root;
    ASSERT_OK(ls_file_read(&text, &size, path));
    ASSERT_OK(ls_json_parse(&root, text, size, path));
    const json_t *events = json_object_get(root, "traceEvents"), *e;
    int starts = 0, largest = 0, waits = 0, begun = 0, ended = 0;
    size_t i;
    json_array_foreach(events, i, e)
    {
        const char *name = json_string_value(json_object_get(e, "name")),
                   *ph = json_string_value(json_object_get(e, "ph"));
        if (json_integer_value(json_object_get(e, "tid")) != 3 || *ph == 'M')
            continue;
        starts += !strncmp(name, "start all_gather of unit ", 25) ||
                  !strncmp(name, "start reduce_scatter of unit ", 29);
        largest += !strncmp(name, "start all_reduce", 16); /* of the gradient's elements, in update */
        waits += !strncmp(name, "wait ", 5);
        begun += *ph == 'b';
        ended += *ph == 'e';
        if (strstr(name, " over dp") == NULL)
            fail_msg("%s", name);
    }
    const int all = f->runs * f->collectives;
    assert_true(f->collectives >= 3 * 3); /* a gather, another one, a reduction for each block */
    assert_int_equal(starts, all);
    assert_true(largest > 0);
    assert_int_equal(waits, all + largest);
    assert_int_equal(begun, all + largest);
    assert_int_equal(ended, all + largest);
    json_decref(root);
    free(text);
}

static void each_rank_has_its_own(void **state)
{
    (void)state;
    files f = { .page = { ls_test_path("rank-0.memory.html"), ls_test_path("rank-1.memory.html") },
                .trace = { ls_test_path("0.json"), ls_test_path("1.json") } };
    ASSERT_OK(run_ranks(2, rank, &f));
    for (int r = 0; r < 2; r++) {
        char *page, heading[32];
        size_t size;
        snprintf(heading, sizeof heading, "Memory of rank %d<", r);
        ASSERT_OK(ls_file_read(&page, &size, f.page[r]));
        page_check(page);
        ASSERT_CONTAINS(page, heading);
        ASSERT_CONTAINS(page, "2 ranks, dp=2");
        ASSERT_CONTAINS(page, "<th scope=\"row\">gathered</th>");
        ASSERT_CONTAINS(page, "of it, window");
        free(page);
        check_trace(&f, f.trace[r]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(profiled_and_planned),
                                        cmocka_unit_test(each_rank_has_its_own) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
