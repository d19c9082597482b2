/* chat.c - see chat.h. */
#include "data/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/field.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/sys.h"
#include "data/chat_row.h"
#include "data/tokenize.h"
#include "text/specials.h"
#include "text/template.h"

enum { FORMAT = 1 }; /* of what chat.c and the template make of a conversation: enters the digest */

/* What strftime_now shows in training, where a run gives the same tokens on every day: 26 July 2024, the date
 * that the templates of Llama 3 have where there is no clock. */
enum { TRAINING_CLOCK = 1721952000 };

/* Messages between the marks of Qwen. A vocabulary without <|im_end|> has its own end of a text there. */
static const char CHATML[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + im_end "
    "+ "
    "'\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

struct ls_chat {
    const ls_tokenizer *tokenizer;
    ls_template *template;
    char *file;        /* of the template; NULL: it is built in */
    char *text;        /* of the template */
    json_t *variables; /* bos_token, eos_token, ... */
    ls_str header;     /* of an assistant's turn */
    const char *eos;   /* in `variables` */
    int32_t end;       /* behind a completion */
    const char **specials;
    size_t n_specials;
    uint64_t digest;
};

/* ---- the files of a folder */

static ls_status read_config(json_t **out, const char *path)
{
    char *text;
    size_t n;
    LS_TRY(ls_file_read(&text, &n, path));
    const ls_status s = ls_json_parse(out, text, n, path);
    free(text);
    return s;
}

/* The text of a token: "</s>", or an object with its content. */
static const char *token_text(const json_t *token)
{
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

/* The template of a tokenizer_config.json: a text, or a list of templates with names, of which `default`
 * counts. */
static const char *template_of(const json_t *config)
{
    const json_t *t = json_object_get(config, "chat_template");
    for (size_t i = 0; i < json_array_size(t); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(t, i), "name"));
        if (name && !strcmp(name, "default"))
            return json_string_value(json_object_get(json_array_get(t, i), "template"));
    }
    return json_string_value(t);
}

/* What a folder says: the file and text of its template, and the special tokens by their names. */
typedef struct found {
    char *file, *text;
    json_t *variables;
} found;

static ls_status take_config(found *f, const char *path)
{
    json_t *config = NULL, *value;
    const char *key;
    LS_TRY(read_config(&config, path));
    json_object_foreach(config, key, value)
    {
        const size_t n = strlen(key);
        const char *text = token_text(value);
        if (n > 6 && !strcmp(key + n - 6, "_token") && text && !json_object_get(f->variables, key))
            json_object_set_new(f->variables, key, json_string(text));
    }
    const char *text = template_of(config);
    ls_status s = LS_OK;
    if (text && !f->text) {
        s = ls_sys_have(f->text = ls_sys_strdup(text));
        if (s == LS_OK)
            s = ls_sys_have(f->file = ls_sys_strdup(path));
    }
    json_decref(config);
    return s;
}

/* chat_template.jinja comes first: newer versions of transformers write it. */
static ls_status look_in(found *f, const char *folder)
{
    char *jinja = ls_path_join(folder, "chat_template.jinja"),
         *config = ls_path_join(folder, "tokenizer_config.json");
    ls_status s = jinja && config ? LS_OK : LS_E_MEMORY;
    size_t n;
    if (s == LS_OK && !f->text && ls_file_exists(jinja)) {
        s = ls_file_read(&f->text, &n, jinja);
        if (s == LS_OK)
            s = ls_sys_have(f->file = ls_sys_strdup(jinja));
    }
    if (s == LS_OK && ls_file_exists(config))
        s = take_config(f, config);
    free(jinja);
    free(config);
    return s;
}

static ls_status look(found *f, const char *tokenizer_file, const char *folder)
{
    const char *slash = strrchr(tokenizer_file, '/');
    if (strcmp(tokenizer_file, "bytes") != 0) {
        char *own = slash ? ls_sys_strndup(tokenizer_file, (size_t)(slash - tokenizer_file))
                          : ls_sys_strdup(".");
        ls_status s = ls_sys_have(own);
        if (s == LS_OK)
            s = look_in(f, own);
        free(own);
        LS_TRY(s);
    }
    return *folder ? look_in(f, folder) : LS_OK;
}

/* ---- opening */

