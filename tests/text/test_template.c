/* test_template.c - chat templates: the bytes of jinja2 (tests/golden/templates.json,
 * tools/golden/templates.py), origins, targets, bounds, and what is refused. */
#include <stdlib.h>

#include "base/file.h"
#include "support/support.h"
#include "text/template.h"

static json_t *golden;

static int read_templates(void **state)
{
    (void)state;
    golden = json_load_file(LS_TEST_SOURCE_DIR "/tests/golden/templates.json", 0, NULL);
    return golden ? 0 : 1;
}

static int drop_templates(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

static ls_status open_text(ls_template **t, const char *text)
{
    return ls_template_open(t, text, strlen(text), "t.jinja");
}

static ls_template *opened(const char *text)
{
    ls_template *t;
    ASSERT_OK(open_text(&t, text));
    return t;
}

/* What jinja2 renders, or that it fails. */
static void as_jinja2(void **state)
{
    (void)state;
    const ls_conversation c = { .messages = json_object_get(golden, "messages"),
                                .tools = json_object_get(golden, "tools"),
                                .variables = json_object_get(golden, "variables"),
                                .add_generation_prompt = true,
                                .clock = 1700000000 };
    size_t i, wrong = 0;
    json_t *row;
    json_array_foreach(json_object_get(golden, "cases"), i, row)
    {
        const char *text = json_string_value(json_object_get(row, "template"));
        const char *want = json_string_value(json_object_get(row, "text"));
        ls_template *t = NULL;
        ls_rendered r = { 0 };
        ls_status s = open_text(&t, text);
        if (s == LS_OK)
            s = ls_template_render(t, &c, &r);
        if (want ? s != LS_OK || strcmp(ls_str_text(&r.text), want) != 0 : s == LS_OK || !t) {
            print_error("%s\n  jinja2: %s\n  here:   %s\n", text, want ? want : "(fails)",
                        s == LS_OK ? ls_str_text(&r.text) : ls_error_message());
            wrong++;
        }
        ls_rendered_release(&r);
        ls_template_close(&t);
    }
    assert_int_equal(wrong, 0);
}

/* Spans as "text(from)": from is a letter of the origin, with the message's number, and ! in a generation
 * block. */
static void expect_origins(const char *template, const char *messages, const char *want)
{
    static const char LETTERS[] = "TXRCO";
    ls_template *t = opened(template);
    ls_rendered r;
    json_t *list = json_loads(messages, 0, NULL);
    assert_non_null(list);
    const ls_conversation c = { .messages = list };
    ASSERT_OK(ls_template_render(t, &c, &r));
    ls_str got = { 0 };
    size_t from = 0;
    for (size_t i = 0; i < r.n; i++) {
        const ls_span s = r.spans[i];
        ls_str_add_n(&got, r.text.data + from, s.end - from);
        ls_str_printf(&got, "(%c", LETTERS[s.from]);
        if (s.message >= 0)
            ls_str_printf(&got, "%d", s.message);
        ls_str_printf(&got, "%s)", s.generation ? "!" : "");
        from = s.end;
    }
    assert_int_equal(from, r.text.len);
    assert_string_equal(ls_str_text(&got), want);
    ls_str_release(&got);
    ls_rendered_release(&r);
    json_decref(list);
    ls_template_close(&t);
}

#define TWO                                                                                                \
    "[{\"role\": \"user\", \"content\": \" aXb \"}, {\"role\": \"assistant\", \"content\": \"c\", \"n\": " \
    "7}]"

static void origins(void **state)
{
    (void)state;
    static const struct {
        const char *template, *want;
    } CASES[] = {
        { "a{{ messages[0].content }}b", "a(T) aXb (C0)b(T)" },
        { "{{ messages[0].role ~ ':' ~ messages[1].n }}", "user(R0):(T)7(O1)" },
        { "{{ messages[0].content | trim + messages[1].content }}", "aXb(C0)c(C1)" },
        { "{{ messages[0].content[1:3] }}{{ messages[0].content[::-1] }}", "aX bXa (C0)" },
        { "{{ messages[0].content.strip().replace('X', '-') }}", "a(C0)-(T)b(C0)" },
        { "{{ messages[0].content.split('X') | join('+') }}", " a(C0)+(T)b (C0)" },
        { "{{ '{}!'.format(messages[1].content) | upper }}", "C(C1)!(T)" },
        { "{{ messages[1].content * 2 ~ messages[1].content | capitalize }}", "ccC(C1)" },
        { "{{ messages[0].content | trim | tojson }}", "\"aXb\"(C0)" },
        { "{{ messages[1] | tojson }}",
          "{\"role\": (O1)\"assistant\"(R1), \"content\": (O1)\"c\"(C1), \"n\": 7}(O1)" },
        { "{{ messages | map(attribute='content') | list }}", "[(T)' aXb '(C0), (T)'c'(C1)](T)" },
        { "{% set x %}<{{ messages[1].content }}>{% endset %}{{ x }}", "<(T)c(C1)>(T)" },
        { "{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(messages[1].content) | indent(1, true) }}",
          " <(T)c(C1)>(T)" },
        { "{% generation %}a{{ messages[1].content }}{% endgeneration %}b", "a(T!)c(C1!)b(T)" },
        { "{% macro f() %}{% generation %}a{% endgeneration %}b{% endmacro %}{{ f() }}", "a(T!)b(T)" },
        { "{{ (messages[0].content | length) }}{{ '12' | int + messages[1].n }}", "519(T)" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        expect_origins(CASES[i].template, TWO, CASES[i].want);
    expect_origins("{% for p in messages[0].content %}{{ p.text }}{% endfor %}",
                   "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"hi\"}]}]", "hi(C0)");
}

/* The targets as the text with [] around each turn of an assistant. */
static void expect_targets(const char *template, const char *messages, const char *eos, const char *want)
{
    static const char *const SPECIALS[] = { "<|end|>", "<|im_end|>", "<|im_start|>",
                                            "<call>",  "</call>",    "<|end|>!" };
    ls_template *t = opened(template);
    ls_rendered r;
    ls_str header = { 0 }, got = { 0 };
    json_t *list = json_loads(messages, 0, NULL);
    assert_non_null(list);
    const ls_conversation c = { .messages = list };
    ASSERT_OK(ls_template_render(t, &c, &r));
    ASSERT_OK(ls_template_header(t, NULL, &header));
    int32_t *target = malloc((r.text.len + 1) * sizeof *target);
    ASSERT_OK(ls_rendered_targets(&r, t, list, ls_str_text(&header), eos, SPECIALS, 6, target));
    target[r.text.len] = -1;
    for (size_t i = 0; i <= r.text.len; i++) {
        if (i && target[i - 1] >= 0 && target[i] != target[i - 1])
            ls_str_printf(&got, "]%d", target[i - 1]);
        if (target[i] >= 0 && (!i || target[i] != target[i - 1]))
            ls_str_add(&got, "[");
        ls_str_add_n(&got, r.text.data + i, i < r.text.len);
    }
    assert_string_equal(ls_str_text(&got), want);
    free(target);
    ls_str_release(&got);
    ls_str_release(&header);
    ls_rendered_release(&r);
    json_decref(list);
    ls_template_close(&t);
}

#define CHATML                                                                                        \
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"                                     \
    "{% if m.role == 'assistant' and think %}{{ '<think>\n\n</think>\n' }}{% endif %}{{ m.content }}" \
    "{% if m.tool_calls %}<call>{{ m.tool_calls[0].name }}</call>{% endif %}<|im_end|>\n{% endfor %}" \
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
#define TALK                                                                                              \
    "[{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", \"content\": \"a<|im_end|>\"}," \
    " {\"role\": \"user\", \"content\": \"v\"}, {\"role\": \"assistant\", \"content\": \"\","             \
    " \"tool_calls\": [{\"name\": \"f\"}]}]"

static void targets(void **state)
{
    (void)state;
    /* an end token that the assistant wrote ends nothing; neither is the header a target, where the role is
     * the conversation's
     */
    expect_targets(CHATML, TALK, "<|im_end|>",
                   "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n[a<|im_end|><|im_end|>]1\n"
                   "<|im_start|>user\nv<|im_end|>\n<|im_start|>assistant\n[<call>f</call><|im_end|>]3\n");
    /* the first special token, where the end token does not follow */
    expect_targets(
        "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>x{% endfor %}",
        "[{\"role\": \"assistant\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": \"<|end|>\"}]",
        "</s>", "assistant: [a<|end|>]0xuser: <|end|><|end|>x");
    /* of several that begin there the longest */
    expect_targets("{% for m in messages %}{{ m.content }}<|end|>!{% endfor %}",
                   "[{\"role\": \"assistant\", \"content\": \"a\"}]", NULL, "[a<|end|>!]0");
    /* none at all */
    expect_targets("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}",
                   "[{\"role\": \"assistant\", \"content\": \"a\"}]", NULL, "assistant: [a]0\n");
    /* text of the template behind the header is the assistant's; a header's end that a turn lacks is none of
     * it */
    expect_targets(
        "{% for m in messages %}<A>{% if m.role == 'assistant' %}{say}{% endif %}{{ m.content }}<|end|>"
        "{% endfor %}{% if add_generation_prompt %}<A>{% endif %}",
        "[{\"role\": \"assistant\", \"content\": \"a\"}]", NULL, "<A>[{say}a<|end|>]0");
    expect_targets("{% for m in messages %}<|im_start|>A{say}{{ m.content }}<|end|>{% endfor %}"
                   "{% if add_generation_prompt %}<|im_start|>A#{% endif %}",
                   "[{\"role\": \"assistant\", \"content\": \"a\"}]", NULL, "<|im_start|>A[{say}a<|end|>]0");
    /* a function's name in a tool's answer is from the assistant's message, and no turn of its own */
    expect_targets(
        "{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>{{ messages[0].name }}:{{ m.content }}"
        "<|end|>{% else %}<|im_start|>assistant {{ m.name }}<call>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant{% endif %}",
        "[{\"role\": \"assistant\", \"name\": \"f\"}, {\"role\": \"tool\", \"content\": \"r\"}]", NULL,
        "<|im_start|>assistant[ f<call>]0<|im_start|>f:r<|end|>");
    /* a thought is the assistant's, also where the prompt begins it */
    expect_targets("{% for m in messages %}<A><think></think>{{ m.content }}<|end|>{% endfor %}"
                   "{% if add_generation_prompt %}<A><think>{% endif %}",
                   "[{\"role\": \"assistant\", \"content\": \"a\"}]", NULL, "<A>[<think></think>a<|end|>]0");
    /* blocks that the template marks; one without bytes of a message belongs to the next turn */
    expect_targets(
        "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% else %}{% generation %}"
        "{{ m.content }};{% endgeneration %}{% endif %}{% endfor %}",
        "[{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", \"content\": \"\"},"
        " {\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", \"content\": \"a\"}]",
        NULL, "u[;]1u[a;]3");
    expect_targets("{% for m in messages %}<{% generation %}{{ m.content }};{% endgeneration %}>{% endfor %}"
                   "{% generation %}E{% endgeneration %}",
                   "[{\"role\": \"assistant\", \"content\": \"a\"}]", NULL, "<[a;]0>[E]0");
    expect_targets(
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}-"
        "{% generation %};{% endgeneration %}|{% endfor %}",
        "[{\"role\": \"assistant\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]",
        NULL, "[a]0-[;]0|[b]1-[;]1|");
    /* a block with bytes of several messages belongs to the first */
    expect_targets("{% generation %}{{ messages[0].content }}{{ messages[1].content }}{% endgeneration %}",
                   "[{\"role\": \"assistant\", \"content\": \"a\"}, {\"role\": \"assistant\", "
                   "\"content\": \"b\"}]",
                   NULL, "[ab]0");
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *template, *where, *what;
        ls_status status;
    } CASES[] = {
        { "a\n{% include 'x' %}", "t.jinja:2: ", "{% include %} is not known here", LS_E_UNSUPPORTED },
        { "{% call f() %}{% endcall %}", "t.jinja:1: ", "{% call %} is not known", LS_E_UNSUPPORTED },
        { "\n\n{{ 1 | nofilter }}", "t.jinja:3: ", "the filter 'nofilter' is not known here",
          LS_E_UNSUPPORTED },
        { "{{ [1] | map('nofilter') }}", "t.jinja:1: ", "the filter 'nofilter'", LS_E_UNSUPPORTED },
        { "{{ [1] | selectattr('a', 'notest') }}", "t.jinja:1: ", "the test 'notest'", LS_E_UNSUPPORTED },
        { "{{ 1 is notest }}", "t.jinja:1: ", "the test 'notest' is not known", LS_E_UNSUPPORTED },
        { "{{ nofunction(1) }}", "t.jinja:1: ", "the function nofunction() is not known", LS_E_UNSUPPORTED },
        { "{{ messages.nomethod() }}", "t.jinja:1: ", "the method .nomethod()", LS_E_UNSUPPORTED },
        { "{{ '' | trim(1, 2) }}", "t.jinja:1: ", "at most 1 arguments", LS_E_UNSUPPORTED },
        { "{{ '' | trim(x=2) }}", "t.jinja:1: ", "has no argument 'x'", LS_E_UNSUPPORTED },
        { "{{ '%s' % 1 }}", "t.jinja:1: ", "formatting with %", LS_E_UNSUPPORTED },
        { "{{ dict(**x) }}", "t.jinja:1: ", "** in a call", LS_E_UNSUPPORTED },
        { "{% for x in y recursive %}{% endfor %}", "t.jinja:1: ", "recursive loops", LS_E_UNSUPPORTED },
        { "{% macro f() %}{{ kwargs }}{% endmacro %}", "t.jinja:1: ", "'kwargs' is not supported",
          LS_E_UNSUPPORTED },
        { "{% if 1 %}\nx", "t.jinja:1: ", "the block that begins here has no {% endif %}", LS_E_FORMAT },
        { "x\n{% endfor %}", "t.jinja:2: ", "{% endfor %} ends nothing here", LS_E_FORMAT },
        { "{% break %}", "t.jinja:1: ", "'break' stands outside of a loop", LS_E_FORMAT },
        { "x\n{{ 1", "t.jinja:2: ", "has no closing }}", LS_E_FORMAT },
        { "{# x", "t.jinja:1: ", "the comment that begins here has no end", LS_E_FORMAT },
        { "{% raw %}", "t.jinja:1: ", "{% endraw %}", LS_E_FORMAT },
        { "{{ 'x }}", "t.jinja:1: ", "has no closing '", LS_E_FORMAT },
        { "{{ 1 + }}", "t.jinja:1: ", "a value is expected", LS_E_FORMAT },
        { "{{ (1] }}", "t.jinja:1: ", "unexpected ']'", LS_E_FORMAT },
        { "{{ x y }}", "t.jinja:1: ", "}} is expected, and not 'y'", LS_E_FORMAT },
        { "{{ 1 ? 2 }}", "t.jinja:1: ", "unexpected character '?'", LS_E_FORMAT },
        { "{% set x + 1 %}", "t.jinja:1: ", "%} is expected", LS_E_FORMAT },
        { "{% set true = 1 %}", "t.jinja:1: ", "'true' cannot be assigned to", LS_E_FORMAT },
        { "{{ '\\ud800' }}", "t.jinja:1: ", "not a character", LS_E_FORMAT },
        { "{{ 99999999999999999999 }}", "t.jinja:1: ", "more than 64 bits", LS_E_UNSUPPORTED },
        { "\xff", "t.jinja: byte 0", "not UTF-8", LS_E_FORMAT },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        ls_template *t;
        ASSERT_FAILS(open_text(&t, CASES[i].template), CASES[i].status, CASES[i].where, CASES[i].what);
        assert_null(t);
    }
}

/* A text of n times `part` between two others. */
static ls_status open_repeated(ls_template **t, const char *begin, const char *part, int n, const char *end)
{
    ls_str text = { 0 };
    ls_str_add(&text, begin);
    for (int i = 0; i < n; i++)
        ls_str_add(&text, part);
    ls_str_add(&text, end);
    const ls_status s = open_text(t, ls_str_text(&text));
    ls_str_release(&text);
    return s;
}

static ls_status render_with(const char *text, json_t *messages)
{
    ls_template *t = opened(text);
    ls_rendered r;
    const ls_conversation c = { .messages = messages };
    const ls_status s = ls_template_render(t, &c, &r);
    ls_rendered_release(&r);
    ls_template_close(&t);
    return s;
}

static void bounds(void **state)
{
    (void)state;
    ls_template *t;
    ASSERT_FAILS(open_repeated(&t, "", "0123456789abcdef", (LS_TEMPLATE_BYTES >> 4) + 1, ""),
                 LS_E_UNSUPPORTED, "t.jinja: a chat template of", "at most 1048576");
    ASSERT_FAILS(open_repeated(&t, "{{ ", "(", 200, ""), LS_E_UNSUPPORTED, "nested more than 100 deep");
    ASSERT_FAILS(open_repeated(&t, "{{ ", "not ", 100000, "1 }}"), LS_E_UNSUPPORTED,
                 "nested more than 100 deep");
    ASSERT_FAILS(open_repeated(&t, "{{ ", "- ", 100000, "1 }}"), LS_E_UNSUPPORTED,
                 "nested more than 100 deep");
    ASSERT_FAILS(open_repeated(&t, "{{ 1", " if 1 else 1", 1000, " }}"), LS_E_UNSUPPORTED,
                 "nested more than 100 deep");
    ASSERT_FAILS(open_repeated(&t, "{{ x", ".x", 200, " }}"), LS_E_UNSUPPORTED, "nested more than 100 deep");
    ASSERT_FAILS(open_repeated(&t, "", "{% if 1 %}", 100000, ""), LS_E_UNSUPPORTED,
                 "nested more than 100 deep");
    ASSERT_OK(open_repeated(&t, "{{ 1", " + 1", 5000, " }}")); /* long, and not deep */
    ls_template_close(&t);

    json_t *none = json_array();
    ASSERT_FAILS(
        render_with("\n{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
                    none),
        LS_E_UNSUPPORTED, "t.jinja:2: ", "more than 10000000 steps");
    ASSERT_FAILS(render_with("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}\n{{ f(0) }}", none),
                 LS_E_UNSUPPORTED, "t.jinja:1: ", "macros call each other more than 100 deep: 'f'");
    ASSERT_FAILS(render_with("{% set x = 'x' * 1000000 %}{% for i in range(80) %}{{ x }}{% endfor %}", none),
                 LS_E_UNSUPPORTED, "grows beyond 64 MiB");
    ASSERT_FAILS(
        render_with("{% set n = namespace(x='x' * 1000) %}{% for i in range(50) %}{% set n.x = n.x + n.x %}"
                    "{% endfor %}",
                    none),
        LS_E_UNSUPPORTED, "grows beyond 64 MiB");
    ASSERT_FAILS(
        render_with(
            "{% set n = namespace(x=[]) %}{% for i in range(1000) %}{% set n.x = [n.x] %}{% endfor %}", none),
        LS_E_UNSUPPORTED, "nested more than 100 deep");
    ASSERT_FAILS(render_with("{{ range(100001) }}", none), LS_E_UNSUPPORTED,
                 "range: more than 100000 numbers");
    ASSERT_FAILS(render_with("{{ 9223372036854775807 + 1 }}", none), LS_E_UNSUPPORTED, "more than 64 bits");
    json_decref(none);

    json_t *deep = json_array();
    for (int i = 0; i < 200; i++) {
        json_t *outer = json_array();
        json_array_append_new(outer, deep);
        deep = outer;
    }
    json_t *messages = json_pack("[{s:s, s:o}]", "role", "user", "content", deep);
    ASSERT_FAILS(render_with("x", messages), LS_E_UNSUPPORTED, "nested more than 100 deep");
    json_decref(messages);
}

static void own_words(void **state)
{
    (void)state;
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "tool", "content", "x");
    ASSERT_FAILS(render_with("{% for m in messages %}\n{% if m.role != 'user' %}\n"
                             "{{ raise_exception('No role ' ~ m.role) }}{% endif %}{% endfor %}",
                             messages),
                 LS_E_FORMAT, "t.jinja:3: No role tool");
    ASSERT_FAILS(render_with("x\n{{ messages[0].content.y.z }}", messages), LS_E_FORMAT,
                 "t.jinja:2: 'y' is undefined");
    json_t *wrong = json_pack("[s]", "x"), *object = json_object();
    ASSERT_FAILS(render_with("x", wrong), LS_E_FORMAT, "message 0 of the conversation is not an object");
    ASSERT_FAILS(render_with("x", object), LS_E_FORMAT, "have to be a list");
    json_decref(wrong);
    json_decref(object);
    json_decref(messages);
}

static ls_status open_and_render(void *messages)
{
    ls_template *t = NULL;
    ls_rendered r = { 0 };
    ls_status s = open_text(&t, "{% set x = 'a\\n' 'b' %}{% macro f(a) %}{{ a | upper }}{% endmacro %}"
                                "{% for m in messages if m.role %}{{ f(m.content ~ x) }}{{ [m] | tojson }}"
                                "{{ m.content.split('b') | join }}{% endfor %}");
    const ls_conversation c = { .messages = messages };
    if (s == LS_OK)
        s = ls_template_render(t, &c, &r);
    ls_rendered_release(&r);
    ls_template_close(&t);
    return s;
}

static void no_memory(void **state)
{
    (void)state;
    json_t *messages = json_loads(TALK, 0, NULL);
    assert_true(ls_test_memory(open_and_render, messages, 1) > 5);
    json_decref(messages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_jinja2), cmocka_unit_test(origins), cmocka_unit_test(targets),
        cmocka_unit_test(refusals),  cmocka_unit_test(bounds),  cmocka_unit_test(own_words),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, read_templates, drop_templates);
}
