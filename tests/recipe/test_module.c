/* test_module.c - the config of a module: what it reads is the resolved one, what it does not read is
 * refused; maps of any keys in recipes; memory that is refused anywhere. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "recipe/config.h"
#include "recipe/load.h"
#include "recipe/shared_model.h"
#include "support/support.h"

#define WHERE "mine.yaml:3: model.config"

static ls_status opened(ls_config *c, ls_arena *a, const char *json)
{
    ls_arena_init(a);
    return ls_config_open(c, a, json, WHERE, "mine 1 (mine.so)");
}

static void done(ls_config *c, ls_arena *a)
{
    ls_config_close(c);
    ls_arena_release(a);
}

static void what_is_read_is_resolved(void **state)
{
    (void)state;
    ls_config c;
    ls_arena a;
    ASSERT_OK(
        opened(&c, &a, "{\"hidden\": 128, \"encoder\": {\"layers\": 3}, \"rate\": 1, \"name\": \"a\"}"));
    assert_int_equal(ls_config_int(&c, "hidden", 64, 1, 1000), 128);
    assert_int_equal(ls_config_int(&c, "encoder.layers", 2, 1, 10), 3);
    assert_int_equal(ls_config_int(&c, "encoder.heads", 4, 1, 10), 4);
    assert_true(ls_config_float(&c, "rate", 0.5, 0, 1) == 1);
    assert_true(ls_config_float(&c, "dropout", 0.1, 0, 1) == 0.1);
    assert_true(ls_config_bool(&c, "bias", true));
    assert_string_equal(ls_config_text(&c, "name", "b"), "a");
    assert_string_equal(ls_config_text(&c, "act", "gelu"), "gelu");
    ASSERT_OK(ls_config_status(&c));
    char *all = ls_config_resolved(&c);
    assert_string_equal(all,
                        "{\"hidden\":128,\"encoder\":{\"layers\":3,\"heads\":4},\"rate\":1,\"dropout\":0.1,"
                        "\"bias\":true,\"name\":\"a\",\"act\":\"gelu\"}");
    done(&c, &a);
    /* what is resolved resolves to itself */
    ASSERT_OK(opened(&c, &a, all));
    ls_config_int(&c, "hidden", 1, 1, 1000), ls_config_int(&c, "encoder.layers", 2, 1, 10);
    ls_config_int(&c, "encoder.heads", 1, 1, 10), ls_config_float(&c, "rate", 0, 0, 1);
    ls_config_float(&c, "dropout", 0, 0, 1), ls_config_bool(&c, "bias", false);
    ls_config_text(&c, "name", ""), ls_config_text(&c, "act", "");
    char *again = ls_config_resolved(&c);
    ASSERT_OK(ls_config_status(&c));
    assert_string_equal(again, all);
    free(all);
    free(again);
    done(&c, &a);
}

static void refused(const char *json, const char *message)
{
    ls_config c;
    ls_arena a;
    ASSERT_OK(opened(&c, &a, json));
    const int64_t hidden = ls_config_int(&c, "hidden", 64, 1, 1000);
    assert_true(ls_config_float(&c, "rate", 0.5, 0, 1) <= 1);
    ls_config_bool(&c, "inner.bias", true);
    assert_string_equal(ls_config_text(&c, "act", "gelu"), "gelu");
    assert_true(hidden >= 1 && hidden <= 1000);
    ASSERT_FAILS(ls_config_status(&c), LS_E_USAGE, message);
    done(&c, &a);
}

static void mistakes(void **state)
{
    (void)state;
    refused("{\"hiddn\": 1}",
            WHERE ".hiddn: mine 1 (mine.so) has no such key; did you mean hidden? (it has hidden, "
                  "rate, inner.bias, act)");
    refused("{\"inner\": {\"bia\": true}}", WHERE ".inner.bia: mine 1 (mine.so) has no such key");
    refused("{\"inner\": {\"bias\": true, \"x\": {\"y\": 1}}}", WHERE ".inner.x: ");
    refused("{\"hidden\": 0}", WHERE ".hidden: 0 is out of range (from 1, up to 1000)");
    refused("{\"hidden\": 1.5}", WHERE ".hidden: a whole number is needed here, not 1.5");
    refused("{\"hidden\": \"x\"}", WHERE ".hidden: a whole number is needed here, not \"x\"");
    refused("{\"hidden\": {\"x\": 1}}", WHERE ".hidden: a whole number is needed here, not {\"x\":1}");
    refused("{\"rate\": 1.5}", WHERE ".rate: 1.5 is out of range (from 0, up to 1)");
    refused("{\"rate\": null}", WHERE ".rate: a number is needed here, not null");
    refused("{\"inner\": {\"bias\": 1}}", WHERE ".inner.bias: true or false is needed here, not 1");
    refused("{\"act\": 3}", WHERE ".act: a text is needed here, not 3");
    /* the message has the first one */
    refused("{\"hidden\": 0, \"rate\": 7}", WHERE ".hidden: 0");
    ls_config c;
    ls_arena a;
    ASSERT_OK(opened(&c, &a, "{}"));
    assert_null(ls_config_text(&c, "path", NULL));
    ASSERT_FAILS(ls_config_status(&c), LS_E_USAGE, WHERE ".path: mine 1 (mine.so) needs this key");
    done(&c, &a);
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
    char *yaml = ls_recipe_yaml(r, true);
    ASSERT_OK(load(&again, yaml, 0, NULL));
    assert_string_equal(again->model.config, r->model.config);
    free(yaml);
    ls_recipe_destroy(&again);
    ls_recipe_destroy(&r);
    ASSERT_OK(load(&r, RECIPE, 0, NULL));
    assert_string_equal(r->model.config, "{\"hidden\":64,\"inner\":{\"a\":0.001,\"b\":[\"x\",\"1\",true]},"
                                         "\"text\":\"${HOME}\"}");
    char *resolved;
    ASSERT_FAILS(ls_shared_model_open(r, &resolved), LS_E_USAGE, ":3: model.path: ./none.so: no such file");
    ls_recipe_destroy(&r);
    ls_recipe *record;
    ASSERT_OK(ls_recipe_load_record(&record, RECIPE, strlen(RECIPE), "trainer.json", 0, NULL));
    ASSERT_FAILS(ls_shared_model_open(record, &resolved), LS_E_USAGE,
                 "trainer.json: its model is built by the module ./none.so",
                 "Lockstep loads no code that a run or a checkpoint names",
                 "give --module ./none.so");
    ls_recipe_destroy(&record);
}

static ls_status life(void)
{
    ls_recipe *r;
    ls_config c;
    ls_arena a;
    const char *sets[] = { "model.config.inner.a=2" };
    LS_TRY(load(&r, RECIPE, 1, sets));
    ls_status s = opened(&c, &a, r->model.config);
    if (s == LS_OK) {
        ls_config_int(&c, "hidden", 1, 1, 100);
        ls_config_float(&c, "inner.a", 1, 0, 100);
        char *all = ls_config_resolved(&c);
        s = all ? LS_OK : LS_E_MEMORY;
        free(all);
    }
    done(&c, &a);
    ls_recipe_destroy(&r);
    return s;
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_read_is_resolved),
                                        cmocka_unit_test(mistakes), cmocka_unit_test(maps_in_recipes),
                                        cmocka_unit_test(refused_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
