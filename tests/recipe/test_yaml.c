/* test_yaml.c - the text of a recipe: broken and hostile YAML, anchors, environment variables, included
 * files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "recipe/data_row.h"
#include "recipe/model_row.h"
#include "recipe/optim_row.h"
#include "recipe/recipe_fields.h"
#include "recipe/recipe_setting.h"
#include "support/support.h"
#include "recipe/load.h"

/* ---- YAML */

static void broken_and_hostile_yaml(void **state)
{
    (void)state;
    REFUSED("model: {type: vit\n", "here.yaml:", "not YAML");
    REFUSED("device: cpu\nmodel: {type: vit, init: ${HOME}/x}\n", "here.yaml:2", "${NAME} stands in quotes");
    REFUSED("model: {type: vit}\ndata: {type: mnist}\nmodel: {type: mlp}\n", "here.yaml:3",
            "'model' is given twice, first in line 1");
    REFUSED("model:\n  type: vit\n  type: vit\n", "here.yaml:3", "'type'", "line 2");
    REFUSED(MINIMAL "---\nmodel: {type: vit}\n", "second document");
    REFUSED("run: {name: \"a\\0b\"}\n", "NUL");
    REFUSED("? [a, b]\n: 1\n", "a key must be a plain word");
    REFUSED("run: *nowhere\n", "nothing before it has the anchor &nowhere");
    /* an alias inside what it names */
    REFUSED("model: &m {type: *m}\n", "nothing before it has the anchor &m");
    REFUSED("\xff\xfe\xff", "here.yaml");
    static const char raw_nul[] = "model: {type: vit}\0\n";
    ls_recipe *r = NULL;
    ASSERT_FAILS(ls_recipe_load_text(&r, raw_nul, sizeof raw_nul - 1, "nul", 0, NULL), LS_E_USAGE, "nul");
    char deep[4096] = "run: ";
    memset(deep + 5, '[', 4000);
    REFUSED(deep, "nested deeper than");
    ls_str bomb = { 0 };
    ls_str_add(&bomb, "run: {name: x}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 30; i++)
        ls_str_printf(&bomb, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1,
                      i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    REFUSED(bomb.data, "a0: unknown key");
    ls_str_clear(&bomb);
    ls_str_add(&bomb, "run: [");
    for (int i = 0; i < 6000; i++)
        ls_str_add(&bomb, "1,");
    ls_str_add(&bomb, "]\n");
    REFUSED(bomb.data, "more than 5000 values");
    ls_str_release(&bomb);
    char *large = malloc(LS_YAML_MAX_BYTES + 2);
    memset(large, ' ', LS_YAML_MAX_BYTES + 1);
    large[LS_YAML_MAX_BYTES + 1] = 0;
    REFUSED(large, "too large");
    free(large);
}

static void anchors_serve_where_they_help(void **state)
{
    (void)state;
    ls_recipe *r;
    ASSERT_OK(load(&r,
                   "model: {type: vit, hidden_size: &width 64, mlp_size: *width}\ndata: {type: "
                   "mnist}\nparallel: {prefetch: {forward: &n 2, backward: *n}}\n",
                   0, NULL));
    assert_int_equal(r->model.mlp_size, 64);
    assert_int_equal(r->parallel.prefetch.backward, 2);
    ls_recipe_destroy(&r);
}

static void environment_variables(void **state)
{
    (void)state;
    ls_recipe *r;
    const char *const text = "run: {name: \"n-${LS_TEST_A}\"}\nmodel: {type: vit}\ndata:\n  type: mnist\n  "
                             "path: ${LS_TEST_B:-some/where}/x\nparallel:\n  units: pattern:$${LS_TEST_A}\n"
                             "train:\n  epochs: ${LS_TEST_N}\n";
    setenv("LS_TEST_A", "one", 1);
    setenv("LS_TEST_N", "7", 1);
    unsetenv("LS_TEST_B");
    ASSERT_OK(load(&r, text, 0, NULL));
    assert_string_equal(r->run.name, "n-one");
    assert_string_equal(r->data.path, "some/where/x");
    assert_string_equal(r->parallel.units, "pattern:${LS_TEST_A}");
    assert_int_equal(r->train.epochs, 7);
    assert_string_equal(ls_recipe_origin(r, "run.name"), "here.yaml:1 (environment LS_TEST_A)");
    assert_string_equal(ls_recipe_origin(r, "data.path"), "here.yaml:5");
    ls_recipe_destroy(&r);
    setenv("LS_TEST_B", "there", 1);
    ASSERT_OK(load(&r, text, 0, NULL));
    assert_string_equal(r->data.path, "there/x");
    ls_recipe_destroy(&r);
    unsetenv("LS_TEST_N");
    REFUSED(text, "here.yaml:9", "LS_TEST_N is not set", "${LS_TEST_N:-default}");
    REFUSED("run: {name: \"${LS TEST}\"}\n", "here.yaml:1", "${NAME}");
    REFUSED("run:\n  name: ${open\n", "here.yaml:2", "without '}'");
}

static void write_file(const char *name, const char *text)
{
    ASSERT_OK(ls_file_write(ls_test_path(name), text, strlen(text)));
}

static void includes_speak_first(void **state)
{
    (void)state;
    ls_recipe *r;
    char origin[600];
    ASSERT_OK(ls_make_dirs(ls_test_path("sub")));
    write_file("base.yaml",
               "model: {type: vit, layers: 3}\ndata: {type: mnist}\ntrain: {epochs: 4, steps: 9}\n");
    write_file("sub/middle.yaml", "include: ../base.yaml\ntrain: {epochs: 5}\n");
    write_file("top.yaml", "train: {epochs: 6}\ninclude: [sub/middle.yaml]\n");
    ASSERT_OK(ls_recipe_load(&r, ls_test_path("top.yaml"), 0, NULL));
    assert_int_equal(r->model.layers, 3);
    assert_int_equal(r->train.epochs, 6);
    assert_int_equal(r->train.steps, 9);
    assert_string_equal(r->run.name, "top");
    snprintf(origin, sizeof origin, "%s/sub/../base.yaml:3", ls_test_dir());
    assert_string_equal(ls_recipe_origin(r, "train.steps"), origin);
    ls_recipe_destroy(&r);
    const char *set = "train.epochs=8";
    ASSERT_OK(ls_recipe_load(&r, ls_test_path("top.yaml"), 1, &set));
    assert_int_equal(r->train.epochs, 8);
    ls_recipe_destroy(&r);
    write_file("bundled.yaml", "include: mlp-mnist\nmodel: {hidden: [16]}\n");
    ASSERT_OK(ls_recipe_load(&r, ls_test_path("bundled.yaml"), 0, NULL));
    assert_int_equal(r->model.hidden.at[0], 16);
    assert_string_equal(r->data.type, "mnist");
    ls_recipe_destroy(&r);
    write_file("a.yaml", "include: b.yaml\n");
    write_file("b.yaml", "include: ./b2.yaml\n");
    write_file("b2.yaml", "include: b.yaml\n");
    ASSERT_FAILS(ls_recipe_load(&r, ls_test_path("a.yaml"), 0, NULL), LS_E_USAGE, "a.yaml:1: include");
    write_file("self.yaml", "include: self.yaml\n");
    ASSERT_FAILS(ls_recipe_load(&r, ls_test_path("self.yaml"), 0, NULL), LS_E_USAGE,
                 "self.yaml includes itself");
    write_file("gone.yaml", "include: gone2.yaml\n");
    ASSERT_FAILS(ls_recipe_load(&r, ls_test_path("gone.yaml"), 0, NULL), LS_E_USAGE, "gone.yaml:1: include",
                 "gone2.yaml: no such");
    ASSERT_FAILS(ls_recipe_load(&r, ls_test_dir(), 0, NULL), LS_E_USAGE, "is a folder");
    ASSERT_FAILS(ls_recipe_load(&r, "vit-fashion-mnst", 0, NULL), LS_E_USAGE, "vit-fashion-mnist");
}

/* A text that a variable gave is written by name, at any depth; numbers, known words and paths by value. */
static void names_in_records(void **state)
{
    (void)state;
    ls_recipe *r, *there;
    static const char TEXT[] = "run: {name: \"${LS_TEST_S}\"}\n"
                               "eval: {every_epochs: -1}\n"
                               "model:\n  type: module\n  path: ./m.so\n  config:\n"
                               "    token: ${LS_TEST_S}\n"
                               "    deep: [\"$${x}\", \"a-${LS_TEST_S}\", {n: \"${LS_TEST_N}\"}]\n"
                               "    n: ${LS_TEST_N}\n"
                               "    here: ${LS_TEST_P}\n"
                               "data:\n  type: arrays\n"
                               "  train: {x: \"${LS_TEST_P}/a.csv:c\", y: \"${LS_TEST_S}.npy\"}\n";
    static const char WORDS[] = "model: {type: llama, vocab_size: 260}\n"
                                "data: {type: text, train_text: \"${LS_TEST_D}/*.jsonl\", tokenizer: bytes, "
                                "documents: json, field: \"${LS_TEST_S}\"}\n"
                                "eval: {every_epochs: -1}\n";
    setenv("LS_TEST_S", "secret", 1);
    setenv("LS_TEST_D", "/nowhere", 1);
    setenv("LS_TEST_N", "7", 1);
    setenv("LS_TEST_P", ls_test_dir(), 1);
    ASSERT_OK(ls_file_write(ls_test_path("a.csv"), "c\n1\n", 4));
    ASSERT_OK(load(&r, TEXT, 0, NULL));
    assert_non_null(strstr(r->model.config, "\"token\":\"secret\"")); /* the module gets the value */
    char *yaml = ls_recipe_yaml(r, true), *plain = ls_recipe_yaml(r, false), want[1600];
    ASSERT_CONTAINS(yaml, "    token: \"${LS_TEST_S}\" ");
    ASSERT_CONTAINS(yaml, "    deep: [\"$${x}\",\"a-${LS_TEST_S}\",{\"n\":\"7\"}] ");
    assert_string_equal(ls_recipe_origin(r, "model.config.token"), "here.yaml:7 (environment LS_TEST_S)");
    snprintf(want, sizeof want,
             "config: {\"token\":\"${LS_TEST_S}\",\"deep\":[\"$${x}\",\"a-${LS_TEST_S}\",{\"n\":\"7\"}],"
             "\"n\":7,\"here\":\"%s\"}",
             ls_test_dir());
    ASSERT_CONTAINS(plain, want);
    free(plain);
    snprintf(want, sizeof want, "train: {\"x\":\"%s/a.csv:c\",\"y\":\"${LS_TEST_S}.npy\"}", ls_test_dir());
    ASSERT_CONTAINS(yaml, want);
    ASSERT_CONTAINS(yaml, "name: secret"); /* the name of a folder */
    ASSERT_OK(ls_recipe_load_record(&there, yaml, strlen(yaml), "there", 0, NULL));
    char *difference = ls_recipe_difference(r, there);
    assert_string_equal(difference, "");
    free(difference);

    /* the module's resolved config keeps the names */
    ASSERT_OK(ls_recipe_set(there, "model.config", "{\"token\": \"secret\", \"more\": 1}", "resolved"));
    char *resolved = ls_recipe_yaml(there, false);
    ASSERT_CONTAINS(resolved, "config: {\"token\":\"${LS_TEST_S}\",\"more\":1}");
    free(resolved);
    ls_recipe_destroy(&there);

    /* no text */
    setenv("LS_TEST_N", "null", 1);
    ls_recipe *none;
    ASSERT_OK(load(&none, "model: {type: mlp}\ndata:\n  type: mnist\n  path: ${LS_TEST_N}\n", 0, NULL));
    resolved = ls_recipe_yaml(none, false);
    ASSERT_CONTAINS(resolved, "path: \"\"");
    free(resolved);
    ls_recipe_destroy(&none);

    /* a variable that a record names is missing inside the module's config; the whole config is none */
    static const char INSIDE[] = "model: {type: module, path: ./m.so, config: {a: [\"b-${LS_TEST_S}\"]}}\n"
                                 "data: {type: module}\n",
                      WHOLE[] = "model: {type: module, path: ./m.so, config: \"${LS_TEST_S}\"}\n"
                                "data: {type: module}\n";
    unsetenv("LS_TEST_S");
    ASSERT_OK(ls_recipe_load_record(&there, INSIDE, strlen(INSIDE), "there", 0, NULL));
    ASSERT_FAILS(ls_recipe_check_names(there, "model.config"), LS_E_USAGE, "there:1: model.config",
                 "environment variable LS_TEST_S is not set", "--set model.config=VALUE");
    ls_recipe_destroy(&there);
    ASSERT_FAILS(ls_recipe_load_record(&there, WHOLE, strlen(WHOLE), "there", 0, NULL), LS_E_USAGE,
                 "there:1: model.config: keys", "not '${LS_TEST_S}'");
    ASSERT_FAILS(load(&there, WHOLE, 0, NULL), LS_E_USAGE, "here.yaml:1", "LS_TEST_S is not set");
    setenv("LS_TEST_S", "secret", 1);

    /* Another value is noticed by a hash in the record, a missing variable where its key is needed. */
    ls_recipe *text, *other;
    static const char *const LATER[] = { "secret", "other", NULL };
    ASSERT_OK(load(&text, WORDS, 0, NULL));
    resolved = ls_recipe_yaml(text, false);
    ls_recipe_destroy(&text);
    ASSERT_CONTAINS(resolved, "field: \"${LS_TEST_S#");
    assert_null(strstr(resolved, "secret"));
    for (int i = 0; i < 3; i++) {
        if (LATER[i])
            setenv("LS_TEST_S", LATER[i], 1);
        else
            unsetenv("LS_TEST_S");
        ASSERT_OK(ls_recipe_load_record(&there, resolved, strlen(resolved), "there", 0, NULL));
        char *again = ls_recipe_yaml(there, false); /* keeps the hash that it has */
        assert_string_equal(again, resolved);
        free(again);
        setenv("LS_TEST_S", LATER[i] ? LATER[i] : "secret", 1);
        ASSERT_OK(load(&text, WORDS, 0, NULL));
        difference = ls_recipe_difference(text, there);
        static const char TOLD[] = "data.field: \"${LS_TEST_S}\" here, "
                                   "another value of \"${LS_TEST_S}\" there";
        assert_string_equal(difference, i ? TOLD : "");
        free(difference);
        ls_recipe_destroy(&text);
        if (LATER[i]) {
            assert_string_equal(there->data.field, LATER[i]);
            ASSERT_OK(ls_recipe_check_names(there, "data."));
        } else {
            ASSERT_FAILS(ls_recipe_check_names(there, "data."), LS_E_USAGE, "data.field",
                         "environment variable LS_TEST_S is not set");
            ASSERT_OK(ls_recipe_check_names(there, "model."));
        }
        ls_recipe_destroy(&there);
    }
    /* the names of files may be others, also those of a pattern: their content is compared */
    setenv("LS_TEST_D", "/moved", 1);
    ASSERT_CONTAINS(resolved, "train_text: \"${LS_TEST_D}/*.jsonl\"");
    ASSERT_OK(ls_recipe_load_record(&there, resolved, strlen(resolved), "there", 0, NULL));
    ASSERT_OK(load_set(&text, WORDS, "data.train_text=/elsewhere/words.jsonl"));
    difference = ls_recipe_difference(text, there);
    assert_string_equal(difference, "");
    free(difference);
    ls_recipe_destroy(&text);
    ls_recipe_destroy(&there);
    unsetenv("LS_TEST_D");
    ASSERT_OK(ls_recipe_load_record(&there, resolved, strlen(resolved), "there", 0, NULL));
    ASSERT_FAILS(ls_recipe_check_names(there, "data."), LS_E_USAGE, "data.train_text",
                 "environment variable LS_TEST_D is not set");
    ls_recipe_destroy(&there);
    setenv("LS_TEST_D", "/nowhere", 1);
    free(resolved);

    /* the message names what differs */
    ASSERT_OK(load(&text, WORDS, 0, NULL));
    ASSERT_OK(load_set(&other, WORDS, "data.field=title"));
    difference = ls_recipe_difference(text, other);
    assert_string_equal(difference, "data.field: \"${LS_TEST_S}\" here, title there");
    free(difference);
    ls_recipe_destroy(&text);
    ls_recipe_destroy(&other);

    /* a record is read without the variable, and written again as it was; a recipe is not */
    unsetenv("LS_TEST_S");
    ASSERT_OK(ls_recipe_load_record(&there, yaml, strlen(yaml), "there", 0, NULL));
    assert_non_null(strstr(there->model.config, "\"token\":\"${LS_TEST_S}\""));
    char *again = ls_recipe_yaml(there, false);
    ASSERT_CONTAINS(again, "{\"token\":\"${LS_TEST_S}\"");
    free(again);
    ls_recipe_destroy(&there);
    REFUSED(TEXT, "environment variable LS_TEST_S is not set");
    free(yaml);
    ls_recipe_destroy(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_and_hostile_yaml), cmocka_unit_test(anchors_serve_where_they_help),
        cmocka_unit_test(environment_variables),   cmocka_unit_test(names_in_records),
        cmocka_unit_test(includes_speak_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