static ls_status choose_template(found *f, const char *tokenizer_file, const char *choice)
{
    size_t n;
    if (!strcmp(choice, "auto")) {
        if (!f->text)
            return ls_fail_field(
                LS_E_USAGE, "template",
                "auto: there is no chat_template.jinja, and no chat_template in a "
                "tokenizer_config.json, beside %s: name a file with a template, or `chatml`, "
                "which is built in",
                tokenizer_file);
        return LS_OK;
    }
    free(f->text);
    free(f->file);
    f->text = f->file = NULL;
    if (!strcmp(choice, "chatml"))
        return ls_sys_have(f->text = ls_sys_strdup(CHATML));
    if (!ls_file_exists(choice))
        return ls_fail_field(LS_E_USAGE, "template",
                             "%s: no such file; `auto` takes the model's own template, `chatml` is built in",
                             choice);
    LS_TRY(ls_file_read(&f->text, &n, choice));
    return ls_sys_have(f->file = ls_sys_strdup(choice));
}

static ls_status list_specials(ls_chat *c)
{
    while (ls_tokenizer_special(c->tokenizer, (int)c->n_specials))
        c->n_specials++;
    c->specials = ls_sys_calloc(c->n_specials + 1, sizeof *c->specials);
    for (size_t i = 0; c->specials && i < c->n_specials; i++)
        c->specials[i] = ls_tokenizer_special(c->tokenizer, (int)i);
    return ls_sys_have(c->specials);
}

static ls_status set_end(ls_chat *c, const char *name, const ls_chat_options *o)
{
    const char *eos = json_string_value(json_object_get(c->variables, "eos_token"));
    const char *wanted = *o->text.end_token                               ? o->text.end_token
                         : eos && ls_tokenizer_id(c->tokenizer, eos) >= 0 ? eos
                                                                          : "";
    LS_TRY(ls_tokenizer_end(&c->end, c->tokenizer, wanted, name));
    if (!eos)
        json_object_set_new(c->variables, "eos_token", json_string(ls_tokenizer_token(c->tokenizer, c->end)));
    c->eos = json_string_value(json_object_get(c->variables, "eos_token"));
    const char *im_end = ls_tokenizer_id(c->tokenizer, "<|im_end|>") >= 0 ? "<|im_end|>" : c->eos;
    json_object_set_new(c->variables, "im_end", json_string(im_end ? im_end : ""));
    return ls_sys_have(c->eos);
}

static ls_status open_all(ls_chat *c, found *f, const char *tokenizer_file, const char *name,
                          const ls_chat_options *o)
{
    f->variables = c->variables = json_object();
    LS_TRY(ls_sys_have(c->variables));
    LS_TRY(look(f, tokenizer_file, o->folder));
    LS_TRY(choose_template(f, tokenizer_file, o->template));
    char *dump = json_dumps(c->variables, JSON_SORT_KEYS | JSON_COMPACT);
    LS_TRY(ls_sys_have(dump));
    c->digest = ls_hash64_more(ls_hash_text(f->text) + FORMAT, dump, strlen(dump));
    free(dump);
    if (c->tokenizer) {
        LS_TRY(set_end(c, name, o));
        LS_TRY(list_specials(c));
        LS_TRY(ls_template_open(&c->template, f->text, strlen(f->text), f->file ? f->file : "chatml"));
        LS_TRY(ls_template_header(c->template, c->variables, &c->header));
    }
    c->file = f->file;
    c->text = f->text;
    f->file = f->text = NULL;
    return LS_OK;
}

ls_status ls_chat_make(ls_chat **out, const ls_tokenizer *tokenizer, const char *tokenizer_file,
                       const char *name, const ls_chat_options *o)
{
    found f = { 0 };
    ls_chat *c = *out = ls_sys_calloc(1, sizeof *c);
    if (!c)
        return ls_fail(LS_E_MEMORY, "out of memory for a chat template");
    c->tokenizer = tokenizer;
    const ls_status s = open_all(c, &f, tokenizer_file, name, o);
    free(f.file);
    free(f.text);
    if (s != LS_OK)
        ls_chat_free(out);
    return s;
}

void ls_chat_free(ls_chat **cp)
{
    ls_chat *c = *cp;
    if (!c)
        return;
    ls_template_close(&c->template);
    ls_str_release(&c->header);
    json_decref(c->variables);
    free(c->specials);
    free(c->file);
    free(c->text);
    free(c);
    *cp = NULL;
}

const char *ls_chat_file(const ls_chat *c) { return c->file ? c->file : "chatml"; }

ls_status ls_chat_template(char **out, const ls_chat *c, const char *tokenizer_file)
{
    char *marks = NULL;
    size_t n = 0;
    ls_str text = { 0 };
    if (!c->file && strcmp(tokenizer_file, "bytes") != 0)
        LS_TRY(ls_file_read(&marks, &n, tokenizer_file));
    if (!c->file)
        ls_str_printf(&text, "{%% set im_end = %s %%}",
                      marks && memmem(marks, n, "<|im_end|>", 10) ? "'<|im_end|>'" : "eos_token");
    ls_str_add(&text, c->text);
    free(marks);
    return ls_sys_have(*out = ls_str_take(&text));
}
uint64_t ls_chat_digest(const ls_chat *c) { return c->digest; }
int32_t ls_chat_end(const ls_chat *c) { return c->end; }

