/* test_module.c - the keys of a module: its rows fill its settings, and refuse what they do not have; maps of
 * any keys in recipes, with the origin of each value; memory that is refused anywhere. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/sys.h"
#include "recipe/load.h"
#include "recipe/recipe_use.h"
#include "recipe/shared_model.h"
#include "support/support.h"

typedef enum activation { RELU, GELU } activation;
typedef struct settings {
    int64_t hidden, layers;
    double rate;
    bool bias;
    activation act;
    const char *name;
} settings;

static const ls_module_key KEYS[] = {
    { "hidden", LS_MODULE_INT, offsetof(settings, hidden), "64", 1, 1000, NULL, "width" },
    { "encoder.layers", LS_MODULE_INT, offsetof(settings, layers), "2", 1, 10, NULL,
      "layers of the encoder" },
    { "rate", LS_MODULE_FLOAT, offsetof(settings, rate), "0.5", 0, 1, NULL, "a rate" },
    { "encoder.bias", LS_MODULE_BOOL, offsetof(settings, bias), "true", 0, 0, NULL, "with a bias" },
    { "act", LS_MODULE_CHOICE, offsetof(settings, act), "relu", 0, 0,
      (const char *const[]){ [RELU] = "relu", [GELU] = "gelu", NULL }, "activation" },
    { "name", LS_MODULE_TEXT, offsetof(settings, name), "1e3", 0, 0, NULL, "a name" },
    LS_MODULE_KEYS_END,
};

/* Loads a recipe whose model.config is this, and reads the map. */
static ls_status read_config(settings *out, char **resolved, const ls_module_key *keys, const char *config)
{
    char text[400];
    void *filled = NULL;
    ls_recipe *r;
    ls_module_map m;
    const ls_yaml *all;
    ls_str json = { 0 };
    snprintf(text, sizeof text, "model:\n  type: module\n  path: m.so\n  config: %s\ndata: {type: module}\n",
             config);
    LS_TRY(load(&r, text, 0, NULL));
    ls_status s = ls_module_map_make(&m, "model.config", "mine 1 (m.so)", "here", keys, sizeof *out,
                                     &r->state->arena);
    if (s == LS_OK)
        s = ls_module_map_read(&filled, &all, &m, r);
    if (s == LS_OK) {
        *out = *(settings *)filled;
        ls_yaml_json(&json, all);
        s = ls_sys_have(*resolved = ls_str_take(&json));
    }
    ls_str_release(&json);
    free(filled);
    ls_recipe_destroy(&r);
    return s;
}

static void rows_fill_settings(void **state)
{
    (void)state;
    settings s;
    char *all, *again;
    ASSERT_OK(read_config(&s, &all, KEYS, "{}"));
    assert_true(s.hidden == 64 && s.layers == 2 && s.rate == 0.5 && s.bias && s.act == RELU);
    assert_string_equal(all, "{\"hidden\":64,\"encoder\":{\"layers\":2,\"bias\":true},\"rate\":0.5,"
                             "\"act\":\"relu\",\"name\":\"1e3\"}");
    free(all);
    ASSERT_OK(read_config(&s, &all, KEYS, "{act: gelu, rate: 1e-3, encoder: {bias: false}, hidden: 128}"));
    assert_true(s.hidden == 128 && s.layers == 2 && s.rate == 1e-3 && !s.bias && s.act == GELU);
    assert_string_equal(all, "{\"hidden\":128,\"encoder\":{\"layers\":2,\"bias\":false},\"rate\":0.001,"
                             "\"act\":\"gelu\",\"name\":\"1e3\"}");
    /* what is resolved resolves to itself */
    ASSERT_OK(read_config(&s, &again, KEYS, all));
    assert_string_equal(again, all);
    free(all);
    free(again);
    static const ls_module_key NONE[] = { LS_MODULE_KEYS_END };
    char *none = NULL;
    ls_recipe *r;
    ls_module_map m;
    void *filled;
    const ls_yaml *map;
    ASSERT_OK(load(&r, "model: {type: module, path: m.so}\ndata: {type: module}\n", 0, NULL));
    ASSERT_OK(ls_module_map_make(&m, "model.config", "mine", "here", NONE, 0, &r->state->arena));
    ASSERT_OK(ls_module_map_read(&filled, &map, &m, r));
    assert_true(!filled && map->kind == LS_YAML_MAP && !map->child && !none);
    ls_recipe_destroy(&r);
}

static void refused(const char *config, const char *message)
{
    settings s;
    char *all;
    ASSERT_FAILS(read_config(&s, &all, KEYS, config), LS_E_USAGE, message);
}

