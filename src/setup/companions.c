/* companions.c - see companions.h. */
#include "companions.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/adapter.h"
#include "data/chat.h"
#include "data/tokenize.h"
#include "recipe/data_row.h"
#include "recipe/recipe_read.h"
#include "text/bytes.h"

static const char GENERATION[] = "generation_config.json";

static const char *const NAMES[] = { "tokenizer.json",
                                     "tokenizer_config.json",
                                     "special_tokens_map.json",
                                     "added_tokens.json",
                                     "chat_template.jinja",
                                     "chat_template.json",
                                     "vocab.json",
                                     "merges.txt",
                                     "vocab.txt",
                                     "spiece.model",
                                     "tokenizer.model",
                                     GENERATION };
enum { N_NAMES = sizeof NAMES / sizeof NAMES[0] };

bool ls_companion_is(const char *name)
{
    bool is = !strcmp(name, LS_ADAPTER_CONFIG);
    for (int i = 0; i < N_NAMES; i++)
        is |= !strcmp(name, NAMES[i]);
    return is;
}

static bool has(const ls_companions *c, const char *name)
{
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->at[i].name, name))
            return true;
    return false;
}

/* Takes over `path` and `text`. */
static ls_status add(ls_companions *c, const char *name, char *path, char *text)
{
    LS_CHECK(c->n < LS_MOST_COMPANIONS, "%d files", c->n);
    ls_beside *b = &c->at[c->n++];
    *b = (ls_beside){ ls_sys_strdup(name), path, text };
    return ls_sys_have(b->name && (path || text) ? b : NULL);
}

ls_status ls_companions_add_text(ls_companions *c, const char *name, char *text)
{
    return add(c, name, NULL, text);
}

static ls_status add_of(ls_companions *c, const char *dir, const char *name)
{
    return ls_file_in(dir, name) && !has(c, name) ? add(c, name, ls_path_join(dir, name), NULL) : LS_OK;
}

static ls_status add_all(ls_companions *c, const char *dir)
{
    for (int i = 0; i < N_NAMES; i++)
        LS_TRY(add_of(c, dir, NAMES[i]));
    return LS_OK;
}

ls_status ls_companions_in(ls_companions *c, const char *dir)
{
    *c = (ls_companions){ 0 };
    return add_all(c, dir);
}

/* The tokenizer `bytes` has no file; others need one. */
static ls_status add_bytes(ls_companions *c)
{
    LS_TRY(add(c, "tokenizer.json", NULL, ls_tokenizer_bytes_json()));
    return add(c, "tokenizer_config.json", NULL,
               ls_sys_strdup("{\"tokenizer_class\": \"PreTrainedTokenizerFast\", "
                             "\"eos_token\": \"<|endoftext|>\"}\n"));
}

/* A file has the others of its folder beside it, unless it has a name of its own. */
static ls_status add_file(ls_companions *c, const char *file)
{
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    if (!ls_companion_is(name))
        return add(c, ls_ends_with(name, ".model") ? "spiece.model" : "tokenizer.json", ls_sys_strdup(file),
                   NULL);
    char *dir = slash ? ls_sys_strndup(file, slash == file ? 1 : (size_t)(slash - file)) : ls_sys_strdup(".");
    const ls_status s = dir ? add_all(c, dir) : ls_sys_have(dir);
    free(dir);
    return s;
}

static ls_status add_generation(ls_companions *c, const char *init)
{
    char *dir = NULL;
    if (!*init || !strcmp(init, "random"))
        return LS_OK;
    LS_TRY(ls_init_find(&dir, init));
    const ls_status s = dir ? add_of(c, dir, GENERATION) : LS_OK;
    free(dir);
    return s;
}

/* The template of the conversations that the model learns. It comes first, in place of the tokenizer's own.
 */
static ls_status add_template(ls_companions *c, const ls_recipe *r, const char *file)
{
    ls_chat_options o;
    ls_chat *chat = NULL;
    char *folder = NULL, *text = NULL;
    if (strcmp(r->data.type, "chat") != 0)
        return LS_OK;
    ls_status s = ls_recipe_chat(&o, &folder, r, &(ls_text_options){ LS_TEXT_DEFAULTS });
    if (s == LS_OK)
        s = ls_chat_make(&chat, NULL, file, r->data.tokenizer, &o);
    if (s == LS_OK)
        s = ls_chat_template(&text, chat, file);
    if (s == LS_OK)
        s = add(c, "chat_template.jinja", NULL, text);
    ls_chat_free(&chat);
    free(folder);
    return s;
}

ls_status ls_companions_of(ls_companions *c, const ls_recipe *r)
{
    const char *name = r->data.tokenizer;
    char *file = NULL;
    *c = (ls_companions){ 0 };
    if (!*name)
        return LS_OK;
    LS_TRY(add_generation(c, r->model.init));
    LS_TRY(ls_tokenizer_find(&file, name));
    ls_status s = add_template(c, r, file);
    if (s == LS_OK)
        s = strcmp(file, "bytes") ? add_file(c, file) : add_bytes(c);
    free(file);
    return s;
}

void ls_companions_release(ls_companions *c)
{
    for (int i = 0; i < c->n; i++) {
        free(c->at[i].name);
        free(c->at[i].path);
        free(c->at[i].text);
    }
    *c = (ls_companions){ 0 };
}
