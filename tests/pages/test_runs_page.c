/* test_runs_page.c - the page of all runs: its tables have the numbers of the runs, the best of them, and the
 * keys in which their recipes differ; its curves are the rows of the runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "page.h"
#include "pages/runs_page.h"
#include "support/support.h"

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* Losses 1/1, 1/2, ... times `scale`, and one evaluation. */
static void write_run(const char *storage, const char *name, double scale, const char *lr)
{
    char dir[600], text[4096];
    int n = 0;
    snprintf(dir, sizeof dir, "%s/%s", storage, name);
    ASSERT_OK(ls_make_dirs(dir));
    snprintf(text, sizeof text, "run:\n  name: %s\noptimizer:\n  type: adam\n  lr: %s\n", name, lr);
    write_file(dir, "recipe.yaml", text);
    snprintf(text, sizeof text,
             "{\"state\":\"finished\",\"time\":1,\"step\":20,\"epoch\":1,\"loss\":%g,\"eval\":{\"step\":20,"
             "\"loss\":%g,\"accuracy\":%g},\"best\":{\"metric\":\"eval_loss\",\"value\":%g,\"step\":10,"
             "\"epoch\":0}}",
             scale / 20, scale, scale / 8, scale / 2);
    write_file(dir, "result.json", text);
    for (int i = 1; i <= 20; i++)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "{\"kind\":\"step\",\"step\":%d,\"epoch\":0,\"loss\":%g,\"lr\":0.1,\"samples\":8,"
                      "\"seconds\":0.5,\"attempt\":0}\n",
                      i, scale / i);
    write_file(dir, "metrics.jsonl", text);
}

static const char *runs(void)
{
    static char storage[500];
    snprintf(storage, sizeof storage, "%s", ls_test_path("runs"));
    if (!ls_dir_exists(storage)) {
        write_run(storage, "a <b>", 1, "0.1");
        write_run(storage, "c", 2, "0.2");
    }
    return storage;
}

static ls_status write_page(void *context)
{
    char *const *paths = context;
    return ls_runs_page_write(paths[0], paths[1]);
}

static void words_and_curves_are_those_of_the_runs(void **state)
{
    (void)state;
    char *page;
    size_t size;
    ASSERT_OK(ls_runs_page_write(ls_test_path("runs.html"), runs()));
    ASSERT_OK(ls_file_read(&page, &size, ls_test_path("runs.html")));
    page_check(page);
    ASSERT_CONTAINS(page, "a &lt;b&gt;");
    /* smaller is better for a loss, larger for an accuracy */
    ASSERT_CONTAINS(page, "<td data-v=\"1\">1 <span class=\"best\">best</span></td>");
    ASSERT_CONTAINS(page, "<td data-v=\"2\">2</td>");
    ASSERT_CONTAINS(page, "25.00% <span class=\"best\">best</span></td>");
    ASSERT_CONTAINS(page, "12.50%</td>");
    ASSERT_CONTAINS(page, "<td data-v=\"0.5\">eval_loss 0.5 at 10</td>");
    /* first, ten between, last, least, greatest */
    ASSERT_CONTAINS(page,
                    "<tr><th scope=\"row\">c</th><td>2 <small>at 1</small></td><td>1 <small>at 2</small>");
    ASSERT_CONTAINS(page, "<td>0.1 <small>at 20</small></td><td>0.1 <small>at 20</small></td><td>2 <small>at "
                          "1</small></td></tr>");
    /* keys that differ, without the name */
    ASSERT_CONTAINS(page,
                    "<tr><td>optimizer.lr</td><td data-run=\"0\">0.1</td><td data-run=\"1\">0.2</td></tr>");
    assert_null(strstr(page, "<td>optimizer.type</td>"));
    assert_null(strstr(page, "<td>run.name</td>"));
    json_t *data = page_data(page, "data");
    for (size_t r = 0; r < 2; r++) {
        const json_t *run = json_array_get(json_object_get(data, "runs"), r),
                     *points = json_object_get(json_object_get(run, "curves"), "loss");
        assert_int_equal(json_array_size(points), 20);
        for (size_t i = 0; i < 20; i++) {
            assert_true(page_number(points, i, 0) == (double)i + 1);
            assert_true(fabs(page_number(points, i, 1) - (double)(r + 1) / (double)(i + 1)) < 1e-5);
        }
    }
    json_decref(data);
    free(page);
}

/* Every allocation is refused in turn. */
/* A recipe is a file of the user's: sections in sections may have long names. */
static void keys_of_any_length(void **state)
{
    (void)state;
    char *page, name[300], text[2000], key[1000];
    size_t size;
    const char *storage = ls_test_path("long");
    memset(name, 'k', sizeof name - 1);
    name[sizeof name - 1] = 0;
    for (int run = 0; run < 2; run++) {
        char dir[600];
        write_run(storage, run ? "b" : "a", 1, "0.1");
        snprintf(dir, sizeof dir, "%s/%s", storage, run ? "b" : "a");
        snprintf(text, sizeof text, "model:\n  %s:\n    %s:\n      x: %d\n  y: %d\n", name, name, run, run);
        write_file(dir, "recipe.yaml", text);
    }
    ASSERT_OK(ls_runs_page_write(ls_test_path("long.html"), storage));
    ASSERT_OK(ls_file_read(&page, &size, ls_test_path("long.html")));
    page_check(page);
    snprintf(key, sizeof key, "<td>model.%s.%s.x</td>", name, name);
    ASSERT_CONTAINS(page, key);
    ASSERT_CONTAINS(page, "<td>model.y</td>");
    free(page);
}

static void a_page_is_written_without_memory(void **state)
{
    (void)state;
    char *paths[2] = { strdup(ls_test_path("memory.html")), strdup(runs()) };
    assert_true(ls_test_memory(write_page, paths, 3) > 20);
    free(paths[0]);
    free(paths[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(words_and_curves_are_those_of_the_runs),
                                        cmocka_unit_test(keys_of_any_length),
                                        cmocka_unit_test(a_page_is_written_without_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
