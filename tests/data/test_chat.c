/* test_chat.c - conversations as samples: the forms of a line, which tokens are targets, what is refused. */
#include "data/chat.h"
#include "files.h"
#include "data/text_folder.h"
#include "lockstep/data.h"

/* "u:a" for a user's text, "a:b$" for an assistant's: short, so samples can be read. $ is eos. */
#define SMALL                                                                                                \
    "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}{{ eos_token if m.role == 'assistant' else '' }}" \
    ";{% endfor %}{% if add_generation_prompt %}a:{% endif %}"
/* the same with marks of what an assistant generates */
#define MARKED                                                                                           \
    "{% for m in messages %}{{ m.role[0] }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content " \
    "}}{{ "                                                                                              \
    "eos_token }}{% endgeneration %}{% else %}{{ m.content }}{% endif %};{% endfor %}{% if "             \
    "add_generation_prompt %}a:{% endif %}"

#define TEXT(...) .text = { LS_TEXT_DEFAULTS, .pack = LS_PACK_NONE, .threads = 2, ##__VA_ARGS__ }
/* All lines as samples of 40 tokens; the evaluation split has the file, too. */
static ls_dataset *opened(const char *lines, const char *jinja, ls_train_on train_on)
{
    ls_dataset *set;
    const char *path = put("talks.jsonl", lines);
    const char *template = put("small.jinja", jinja);
    assert_ok(ls_chat_open(&set, LS_SPLIT_EVAL, path, "bytes", 40, .template = template, .train_on = train_on,
                           TEXT(.eval_path = path)));
    return set;
}

static void expect_only(const char *line, const char *jinja, ls_train_on train_on, const char *want)
{
    ls_dataset *set = opened(line, jinja, train_on);
    char got[96];
    snprintf(got, sizeof got, "%s", sample_text(set, 0));
    for (char *p = got; *p; p++) /* padding */
        if (*p == '|' && (p[1] == '|' || p[1] == '>')) {
            char *to = p + 1;
            while (*to == '|')
                to++;
            memmove(p + 1, to, strlen(to) + 1);
        }
    size_t n = strlen(got);
    while (n && got[n - 1] == '.')
        got[--n] = 0;
    assert_string_equal(got, want);
    assert_int_equal(set->n, 1);
    ls_dataset_close(&set);
}

#define U(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define A(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define LINE(...) "{\"messages\":[" __VA_ARGS__ "]}\n"

static void forms_of_a_line(void **state)
{
    (void)state;
    static const char *const SAME[] = {
        LINE(U("hi") "," A("yo")),
        "{\"conversations\":[{\"from\":\"human\",\"value\":\"hi\"},{\"from\":\"gpt\",\"value\":\"yo\"}]}",
        "{\"messages\":[" U("hi") "," A("yo") "],\"tools\":null,\"chat_template_kwargs\":null,\"id\":7}",
        "{\"prompt\":[" U("hi") "],\"completion\":[" A("yo") "]}",
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"h\"},{\"type\":"
        "\"text\","
        "\"text\":\"i\"}]}," A("yo") "],\"tools\":\"[]\"}",
    };
    for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++)
        expect_only(SAME[i], SMALL, LS_TRAIN_ON_ASSISTANT, "u:hi;a:yo|;|>......yo|");
    /* two texts: no template, and an end */
    expect_only("{\"prompt\":\"the sky\",\"completion\":\" is\"}", SMALL, LS_TRAIN_ON_LAST,
                "the sky is|>...... is|");
    expect_only("{\"prompt\":\"the sky\",\"completion\":\" is\"}", SMALL, LS_TRAIN_ON_ALL,
                "the sky is|>he sky is|");
    expect_only("{\"system\":\"s\",\"conversations\":[" U("hi") "," A("yo") "]}", SMALL,
                LS_TRAIN_ON_ASSISTANT, "s:s;u:hi;a:yo|;|>..........yo|");
    /* an empty answer has no target */
    expect_only(LINE(U("hi") "," A("") "," U("b") "," A("c")), SMALL, LS_TRAIN_ON_ASSISTANT,
                "u:hi;a:|;u:b;a:c|;|>..............c|");
    /* what the template does with variables */
    expect_only("{\"messages\":[" U("hi") "," A("yo") "],\"chat_template_kwargs\":{\"first\":\"!\"}}",
                "{{ first }}" SMALL, LS_TRAIN_ON_ASSISTANT, "!u:hi;a:yo|;|>.......yo|");
    /* an empty list of tools is none, and it is always the same day */
    expect_only("{\"messages\":[" U("hi") "," A("yo") "],\"tools\":[]}",
                "{{ 'none' if tools is none }}{{ strftime_now('%d %b %Y') }}" SMALL, LS_TRAIN_ON_ASSISTANT,
                "none26 Jul 2024u:hi;a:yo|;|>.....................yo|");
}

