/* test_strict.c - what export writes of every model is what PyTorch's load_state_dict(strict=True) and
 * dcp.load want: the names and shapes of tests/golden/state_dicts.json (tools/golden/strict.py), where the
 * names of one tensor are one storage of a .pt file. Weights with all these names are read back; a
 * safetensors file keeps the names that transformers gives it. That PyTorch itself loads them is shown by
 * tools/golden/strict.py check. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "ckpt/elements.h"
#include "lockstep/weights.h"
#include "recipe/model_row.h"
#include "setup/setup.h"
#include "step/state.h"
#include "step/trainer.h"
#include "support/support.h"
#include "verbs/commands.h"

static json_t *models(void)
{
    char *text;
    size_t size;
    json_t *j;
    const char *path = LS_TEST_SOURCE_DIR "/tests/golden/state_dicts.json";
    ASSERT_OK(ls_file_read(&text, &size, path));
    ASSERT_OK(ls_json_parse(&j, text, size, path));
    free(text);
    return j;
}

/* The checkpoint of a model before its first step. */
static void save(const char *dir, const char *recipe)
{
    ls_recipe *r;
    ls_setup s;
    ls_compiled compiled;
    ls_trainer *t;
    const char *small = "train.global_batch=2";
    ASSERT_OK(ls_recipe_load_text(&r, recipe, strlen(recipe), "here.yaml", 1, &small));
    ASSERT_OK(ls_setup_make(&s, r, 1, 0, 0));
    ASSERT_OK(ls_setup_compile(&compiled, &s, r, NULL));
    ASSERT_OK(ls_trainer_from_compiled(&t, &compiled, NULL));
    ASSERT_OK(ls_trainer_init(t, 0));
    char *config = ls_recipe_config_json(r, NULL);
    ASSERT_OK(
        ls_trainer_save_state(t, dir, &(ls_checkpoint_contents){ .config = config, .trainer = "{}" }, NULL));
    free(config);
    ls_trainer_destroy(&t);
    ls_recipe_destroy(&r);
}

static void export(const char *from, const char *to)
{
    FILE *out = tmpfile();
    assert_non_null(out);
    ASSERT_OK(
        ls_export_command(&(ls_export_opts){ .from = from, .to = to, .format = ls_export_format_of(to) },
                          &(ls_ui){ .out = out }));
    fclose(out);
}

static ls_weights *opened(const char *path)
{
    ls_weights *w;
    ASSERT_OK(ls_weights_open(&w, path));
    return w;
}

static void has_all_names(const ls_weights *w, const json_t *model, const char *what)
{
    const json_t *tensors = json_object_get(model, "tensors"), *shape;
    const char *model_name = json_string_value(json_object_get(model, "name")), *name;
    assert_int_equal(ls_weights_count(w), json_object_size(tensors));
    json_object_foreach((json_t *)tensors, name, shape)
    {
        const ls_weight *t = ls_weights_find(w, name);
        if (!t || (size_t)t->type.ndim != json_array_size(shape))
            fail_msg("%s: %s: %s is missing or has other dimensions", model_name, what, name);
        for (int i = 0; i < t->type.ndim; i++)
            if (t->type.dims[i] != json_integer_value(json_array_get(shape, (size_t)i)))
                fail_msg("%s: %s: %s has another size", model_name, what, name);
    }
}

/* Of each group of names: one tensor, in a .pt file in one place. *seconds: how many names there are beyond
 * one for each tensor. */
static void ties(const ls_weights *w, const json_t *model, bool one_place, int64_t *seconds)
{
    size_t i, k;
    const json_t *group, *name;
    *seconds = 0;
    json_array_foreach(json_object_get(model, "tied"), i, group) json_array_foreach(group, k, name)
    {
        const ls_weight *first = ls_weights_find(w, json_string_value(json_array_get(group, 0))),
                        *t = ls_weights_find(w, json_string_value(name));
        assert_true(ls_weight_equal(first, t));
        assert_true((first->data == t->data) == (one_place || k == 0));
        *seconds += k > 0;
    }
}

/* As model.init takes them: second names are compared and left out. */
static void is_read_again(const char *recipe, const char *path, int64_t count)
{
    char set[1400];
    const char *sets[] = { set };
    ls_recipe *r;
    ls_weights *w;
    snprintf(set, sizeof set, "model.init=%s", path);
    ASSERT_OK(ls_recipe_load_text(&r, recipe, strlen(recipe), "here.yaml", 1, sets));
    ASSERT_OK(ls_setup_weights(&w, r));
    assert_int_equal(ls_weights_count(w), count);
    ls_weights_close(&w);
    ls_recipe_destroy(&r);
}

static void every_model_loads_strictly(void **state)
{
    (void)state;
    json_t *all = models(), *model;
    size_t i;
    json_array_foreach(all, i, model)
    {
        static const char *const TO[] = { "out-%zu.pt", "out-%zu.dcp", "out-%zu.safetensors" };
        char name[32], from[450], to[3][450];
        int64_t seconds;
        const char *recipe = json_string_value(json_object_get(model, "recipe"));
        snprintf(name, sizeof name, "checkpoint-%zu", i);
        snprintf(from, sizeof from, "%s", ls_test_path(name));
        save(from, recipe);
        ls_weights *w = opened(from);
        const int64_t stored = ls_weights_count(w);
        ls_weights_close(&w);
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, TO[k], i);
            snprintf(to[k], sizeof to[k], "%s", ls_test_path(name));
            export(from, to[k]);
            w = opened(to[k]);
            if (k < 2) {
                has_all_names(w, model, name);
                ties(w, model, k == 0, &seconds);
                assert_int_equal(stored + seconds, ls_weights_count(w));
                is_read_again(recipe, to[k], stored);
            } else {
                assert_int_equal(ls_weights_count(w), stored);
            }
            ls_weights_close(&w);
        }
    }
    json_decref(all);
}

static void names_are_added_where_they_can_be(void **state)
{
    (void)state;
    static const float VALUES[2] = { 1, 2 };
    const ls_type type = LS_TYPE(LS_F32, 2);
    const ls_tensor t = ls_tensor_of((void *)VALUES, &type);
    ASSERT_OK(
        ls_weights_save(ls_test_path("two.safetensors"), 2, (ls_named_tensor[]){ { "a", t }, { "b", t } }));
    ls_weights *w = opened(ls_test_path("two.safetensors"));
    ASSERT_FAILS(ls_weights_add_name(w, "c", "d"), LS_E_ARG, "there is no tensor \"d\"");
    ASSERT_FAILS(ls_weights_add_name(w, "b", "a"), LS_E_ARG, "there is a tensor named \"b\"");
    ASSERT_OK(ls_weights_add_name(w, "c", "b"));
    ASSERT_OK(ls_weights_add_name(w, "d", "c"));
    ASSERT_OK(ls_weights_export(w, ls_test_path("four.pt")));
    ls_weights_close(&w);
    w = opened(ls_test_path("four.pt"));
    assert_int_equal(ls_weights_count(w), 4);
    assert_ptr_equal(ls_weights_find(w, "d")->data, ls_weights_find(w, "b")->data);
    assert_ptr_not_equal(ls_weights_find(w, "a")->data, ls_weights_find(w, "b")->data);
    ls_weights_leave_out(w, "d", "b");
    assert_int_equal(ls_weights_count(w), 3);
    ls_weights_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_loads_strictly),
        cmocka_unit_test(names_are_added_where_they_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
