/* fuzz_template.c - any bytes as a chat template, and behind a NUL as the messages: refused with a message,
 * or rendered as UTF-8 whose spans cover every byte once. */
#include <stdlib.h>
#include <string.h>
#include "lockstep/tokenizer.h"
#include "text/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char MESSAGES[] =
    "[{\"role\": \"user\", \"content\": \" a\\u00e9b \"}, {\"role\": \"assistant\", \"content\": [{\"text\": "
    "\"c\"}],"
    " \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1.5, \"y\": null}}}]}]";

static void check(const ls_rendered *r, const json_t *messages)
{
    size_t end = 0;
    for (size_t i = 0; i < r->n; i++) {
        const ls_span s = r->spans[i];
        const bool of_message = s.from == LS_FROM_ROLE || s.from == LS_FROM_CONTENT ||
                                s.from == LS_FROM_OTHER;
        if (s.end <= end || s.from > LS_FROM_OTHER || of_message != (s.message >= 0) ||
            s.message >= (int32_t)json_array_size(messages))
            abort();
        end = s.end;
    }
    if (end != r->text.len || ls_utf8_sound(ls_str_text(&r->text), r->text.len) != r->text.len)
        abort();
}

static void render(const ls_template *t, const json_t *messages)
{
    ls_rendered r;
    const ls_conversation c = { .messages = messages, .tools = messages, .add_generation_prompt = true };
    if (ls_template_render(t, &c, &r) != LS_OK) {
        if (!*ls_error_message() || r.text.data || r.spans)
            abort();
        return;
    }
    check(&r, messages);
    static const char *const SPECIALS[] = { "<|", "|>" };
    int32_t *target = malloc((r.text.len + 1) * sizeof *target);
    if (!target || ls_rendered_targets(&r, t, messages, "<|", "|>", SPECIALS, 2, target) != LS_OK)
        abort();
    for (size_t i = 0; i < r.text.len; i++)
        if (target[i] < -1 || target[i] >= (int32_t)json_array_size(messages))
            abort();
    free(target);
    ls_rendered_release(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    const size_t n = nul ? (size_t)(nul - data) : size;
    ls_template *t;
    if (ls_template_open(&t, (const char *)data, n, "fuzz.jinja") != LS_OK) {
        if (!*ls_error_message() || t)
            abort();
        return 0;
    }
    json_t *messages = NULL;
    if (nul ? ls_json_parse(&messages, (const char *)nul + 1, size - n - 1, "fuzz.json") == LS_OK
            : ls_json_parse(&messages, MESSAGES, sizeof MESSAGES - 1, "fuzz.json") == LS_OK)
        render(t, messages);
    ls_str header = { 0 };
    if (ls_template_header(t, NULL, &header) != LS_OK)
        abort();
    ls_str_release(&header);
    json_decref(messages);
    ls_template_close(&t);
    return 0;
}