#define TWO LINE(U("hi") "," A("yo") "," U("b") "," A("c"))
static void targets(void **state)
{
    (void)state;
    static const char *const TEMPLATES[] = { SMALL, MARKED };
    for (int i = 0; i < 2; i++) {
        expect_only(TWO, TEMPLATES[i], LS_TRAIN_ON_ASSISTANT, "u:hi;a:yo|;u:b;a:c|;|>......yo|.......c|");
        expect_only(TWO, TEMPLATES[i], LS_TRAIN_ON_LAST, "u:hi;a:yo|;u:b;a:c|;|>................c|");
        expect_only(TWO, TEMPLATES[i], LS_TRAIN_ON_ALL, "u:hi;a:yo|;u:b;a:c|;|>:hi;a:yo|;u:b;a:c|;");
        /* messages of a prompt are not targets */
        expect_only("{\"prompt\":[" U("hi") "," A("yo") "," U("b") "],\"completion\":[" A("c") "]}",
                    TEMPLATES[i], LS_TRAIN_ON_ASSISTANT, "u:hi;a:yo|;u:b;a:c|;|>................c|");
    }
}

/* The user's <|endoftext|> is 13 bytes, and an assistant's own as well; the template's is a token. */
static void special_text(void **state)
{
    (void)state;
    expect_only(LINE(U("<|endoftext|>") "," A("<|endoftext|>")), SMALL, LS_TRAIN_ON_ASSISTANT,
                "u:<|endoftext|>;a:<|endoftext|>|;|>.................<|endoftext|>|");
}

/* A conversation without an answer has no target and is left out; a long one is cut, dropped or split. */
static void what_is_lost(void **state)
{
    (void)state;
    ls_dataset *set = opened(LINE(U("hi")) LINE(U("hi") "," A("yo")), SMALL, LS_TRAIN_ON_ASSISTANT);
    assert_int_equal(set->n, 1);
    assert_non_null(strstr(set->source, "1 without a target left out"));
    ls_dataset_close(&set);
    const char *path = put("long.jsonl", LINE(U("hi") "," A("0123456789012345678901234567890123456789")));
    const char *template = put("small.jinja", SMALL);
    const ls_chat_options o = { LS_CHAT_DEFAULTS, .template = template, TEXT(.eval_path = path) };
    for (int how = 0; how < 3; how++) {
        ls_chat_options with = o;
        with.text.too_long = (ls_too_long)how;
        const ls_status s = ls_chat_open_with(&set, LS_SPLIT_EVAL, path, "bytes", 40, &with);
        if (how == LS_TOO_LONG_DROP) {
            assert_fails(LS_E_USAGE, s, "longer than 40 tokens", "dropped");
            continue;
        }
        assert_ok(s);
        assert_int_equal(set->n, how == LS_TOO_LONG_SPLIT ? 2 : 1);
        assert_non_null(strstr(set->source, how == LS_TOO_LONG_SPLIT
                                                ? "1 longer than 40 tokens split"
                                                : "1 longer than 40 tokens cut, 9 tokens lost"));
        ls_dataset_close(&set);
    }
}

static void caches(void **state)
{
    (void)state;
    ls_dataset *a = opened(TWO, SMALL, LS_TRAIN_ON_ASSISTANT), *b = opened(TWO, SMALL, LS_TRAIN_ON_ASSISTANT);
    assert_int_equal(files_in_cache(".tokens"), 1);
    assert_int_equal(a->digest, b->digest);
    ls_dataset_close(&b);
    b = opened(TWO, SMALL, LS_TRAIN_ON_LAST); /* the same ids, other targets */
    assert_int_equal(files_in_cache(".tokens"), 2);
    assert_true(a->digest != b->digest);
    ls_dataset_close(&b);
    b = opened(TWO, SMALL " ", LS_TRAIN_ON_ASSISTANT);
    assert_int_equal(files_in_cache(".tokens"), 3);
    ls_dataset_close(&b);
    ls_dataset_close(&a);
}

static void refuses(const char *line, const char *what)
{
    ls_dataset *set;
    const char *path = put("bad.jsonl", line), *template = put("small.jinja", SMALL);
    assert_fails(
        LS_E_FORMAT,
        ls_chat_open(&set, LS_SPLIT_EVAL, path, "bytes", 40, .template = template, TEXT(.eval_path = path)),
        "bad.jsonl, conversation at line 2: ", what);
}

