/* test_model_page.c - the page of `lockstep inspect`: its words, the tensors, and the model in the order of
 * its forward pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "golden/training.h"
#include "page.h"
#include "support/support.h"
#include "verbs/commands.h"

static ls_status inspect(void *context)
{
    const ls_inspect_opts o = { .model = { .name = context }, .html = ls_test_path("model.html") };
    const ls_ui ui = { .out = stdout };
    return ls_inspect_command(&o, &ui);
}

static char *page_of(const char *recipe)
{
    char name[64], *text;
    size_t size;
    snprintf(name, sizeof name, "%s", recipe);
    ASSERT_OK(inspect(name));
    ASSERT_OK(ls_file_read(&text, &size, ls_test_path("model.html")));
    page_check(text);
    return text;
}

static int64_t integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void buffers_are_not_parameters(void **state)
{
    (void)state;
    char *page = page_of("resnet18-mnist");
    json_t *data = page_data(page, "data");
    const json_t *t;
    int64_t parameters = 0, buffers = 0;
    size_t i;
    ASSERT_CONTAINS(page, "<b>11,175,370</b><span>parameters</span>");
    ASSERT_CONTAINS(page, "<b>9,620</b><span>elements of buffers</span>");
    ASSERT_CONTAINS(page, "<b>122</b><span>tensors</span>");
    json_array_foreach(json_object_get(data, "tensors"), i, t)
    {
        const char *name = json_string_value(json_object_get(t, "name"));
        const bool buffer = json_is_true(json_object_get(t, "buffer"));
        assert_int_equal(buffer, strstr(name, "running_") || strstr(name, "num_batches"));
        *(buffer ? &buffers : &parameters) += integer(t, "elements");
    }
    assert_int_equal(parameters, 11175370);
    assert_int_equal(buffers, 9620);
    ASSERT_CONTAINS(page, "resnet18-mnist (resnet18)"); /* what the command prints */
    ASSERT_CONTAINS(page, "elements in 62 tensors, 42.6 MiB");
    json_decref(data);
    free(page);
}

/* Blocks in the order of the forward pass, each with what it reads and the shape of its result. */
static void the_forward_pass_is_in_order(void **state)
{
    (void)state;
    char *page = page_of("unet-segmentation");
    json_t *data = page_data(page, "data");
    const json_t *graph = json_object_get(data, "graph"), *part, *from;
    size_t i, k;
    int64_t parameters = 0;
    int skips = 0;
    json_array_foreach(graph, i, part)
    {
        parameters += integer(part, "parameters");
        json_array_foreach(json_object_get(part, "from"), k, from)
        {
            assert_true(json_integer_value(from) < (int64_t)i);
            skips += json_integer_value(from) + 1 < (int64_t)i;
        }
        const char *name = json_string_value(json_object_get(part, "name"));
        if (!strcmp(name, "up2"))
            assert_string_equal(json_string_value(json_object_get(part, "result")), "f32 [1, 8, 32, 32]");
    }
    assert_int_equal(parameters, 29499);
    assert_int_equal(skips, 3); /* inc to up2, down1 to up1, the mask to its loss */
    ASSERT_CONTAINS(page, "<tr><th scope=\"row\">input image</th><td>0</td><td></td><td></td>"
                          "<td>f32 [1, 1, 32, 32]</td></tr>");
    ASSERT_CONTAINS(page, "<td>mask f32 [1, 32, 32, 3]</td>");
    json_decref(data);
    free(page);
}

/* Every allocation is refused in turn. */
static void a_page_is_written_without_memory(void **state)
{
    (void)state;
    assert_true(ls_test_memory(inspect, "mlp-mnist", 11) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(buffers_are_not_parameters),
                                        cmocka_unit_test(the_forward_pass_is_in_order),
                                        cmocka_unit_test(a_page_is_written_without_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
