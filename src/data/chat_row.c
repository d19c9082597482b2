/* chat_row.c - see chat_row.h. */
#include "data/chat_row.h"

#include <string.h>

/* ---- a message */

static ls_status bad_message(const char *list, size_t i, const char *what)
{
    return ls_fail(LS_E_FORMAT, "%s[%zu] %s", list, i, what);
}

/* Names of roles in lists of from and value, as FastChat wrote them, and the usual ones. */
static const char *role_of(const char *from)
{
    static const char *const NAMES[][2] = { { "human", "user" },       { "gpt", "assistant" },
                                            { "model", "assistant" },  { "bot", "assistant" },
                                            { "observation", "tool" }, { "function_response", "tool" } };
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (!strcmp(from, NAMES[i][0]))
            return NAMES[i][1];
    return from;
}

/* The texts of a list of parts, joined. */
static ls_status join_parts(json_t **out, const char *list, size_t i, const json_t *parts)
{
    ls_str text = { 0 };
    ls_status s = LS_OK;
    for (size_t k = 0; k < json_array_size(parts) && s == LS_OK; k++) {
        const json_t *part = json_array_get(parts, k);
        const json_t *of = json_is_string(part) ? part : json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        if (json_is_object(part) && (!type || strcmp(type, "text") != 0))
            s = ls_fail(LS_E_FORMAT,
                        "%s[%zu] has a part of type \"%.40s\"; the models here read text: parts of type text "
                        "are joined, others are refused",
                        list, i, type ? type : "");
        else if (!json_is_string(of))
            s = bad_message(list, i, "has a part that is not {\"type\": \"text\", \"text\": \"...\"}");
        else
            ls_str_add_n(&text, json_string_value(of), json_string_length(of));
    }
    if (s == LS_OK)
        s = ls_str_status(&text);
    if (s == LS_OK && !(*out = json_stringn(ls_str_text(&text), text.len)))
        s = ls_fail(LS_E_MEMORY, "out of memory for a conversation");
    ls_str_release(&text);
    return s;
}

/* Sets role and content of `to`, a copy of message i. */
static ls_status normal_message(json_t *to, const char *list, size_t i, const json_t *m)
{
    const json_t *role = json_object_get(m, "role"), *content = json_object_get(m, "content");
    const bool shared = !role && json_object_get(m, "from");
    if (shared) {
        role = json_object_get(m, "from");
        content = json_object_get(m, "value");
        json_object_del(to, "from");
        json_object_del(to, "value");
    }
    if (!json_is_string(role) || !json_string_length(role))
        return bad_message(list, i, "has no \"role\" (or \"from\"), such as \"user\"");
    json_object_set_new(to, "role",
                        json_string(shared ? role_of(json_string_value(role)) : json_string_value(role)));
    const bool calls = json_array_size(json_object_get(m, "tool_calls")) > 0;
    if ((!content || json_is_null(content)) && calls) {
        json_object_del(to, "content");
        return LS_OK;
    }
    json_t *text = NULL;
    if (json_is_array(content))
        LS_TRY(join_parts(&text, list, i, content));
    else if (!json_is_string(content))
        return bad_message(
            list, i,
            "has no \"content\" (or \"value\"): a text, or a list of parts of type text; only a "
            "message with tool_calls may do without");
    if (text ? json_object_set_new(to, "content", text)
             : json_object_set(to, "content", (json_t *)(uintptr_t)content))
        return ls_fail(LS_E_MEMORY, "out of memory for a conversation");
    return LS_OK;
}

/* ---- lists of messages */

static ls_status add_messages(ls_chat_row *r, const char *list, const json_t *messages)
{
    if (!json_is_array(messages) || !json_array_size(messages))
        return ls_fail(LS_E_FORMAT, "\"%s\" is not a list of messages, or an empty one", list);
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *m = json_array_get(messages, i);
        if (!json_is_object(m))
            return bad_message(list, i, "is not an object with role and content");
        json_t *copy = json_copy((json_t *)(uintptr_t)m);
        if (!copy || json_array_append_new(r->messages, copy) != 0)
            return ls_fail(LS_E_MEMORY, "out of memory for a conversation");
        LS_TRY(normal_message(copy, list, i, m));
    }
    return LS_OK;
}