static void refused_lines(void **state)
{
    (void)state;
    static const char *const CASES[][2] = {
        { "[1]", "not a JSON object with messages" },
        { "{\"text\":\"x\"}", "it is a plain text" },
        { "{\"instruction\":\"x\",\"output\":\"y\"}",
          "rewrite instruction and output as prompt and completion" },
        { "{\"prompt\":\"x\",\"chosen\":\"y\",\"rejected\":\"z\"}", "rewrite prompt and chosen as prompt" },
        { "{\"messages\":[]}", "an empty one" },
        { "{\"messages\":[7]}", "messages[0] is not an object" },
        { LINE("{\"content\":\"x\"}"), "messages[0] has no \"role\"" },
        { LINE(U("x") ",{\"role\":\"assistant\"}"), "messages[1] has no \"content\"" },
        { LINE("{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}"),
          "a part of type \"image_url\"" },
        { LINE("{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}"), "has a part that is not" },
        { LINE(U("\\ud800")), "invalid Unicode" },
        { "{\"messages\":[" U("x") "],\"tools\":{}}", "\"tools\" is not a list" },
        { "{\"messages\":[" U("x") "],\"tools\":\"[\"}", "\"tools\":1:" },
        { "{\"messages\":[" U("x") "],\"chat_template_kwargs\":[]}", "is not an object" },
        { "{\"prompt\":\"x\",\"completion\":[" A("y") "]}", "\"prompt\" is not a list" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char line[400];
        snprintf(line, sizeof line, TWO "%s\n", CASES[i][0]);
        refuses(line, CASES[i][1]);
    }
}

/* The template's own words, with the line of the data. */
static void template_refuses(void **state)
{
    (void)state;
    ls_dataset *set;
    const char *path = put("bad.jsonl", TWO LINE(A("x")));
    const char *template = put("strict.jinja",
                               "{% if messages[0].role != 'user' %}{{ raise_exception('roles must "
                               "alternate') }}{% endif %}" SMALL);
    assert_fails(
        LS_E_FORMAT,
        ls_chat_open(&set, LS_SPLIT_EVAL, path, "bytes", 40, .template = template, TEXT(.eval_path = path)),
        "bad.jsonl, conversation at line 2: ", "strict.jinja:1: roles must alternate");
    assert_fails(LS_E_USAGE, ls_chat_open(&set, LS_SPLIT_EVAL, path, "bytes", 40, TEXT(.eval_path = path)),
                 "template: auto: there is no chat_template.jinja", "`chatml`, which is built in");
    assert_fails(LS_E_USAGE,
                 ls_chat_open(&set, LS_SPLIT_EVAL, path, "bytes", 40, .template = "none.jinja",
                              TEXT(.eval_path = path)),
                 "none.jinja: no such file", "chatml");
    template = put("bad.jinja", "\n{{ messages | nosuch }}");
    assert_fails(
        LS_E_UNSUPPORTED,
        ls_chat_open(&set, LS_SPLIT_EVAL, path, "bytes", 40, .template = template, TEXT(.eval_path = path)),
        "bad.jinja:2", "nosuch");
}

/* `auto`: chat_template.jinja, then tokenizer_config.json, which also names eos_token. */
static void found_in_a_folder(void **state)
{
    (void)state;
    const char *path = put("talks.jsonl", LINE(U("hi") "," A("yo")));
    ls_dataset *set;
    put("tokenizer_config.json", "{\"eos_token\":{\"content\":\"!\"},\"bos_token\":null,\"chat_template\":[{"
                                 "\"name\":\"tool_use\",\"template\":"
                                 "\"x\"},{\"name\":\"default\",\"template\":\"{{ messages[0].content }}A{{ "
                                 "messages[1].content }}{{ eos_token "
                                 "}}\"}]}");
    for (int jinja = 0; jinja < 2; jinja++) {
        if (jinja)
            put("chat_template.jinja", "{{ messages[0].content }}B{{ messages[1].content }}{{ eos_token }}");
        assert_ok(ls_chat_open(&set, LS_SPLIT_EVAL, path, "bytes", 10, .folder = text_folder,
                               TEXT(.eval_path = path)));
        assert_string_equal(sample_text(set, 0), jinja ? "hiByo!!!!!>..yo!....." : "hiAyo!!!!!>..yo!.....");
        ls_dataset_close(&set);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_text_folder, drop_text_folder)
    const struct CMUnitTest tests[] = {
        TEST(forms_of_a_line), TEST(targets),       TEST(special_text),     TEST(what_is_lost),
        TEST(caches),          TEST(refused_lines), TEST(template_refuses), TEST(found_in_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