void ls_chat_tokens_release(ls_chat_tokens *t)
{
    free(t->ids.ids);
    free(t->targets);
    *t = (ls_chat_tokens){ 0 };
}

/* ---- a conversation as ids */

/* The parts of a rendered text that are not the template's own: no byte of them becomes a special token. */
static ls_status plain_parts(ls_text_ranges *out, const ls_rendered *r)
{
    out->at = ls_sys_malloc(sizeof *out->at * (r->n + 1));
    if (!out->at)
        return ls_fail(LS_E_MEMORY, "out of memory for a conversation");
    int64_t begin = 0;
    for (size_t i = 0; i < r->n; begin = (int64_t)r->spans[i++].end)
        if (r->spans[i].from != LS_FROM_TEMPLATE)
            out->at[out->n++] = (ls_text_range){ begin, (int64_t)r->spans[i].end };
    return LS_OK;
}

/* Room for the targets of n more tokens. */
static ls_status grow_targets(ls_chat_tokens *t)
{
    if (t->room >= t->ids.n)
        return LS_OK;
    uint8_t *more = ls_sys_realloc(t->targets, (size_t)t->ids.room);
    if (!more)
        return ls_fail(LS_E_MEMORY, "out of memory for a conversation");
    t->targets = more;
    t->room = t->ids.room;
    return LS_OK;
}

/* A token is a target if one of its bytes is, as transformers' masks have it. */
static ls_status mark_tokens(ls_chat_tokens *out, int64_t from, const ls_text_range *at, const uint8_t *bytes)
{
    LS_TRY(grow_targets(out));
    for (int64_t k = from; k < out->ids.n; k++) {
        const ls_text_range range = at[k - from];
        out->targets[k] = range.end > range.begin &&
                          memchr(bytes + range.begin, 1, (size_t)(range.end - range.begin));
    }
    return LS_OK;
}

/* The variables of a line, on top of those of the chat. A deep copy: workers render side by side, and one
 * thread would read jansson's count of references while another writes it. */
static json_t *variables_of(const ls_chat *c, const json_t *more)
{
    json_t *all = json_deep_copy(c->variables);
    if (all && more)
        json_object_update(all, (json_t *)(uintptr_t)more);
    return all;
}

static ls_status render(const ls_chat *c, const json_t *messages, const json_t *tools, const json_t *more,
                        bool prompt, int64_t clock, ls_rendered *out)
{
    json_t *variables = variables_of(c, more);
    if (!variables)
        return ls_fail(LS_E_MEMORY, "out of memory for a conversation");
    const ls_status s = ls_template_render(c->template,
                                           &(ls_conversation){ .messages = messages,
                                                               .tools = tools,
                                                               .variables = variables,
                                                               .add_generation_prompt = prompt,
                                                               .clock = clock },
                                           out);
    json_decref(variables);
    return s;
}

static ls_status encode_rendered(const ls_chat *c, const ls_rendered *r, ls_tokens *ids, ls_text_ranges *at)
{
    ls_text_ranges plain = { 0 };
    ls_status s = plain_parts(&plain, r);
    if (s == LS_OK)
        s = ls_tokenizer_encode_ranges(c->tokenizer, ls_str_text(&r->text), r->text.len, false, plain.n,
                                       plain.at, ids, at);
    free(plain.at);
    return s;
}

/* The message whose turn is the only target; -1: the turns of all assistants from message `first` on. */
static int32_t only_turn(const ls_chat_row *row, ls_train_on train_on)
{
    int32_t last = -1;
    for (size_t i = row->first; i < json_array_size(row->messages); i++) {
        const char *role = json_string_value(json_object_get(json_array_get(row->messages, i), "role"));
        if (!strcmp(role, "assistant") || !strcmp(role, "model"))
            last = (int32_t)i;
    }
    return train_on == LS_TRAIN_ON_LAST ? last : -1;
}

/* bytes[i]: byte i of the text is a target. */
static ls_status mark_bytes(const ls_chat *c, const ls_rendered *r, const ls_chat_row *row,
                            ls_train_on train_on, uint8_t *bytes)
{
    int32_t *turn = ls_sys_malloc(sizeof *turn * (r->text.len + 1));
    if (!turn)
        return ls_fail(LS_E_MEMORY, "out of memory for a conversation");
    const int32_t only = only_turn(row, train_on);
    const ls_status s = ls_rendered_targets(r, c->template, row->messages, ls_str_text(&c->header), c->eos,
                                            c->specials, c->n_specials, turn);
    for (size_t i = 0; i < r->text.len && s == LS_OK; i++)
        bytes[i] = train_on == LS_TRAIN_ON_ALL ||
                   (turn[i] >= (int32_t)row->first && (only < 0 || turn[i] == only));
    free(turn);
    return s;
}