static ls_status read_tools(ls_chat_row *r, const json_t *tools)
{
    if (json_is_string(tools)) { /* tables of one type for each column keep it as a text */
        if (!json_string_length(tools))
            return LS_OK;
        LS_TRY(
            ls_json_parse(&r->own_tools, json_string_value(tools), json_string_length(tools), "\"tools\""));
        tools = r->own_tools;
    }
    if (!tools || json_is_null(tools))
        return LS_OK;
    if (!json_is_array(tools))
        return ls_fail(LS_E_FORMAT, "\"tools\" is not a list");
    r->tools = json_array_size(tools) ? tools : NULL;
    return LS_OK;
}

static ls_status read_system(ls_chat_row *r, const json_t *system)
{
    if (!json_is_string(system) || !json_string_length(system))
        return LS_OK;
    json_t *m = json_pack("{ss sO}", "role", "system", "content", system);
    return m && json_array_append_new(r->messages, m) == 0
               ? LS_OK
               : ls_fail(LS_E_MEMORY, "out of memory for a conversation");
}

static ls_status read_conversation(ls_chat_row *r, const json_t *line)
{
    const json_t *prompt = json_object_get(line, "prompt"), *completion = json_object_get(line, "completion");
    const char *list = json_object_get(line, "messages") ? "messages" : "conversations";
    const json_t *messages = json_object_get(line, list);
    const json_t *variables = json_object_get(line, "chat_template_kwargs");
    LS_TRY(read_tools(r, json_object_get(line, "tools")));
    if (variables && !json_is_null(variables)) {
        if (!json_is_object(variables))
            return ls_fail(LS_E_FORMAT, "\"chat_template_kwargs\" is not an object");
        r->variables = variables;
    }
    if (messages) {
        LS_TRY(read_system(r, json_object_get(line, "system")));
        return add_messages(r, list, messages);
    }
    LS_TRY(add_messages(r, "prompt", prompt));
    r->first = json_array_size(r->messages);
    return add_messages(r, "completion", completion);
}

/* What a line of another form is, and how it becomes one of ours. */
static void say_other(ls_str *out, const json_t *line)
{
    static const char *const PAIRS[][2] = { { "instruction", "output" }, { "instruction", "response" },
                                            { "question", "answer" },    { "query", "response" },
                                            { "prompt", "chosen" },      { "prompt", "response" },
                                            { "input", "output" } };
    for (size_t i = 0; i < sizeof PAIRS / sizeof PAIRS[0]; i++)
        if (json_object_get(line, PAIRS[i][0]) && json_object_get(line, PAIRS[i][1])) {
            ls_str_printf(out, "; rewrite %s and %s as prompt and completion, or as two messages",
                          PAIRS[i][0], PAIRS[i][1]);
            return;
        }
    if (json_object_get(line, "text"))
        ls_str_add(out, "; it is a plain text, without a role or a prompt");
}

ls_status ls_chat_row_read(ls_chat_row *out, const json_t *line)
{
    const json_t *prompt = json_object_get(line, "prompt"), *completion = json_object_get(line, "completion");
    *out = (ls_chat_row){ 0 };
    if (!json_object_get(line, "messages") && !json_object_get(line, "conversations") &&
        !(prompt && completion)) {
        ls_str other = { 0 };
        say_other(&other, line);
        const ls_status s = ls_fail(
            LS_E_FORMAT,
            "this is not a JSON object with messages, with conversations, or with prompt and completion%s",
            ls_str_text(&other));
        ls_str_release(&other);
        return s;
    }
    if (json_is_string(prompt) && json_is_string(completion) && !json_object_get(line, "messages") &&
        !json_object_get(line, "conversations")) {
        out->prompt = prompt;
        out->completion = completion;
        return LS_OK;
    }
    out->messages = json_array();
    const ls_status s = out->messages ? read_conversation(out, line)
                                      : ls_fail(LS_E_MEMORY, "out of memory for a conversation");
    if (s != LS_OK)
        ls_chat_row_release(out);
    return s;
}

void ls_chat_row_release(ls_chat_row *r)
{
    json_decref(r->messages);
    json_decref(r->own_tools);
    *r = (ls_chat_row){ 0 };
}