#define AT "here.yaml:4: model.config."
static void mistakes(void **state)
{
    (void)state;
    refused("{hiddn: 1}", AT "hiddn: mine 1 (m.so) has no such key; did you mean hidden? (it has hidden, "
                             "encoder.layers, rate, encoder.bias, act, name)");
    refused("{encoder: {bia: true}}", AT "encoder.bia: mine 1 (m.so) has no such key");
    refused("{encoder: {bias: true, x: {y: 1}}}", AT "encoder.x: mine 1 (m.so) has no such key");
    refused("{encoder: 3}", AT "encoder: keys are needed here, such as {layers: ...}");
    refused("{hidden: 0}", AT "hidden: 0 is out of range (from 1, up to 1000)");
    refused("{hidden: 1.5}", AT "hidden: a whole number is needed here, not '1.5'");
    refused("{hidden: x}", AT "hidden: a whole number is needed here, not 'x'");
    refused("{hidden: {x: 1}}", AT "hidden: a whole number is needed here, not '{...}'");
    refused("{rate: 1.5}", AT "rate: 1.5 is out of range (from 0, up to 1)");
    refused("{rate: null}", AT "rate: a number is needed here, not 'null'");
    refused("{encoder: {bias: 1}}", AT "encoder.bias: true or false is needed here, not '1'");
    refused("{name: [a]}", AT "name: a text is needed here, not '[...]'");
    refused("{act: gellu}", AT "act: there is no 'gellu'; did you mean 'gelu'? (one of: relu, gelu)");
    /* the line of the value, not that of the map */
    refused("\n    hidden: 3\n    rate: 7", "here.yaml:6: model.config.rate: 7 is out of range");
    settings s;
    char *all;
    static const ls_module_key NEEDED[] = {
        { "path", LS_MODULE_TEXT, offsetof(settings, name), NULL, 0, 0, NULL, "file of the table" },
        LS_MODULE_KEYS_END,
    };
    ASSERT_FAILS(read_config(&s, &all, NEEDED, "{}"), LS_E_USAGE,
                 "model.config.path: mine 1 (m.so) needs this key: file of the table");
    ASSERT_OK(read_config(&s, &all, NEEDED, "{path: 12}"));
    free(all);
}

/* A table of a module that is wrong in its second row. */
static void row_refused(ls_module_key row, const char *message)
{
    settings s;
    char *all;
    const ls_module_key keys[] = { KEYS[0], row, LS_MODULE_KEYS_END };
    ASSERT_FAILS(read_config(&s, &all, keys, "{}"), LS_E_USAGE, "here: mine 1 (m.so): the row of its key ",
                 message);
}

static void wrong_rows(void **state)
{
    (void)state;
    static const char *const NO_WORDS[] = { NULL };
    const size_t at = offsetof(settings, rate);
    row_refused(KEYS[0], "hidden: another row has the same key, or a part of its path");
    row_refused((ls_module_key){ "hidden.x", LS_MODULE_INT, 8, "1", 0, 9, NULL, "inside" },
                "hidden.x: another row has the same key, or a part of its path");
    row_refused((ls_module_key){ "b", LS_MODULE_FLOAT, at, "10", 0, 9, NULL, "default" },
                "b: default: 10 is out of range (from 0, up to 9)");
    row_refused((ls_module_key){ "b", LS_MODULE_FLOAT, at, "x", 0, 9, NULL, "default" },
                "b: default: a number is needed here, not 'x'");
    row_refused((ls_module_key){ "b", LS_MODULE_CHOICE, 0, "x", 0, 0, KEYS[4].words, "default" },
                "b: default: one of relu, gelu is needed here, not 'x'");
    row_refused((ls_module_key){ "b", LS_MODULE_FLOAT, sizeof(settings), "1", 0, 9, NULL, "outside" },
                "b: its offset is not that of a member of the settings");
    row_refused((ls_module_key){ "b", LS_MODULE_FLOAT, SIZE_MAX - 7, "1", 0, 9, NULL, "outside" },
                "b: its offset is not that of a member of the settings");
    row_refused((ls_module_key){ "b", LS_MODULE_FLOAT, at + 4, "1", 0, 9, NULL, "between" },
                "b: its offset is not that of a member of the settings");
    row_refused((ls_module_key){ "b", LS_MODULE_FLOAT, at, "1", 9, 0, NULL, "range" },
                "b: least must not be greater than most");
    row_refused((ls_module_key){ "b", LS_MODULE_CHOICE, 0, "x", 0, 0, NO_WORDS, "words" },
                "b: a choice needs words");
    row_refused((ls_module_key){ "b", (ls_module_kind)77, 0, "x", 0, 0, NULL, "kind" },
                "b: its kind is not one of ls_module_kind");
    row_refused((ls_module_key){ "b", LS_MODULE_FLOAT, at, "1", 0, 9, NULL, "" }, "b: its help must be set");
    static const char *const NO_PATHS[] = { "", ".", "b.", ".b", "b..c" };
    for (int i = 0; i < 5; i++)
        row_refused((ls_module_key){ NO_PATHS[i], LS_MODULE_FLOAT, at, "1", 0, 9, NULL, "no path" },
                    "a key is a name, or names with dots between them");
}