static ls_status encode_messages(const ls_chat *c, const ls_chat_row *row, ls_train_on train_on,
                                 ls_chat_tokens *out)
{
    const int64_t before = out->ids.n;
    ls_rendered r;
    ls_text_ranges at = { 0 };
    LS_TRY(render(c, row->messages, row->tools, row->variables, false, TRAINING_CLOCK, &r));
    uint8_t *bytes = ls_sys_malloc(r.text.len + 1);
    ls_status s = ls_sys_have(bytes);
    if (s == LS_OK)
        s = mark_bytes(c, &r, row, train_on, bytes);
    if (s == LS_OK)
        s = encode_rendered(c, &r, &out->ids, &at);
    if (s == LS_OK)
        s = mark_tokens(out, before, at.at, bytes);
    free(bytes);
    free(at.at);
    ls_rendered_release(&r);
    return s;
}

/* Two texts: no template, and special tokens in them count, as TRL has it. The completion ends with the end
 * token. */
static ls_status encode_texts(const ls_chat *c, const ls_chat_row *row, ls_train_on train_on,
                              ls_chat_tokens *out)
{
    const int64_t before = out->ids.n;
    const size_t prompt = json_string_length(row->prompt);
    ls_str text = { 0 };
    ls_text_ranges at = { 0 };
    ls_str_add_n(&text, json_string_value(row->prompt), prompt);
    ls_str_add_n(&text, json_string_value(row->completion), json_string_length(row->completion));
    uint8_t *bytes = ls_sys_malloc(text.len + 1);
    ls_status s = bytes ? ls_str_status(&text) : ls_sys_have(bytes);
    if (s == LS_OK)
        s = ls_tokenizer_encode_ranges(c->tokenizer, ls_str_text(&text), text.len, true, 0, NULL, &out->ids,
                                       &at);
    for (size_t i = 0; i < text.len && bytes; i++)
        bytes[i] = train_on == LS_TRAIN_ON_ALL || i >= prompt;
    if (s == LS_OK)
        s = mark_tokens(out, before, at.at, bytes);
    const bool ended = s == LS_OK && out->ids.n > before && out->ids.ids[out->ids.n - 1] == c->end;
    if (s == LS_OK && !ended)
        s = ls_tokens_add(&out->ids, c->end);
    if (s == LS_OK)
        s = grow_targets(out);
    if (s == LS_OK)
        out->targets[out->ids.n - 1] = 1;
    ls_str_release(&text);
    free(bytes);
    free(at.at);
    return s;
}

ls_status ls_chat_encode(const ls_chat *c, const json_t *line, ls_train_on train_on, ls_chat_tokens *out)
{
    ls_chat_row row;
    LS_TRY(ls_chat_row_read(&row, line));
    const ls_status s = (row.messages ? encode_messages : encode_texts)(c, &row, train_on, out);
    ls_chat_row_release(&row);
    return s;
}

ls_status ls_chat_prompt(const ls_chat *c, const json_t *messages, int64_t clock, ls_tokens *out)
{
    ls_rendered r;
    ls_text_ranges at = { 0 };
    LS_TRY(render(c, messages, NULL, NULL, true, clock, &r));
    const ls_status s = encode_rendered(c, &r, out, &at);
    free(at.at);
    ls_rendered_release(&r);
    return s;
}

ls_status ls_chat_turn_end(const ls_chat *c, int32_t *out)
{
    ls_chat_tokens t = { 0 };
    json_t *line = json_pack("{s[{ss ss} {ss ss}]}", "messages", "role", "user", "content", "Hi", "role",
                             "assistant", "content", "Hello");
    ls_status s = ls_sys_have(line);
    *out = -1;
    if (s == LS_OK)
        s = ls_chat_encode(c, line, LS_TRAIN_ON_ASSISTANT, &t);
    for (int64_t k = 0; s == LS_OK && k < t.ids.n; k++)
        if (t.targets[k] && (ls_tokenizer_is_special(c->tokenizer, t.ids.ids[k]) || t.ids.ids[k] == c->end))
            *out = t.ids.ids[k];
    json_decref(line);
    ls_chat_tokens_release(&t);
    return s == LS_E_FORMAT ? LS_OK : s; /* a template may refuse so short a conversation */
}