static void a_choice_has_any_number_of_words(void **state)
{
    (void)state;
    enum { N = 100 };
    static char text[N][8];
    static const char *words[N + 1];
    const ls_module_key keys[] = {
        { "act", LS_MODULE_CHOICE, offsetof(settings, act), "w0", 0, 0, words, "activation" },
        LS_MODULE_KEYS_END,
    };
    settings s;
    char *all;
    for (int i = 0; i < N; i++) {
        snprintf(text[i], sizeof text[i], "w%d", i);
        words[i] = text[i];
    }
    ASSERT_OK(read_config(&s, &all, keys, "{act: w99}"));
    assert_int_equal((int)s.act, 99);
    free(all);
    ASSERT_FAILS(read_config(&s, &all, keys, "{act: w100}"), LS_E_USAGE, "there is no 'w100'; did you mean");
}

static const char RECIPE[] =
    "model:\n  type: module\n  path: ./none.so\n  config: {hidden: 64, inner: {a: 1e-3, b: "
    "[x, \"1\", true]}, text: '$${HOME}'}\ndata: {type: module}\n";

static void maps_in_recipes(void **state)
{
    (void)state;
    ls_recipe *r, *again;
    const char *sets[] = { "model.config.hidden=128", "model.config.inner.a=2",
                           "model.config.new.deep.er=yes" };
    ASSERT_OK(load(&r, RECIPE, 3, sets));
    assert_string_equal(r->model.config,
                        "{\"hidden\":128,\"inner\":{\"a\":2,\"b\":[\"x\",\"1\",true]},\"text\":\"${HOME}\","
                        "\"new\":{\"deep\":{\"er\":\"yes\"}}}");
    /* each value has the place where it was set */
    assert_string_equal(ls_recipe_origin(r, "model.config.hidden"), "--set");
    assert_string_equal(ls_recipe_origin(r, "model.config.text"), "here.yaml:4");
    assert_string_equal(ls_recipe_origin(r, "model.config.inner.b"), "here.yaml:4");
    assert_null(ls_recipe_origin(r, "model.config.inner.none"));
    char *inner = ls_recipe_value(r, "model.config.inner.a");
    assert_string_equal(inner, "2");
    free(inner);
    char *yaml = ls_recipe_yaml(r, true);
    ASSERT_CONTAINS(yaml, "  config:\n    hidden: 128                               # --set\n    inner:\n");
    ASSERT_CONTAINS(yaml, "    text: \"$${HOME}\" ");
    ASSERT_CONTAINS(yaml, "# here.yaml:4\n    new:\n      deep:\n        er: \"yes\" ");
    ASSERT_OK(load(&again, yaml, 0, NULL));
    assert_string_equal(again->model.config, r->model.config);
    free(yaml);
    ls_recipe_destroy(&again);
    ls_recipe_destroy(&r);
    ASSERT_OK(load(&r, RECIPE, 0, NULL));
    assert_string_equal(r->model.config, "{\"hidden\":64,\"inner\":{\"a\":0.001,\"b\":[\"x\",\"1\",true]},"
                                         "\"text\":\"${HOME}\"}");
    ASSERT_FAILS(ls_recipe_open_model(r), LS_E_USAGE, ":3: model.path: ./none.so: no such file");
    ls_recipe_destroy(&r);
    ls_recipe *record;
    ASSERT_OK(ls_recipe_load_record(&record, RECIPE, strlen(RECIPE), "trainer.json", 0, NULL));
    ASSERT_FAILS(ls_recipe_open_model(record), LS_E_USAGE,
                 "trainer.json: its model is built by the module ./none.so",
                 "Lockstep loads no code that a run or a checkpoint names", "give --module ./none.so");
    ls_recipe_destroy(&record);
}

static ls_status life(void)
{
    settings s;
    char *all = NULL;
    ls_recipe *r;
    const char *sets[] = { "model.config.inner.a=2" };
    LS_TRY(load(&r, RECIPE, 1, sets));
    char *yaml = ls_recipe_yaml(r, true);
    ls_recipe_destroy(&r);
    LS_TRY(ls_sys_have(yaml));
    free(yaml);
    LS_TRY(read_config(&s, &all, KEYS, "{act: gelu, encoder: {layers: 3}}"));
    free(all);
    return LS_OK;
}

static void refused_memory(void **state)
{
    (void)state;
    ls_fault_arm(1u << LS_POINT_MEMORY, -1, LS_FAIL_ONCE);
    ASSERT_OK(life());
    const int64_t points = ls_fault_disarm();
    assert_true(points > 10);
    for (int64_t n = 0; n < points; n++) {
        ls_fault_arm(1u << LS_POINT_MEMORY, n, LS_FAIL_ONCE);
        const ls_status s = life();
        ls_fault_disarm();
        if (s != LS_OK && s != LS_E_MEMORY)
            fail_msg("point %lld: %d %s", (long long)n, (int)s, ls_error_message());
    }
    ASSERT_OK(life());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_fill_settings), cmocka_unit_test(mistakes),
        cmocka_unit_test(wrong_rows),         cmocka_unit_test(a_choice_has_any_number_of_words),
        cmocka_unit_test(maps_in_recipes),    cmocka_unit_test(refused_memory)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
