/* recipe_read.c - reads files, includes and --set into ls_recipe_state.set. When a key is set more than once,
 * the last one counts. Checks that each key is in the table; recipe_value.c checks the values. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/sys.h"
#include "recipe_fields.h"
#include "recipe_read.h"
#include "recipe_use.h"

#define MAX_INCLUDES 16

typedef struct source {
    const char *name;            /* of a file; else the text in front of the key: "--set" */
    bool lines;                  /* a file: messages have the number of the line */
    bool recorded;               /* the recipe of a run or a checkpoint */
    const struct source *parent; /* the file that includes this one, or NULL */
    ls_str *unknown;             /* of a text: the messages about its unknown keys; else NULL */
} source;

/* Whether a file's name is that of data. */
static bool is_data(const char *path)
{
    static const char *const ENDS[] = { ".csv", ".tsv",   ".csv.gz",  ".npy",  ".npz", ".h5",  ".nc",
                                        ".txt", ".jsonl", ".parquet", ".xlsx", ".jpg", ".png", ".gz" };
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++)
        if (n > strlen(ENDS[i]) && !strcasecmp(path + n - strlen(ENDS[i]), ENDS[i]))
            return true;
    return false;
}

static const char *where_text(const source *from, ls_arena *a, int line, const char *key)
{
    return from->lines ? ls_arena_printf(a, "%s:%d: %s", from->name, line, key)
                       : ls_arena_printf(a, "%s %s", from->name, key);
}

static ls_status unknown_key(const source *from, ls_arena *a, int line, const char *key, const ls_yaml *value)
{
    const char *where = where_text(from, a, line, key);
    if (ls_key_find(key) >= 0)
        return ls_fail(LS_E_USAGE, "%s: unknown key; write it as nested YAML, not with a dot", where);
    const ls_hint hint = ls_hint_key(key, value->kind == LS_YAML_SCALAR ? value->text : NULL, a);
    if (hint.ours)
        return ls_fail(LS_E_USAGE, "%s: unknown key; did you mean %s?%s%s%s", where, hint.ours,
                       hint.how ? " (" : "", hint.how ? hint.how : "", hint.how ? ")" : "");
    if (hint.how)
        return ls_fail(LS_E_USAGE, "%s: unknown key; %s", where, hint.how);
    return ls_fail(LS_E_USAGE,
                   "%s: unknown key (docs/recipe.md, or `lockstep recipe --reference`, lists all)", where);
}

/* Whether a name in a section that there is not leads to a key: then the names say more than the section. */
static bool leads_inside(ls_arena *a, const char *key, const ls_yaml *value)
{
    for (const ls_yaml *c = value->kind == LS_YAML_MAP ? value->child : NULL; c; c = c->next) {
        const char *inner = ls_arena_printf(a, "%s.%s", key, c->key);
        if (ls_foreign_name_find(inner) ||
            (ls_hint_is_their_section(key) && ls_hint_key(inner, NULL, a).ours))
            return true;
    }
    return false;
}

/* A text with names of another program has many: one message says all. */
static ls_status note_unknown_key(const source *from, ls_arena *a, int line, const char *key,
                                  const ls_yaml *value)
{
    if (leads_inside(a, key, value)) {
        for (const ls_yaml *c = value->child; c; c = c->next)
            LS_TRY(note_unknown_key(from, a, c->key_line, ls_arena_printf(a, "%s.%s", key, c->key),
                                    ls_yaml_real(c)));
        return LS_OK;
    }
    const ls_status s = unknown_key(from, a, line, key, value);
    if (s != LS_E_USAGE || !from->unknown)
        return s;
    ls_str_printf(from->unknown, "%s%s", from->unknown->len ? "\n" : "", ls_error_message());
    return LS_OK;
}

static const char *origin_text(const source *from, ls_arena *a, int line, const char *env)
{
    const char *origin = from->lines ? ls_arena_printf(a, "%s:%d", from->name, line) : from->name;
    return env ? ls_arena_printf(a, "%s (environment %s)", origin, env) : origin;
}

/* Notes where each value of a map of any keys was set. */
static void note_places(const source *from, ls_arena *a, ls_yaml *n, int line)
{
    const ls_yaml *v = ls_yaml_real(n);
    n->place = from->lines ? ls_arena_printf(a, "%s:%d: ", from->name, line)
                           : ls_arena_printf(a, "%s ", from->name);
    n->origin = origin_text(from, a, line, v->env);
    for (ls_yaml *c = v->child; c; c = c->next)
        note_places(from, a, c, v->kind == LS_YAML_MAP ? c->key_line : c->line);
}

static void recipe_put(ls_recipe_state *state, const source *from, int row, const ls_yaml *value, int line)
{
    const char *env = value->env;
    for (const ls_yaml *c = value->child; c && !env; c = c->next)
        env = ls_yaml_real(c)->env;
    const char *origin = origin_text(from, &state->arena, line, env);
    const char *key = ls_key_at(row)->key;
    if (ls_key_at(row)->kind == LS_KEY_TREE && state->set[row].value)
        ls_yaml_keep_names((ls_yaml *)(uintptr_t)value, state->set[row].value);
    state->set[row] = (ls_setting){
        .key = key,
        .value = value,
        .where = where_text(from, &state->arena, line, key),
        .origin = origin,
        .recorded = from->recorded,
        .needed = !ls_key_at(row)->may_change || ls_key_at(row)->needed,
    };
}

static bool is_null(const ls_yaml *n)
{
    return n->kind == LS_YAML_SCALAR && !n->quoted &&
           (!*n->text || !strcmp(n->text, "~") || !strcmp(n->text, "null"));
}

/* "data.train.x", "model.config.hidden": sets one value in a map of names of one's own. *done: false, it is
 * no such key. */
static ls_status apply_inside(ls_recipe_state *state, const source *from, const char *key,
                              const ls_yaml *value, int line, bool *done)
{
    *done = false;
    for (int i = 0; i < ls_key_count() && !*done; i++) {
        const size_t n = strlen(ls_key_at(i)->key);
        const ls_yaml *before = state->set[i].value;
        *done = (ls_key_at(i)->kind == LS_KEY_TREE || ls_key_is_named(ls_key_at(i))) &&
                !strncmp(ls_key_at(i)->key, key, n) && key[n] == '.';
        if (*done && before && before->kind == LS_YAML_LIST)
            return ls_fail(LS_E_USAGE, "%s: %s is a list; set all of it, as in --set '%s=[{...}]'",
                           where_text(from, &state->arena, line, key), ls_key_at(i)->key, ls_key_at(i)->key);
        if (*done && ls_key_at(i)->kind == LS_KEY_TREE)
            note_places(from, &state->arena, (ls_yaml *)(uintptr_t)value, line);
        const ls_yaml *all = *done ? ls_yaml_with(&state->arena, before, key + n + 1, value) : NULL;
        if (*done && !all)
            return ls_arena_status(&state->arena);
        if (*done)
            recipe_put(state, from, i, all, line);
    }
    return LS_OK;
}

/* Applies one key, or a map of keys below it. An empty section ("train:" alone) has no effect. */
static ls_status apply(ls_recipe_state *state, const source *from, const char *key, const ls_yaml *node,
                       int line)
{
    const ls_yaml *value = ls_yaml_real(node);
    LS_TRY(ls_arena_status(&state->arena)); /* else the key may be cut short */
    int row = ls_key_find(key);
    if (row >= 0) {
        if (ls_key_at(row)->kind == LS_KEY_TREE)
            note_places(from, &state->arena, (ls_yaml *)(uintptr_t)value, line);
        recipe_put(state, from, row, value, line);
        return LS_OK;
    }
    if (*key && !ls_key_is_section(key)) {
        bool done;
        LS_TRY(apply_inside(state, from, key, value, line, &done));
        return done ? LS_OK : note_unknown_key(from, &state->arena, line, key, value);
    }
    if (is_null(value))
        return LS_OK;
    if (!strcmp(key, "data.augment") && value->kind == LS_YAML_SCALAR && !strcmp(value->text, "none")) {
        for (int i = 0; i < ls_key_count(); i++)
            if (!strncmp(ls_key_at(i)->key, "data.augment.", strlen("data.augment.")))
                state->set[i] = (ls_setting){ 0 }; /* the defaults change nothing */
        return LS_OK;
    }
    if (value->kind != LS_YAML_MAP && !*key && from->lines && is_data(from->name))
        return ls_fail(LS_E_USAGE,
                       "%s holds data and is not a recipe: a recipe names it in its section `data` "
                       "(docs/start/own-data.md)",
                       from->name);
    if (value->kind != LS_YAML_MAP)
        return ls_fail(LS_E_USAGE, "%s: keys are needed here, such as `%s`",
                       where_text(from, &state->arena, line, *key ? key : "the recipe"),
                       ls_hint_section(*key ? key : "model",
                                       value->kind == LS_YAML_SCALAR ? value->text : NULL, &state->arena));
    for (const ls_yaml *c = value->child; c; c = c->next) {
        if (!*key && !strcmp(c->key, "include"))
            continue;
        if (strchr(c->key, '.'))
            LS_TRY(note_unknown_key(from, &state->arena, c->key_line, c->key, ls_yaml_real(c)));
        else
            LS_TRY(apply(state, from, *key ? ls_arena_printf(&state->arena, "%s.%s", key, c->key) : c->key, c,
                         c->key_line));
    }
    return LS_OK;
}

/* Whether it is RUN/recipe.yaml. */
static bool is_of_run(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? ls_sys_strndup(path, (size_t)(slash - path) + 1) : NULL;
    const bool is = !strcmp(slash ? slash + 1 : path, "recipe.yaml") && (dir || !slash) &&
                    ls_file_in(dir ? dir : ".", "result.json");
    free(dir);
    return is;
}

static ls_status apply_file(ls_recipe_state *state, const char *path_or_name, const source *parent);

static ls_status apply_include(ls_recipe_state *state, const source *from, const ls_yaml *value, int line)
{
    if (value->kind != LS_YAML_SCALAR || !*value->text)
        return ls_fail(LS_E_USAGE, "%s:%d: include: a file name is needed here", from->name, line);
    const char *slash = strrchr(from->name, '/');
    const char *path = value->text;
    if (*path != '/' && slash) /* relative to the file that includes it, unless it is a bundled recipe */
        path = ls_arena_printf(&state->arena, "%.*s/%s", (int)(slash - from->name), from->name, path);
    if (!ls_file_exists(path))
        path = ls_recipe_bundled_text(value->text) ? value->text : path;
    const ls_status s = apply_file(state, path, from);
    return s == LS_OK ? LS_OK
                      : ls_fail_in(s == LS_E_MEMORY ? s : LS_E_USAGE, "%s:%d: include", from->name, line);
}

/* Reads the included files first, so that settings of the including file win. */
static ls_status apply_text(ls_recipe_state *state, const char *text, size_t size, const source *from)
{
    ls_yaml *root;
    LS_TRY(ls_yaml_parse(&root, &state->arena, text, size, from->name));
    LS_TRY(ls_yaml_expand(root, &state->arena, from->name, state->record));
    if (!root)
        return LS_OK;
    for (const ls_yaml *c = root->kind == LS_YAML_MAP ? root->child : NULL; c; c = c->next) {
        const ls_yaml *value = ls_yaml_real(c);
        if (strcmp(c->key, "include"))
            continue;
        if (value->kind != LS_YAML_LIST)
            LS_TRY(apply_include(state, from, value, c->key_line));
        else
            for (const ls_yaml *item = value->child; item; item = item->next)
                LS_TRY(apply_include(state, from, ls_yaml_real(item), item->line));
    }
    ls_str unknown = { 0 };
    source with = *from;
    with.unknown = &unknown;
    ls_status s = apply(state, &with, "", root, root->line);
    if (s == LS_OK && (s = ls_str_status(&unknown)) == LS_OK && unknown.len)
        s = ls_fail(LS_E_USAGE, "%s", ls_str_text(&unknown));
    ls_str_release(&unknown);
    return s;
}

static ls_status no_such_recipe(const char *name)
{
    const char *names[64];
    int n = 0;
    ls_str all = { 0 };
    for (const char *b; n < 64 && (b = ls_recipe_bundled(n, NULL, NULL)); n++) {
        names[n] = b;
        ls_str_printf(&all, "%s%s", n ? ", " : "", b);
    }
    const char *near = ls_nearest_name(name, names, n);
    char *here = ls_recipe_near(name);
    ls_status s = here   ? ls_fail(LS_E_USAGE, "%s: no such recipe; did you mean %s?", name, here)
                  : near ? ls_fail(LS_E_USAGE, "%s: no such recipe; did you mean the bundled %s?", name, near)
                         : ls_fail(LS_E_USAGE, "%s: no such file, nor a bundled recipe (there are %s)", name,
                                   ls_str_text(&all));
    free(here);
    ls_str_release(&all);
    return s;
}

static ls_status is_folder(const char *path)
{
    char *own = ls_path_join(path, "recipe.yaml"), *near = NULL;
    const bool run = own && !access(own, F_OK);
    if (!run)
        near = ls_recipe_near(path);
    const ls_status s =
        run    ? ls_fail(LS_E_USAGE, "%s is a folder, not a recipe; a run keeps its own in %s", path, own)
        : near ? ls_fail(LS_E_USAGE, "%s is a folder, not a recipe; did you mean %s?", path, near)
               : ls_fail(LS_E_USAGE, "%s is a folder, not a recipe: name a file FILE.yaml", path);
    free(own);
    free(near);
    return s;
}

static ls_status apply_file(ls_recipe_state *state, const char *path, const source *parent)
{
    int depth = 0;
    for (const source *s = parent; s; s = s->parent, depth++)
        if (!strcmp(s->name, path))
            return ls_fail(LS_E_USAGE, "%s includes itself%s", path,
                           depth ? " through the files named before" : "");
    if (depth > MAX_INCLUDES)
        return ls_fail(LS_E_USAGE, "%s: more than %d files include one another", path, MAX_INCLUDES);
    struct stat st;
    const source from = { .name = ls_arena_strdup(&state->arena, path),
                          .lines = true,
                          .recorded = state->record || is_of_run(path),
                          .parent = parent };
    LS_TRY(ls_arena_status(&state->arena));
    if (stat(path, &st) || S_ISDIR(st.st_mode)) {
        const char *bundled = ls_recipe_bundled_text(path);
        if (bundled) {
            const source builtin = { .name = ls_arena_printf(&state->arena, "bundled %s", path),
                                     .lines = true,
                                     .parent = &from };
            return apply_text(state, bundled, strlen(bundled), &builtin);
        }
        if (!stat(path, &st))
            return is_folder(path);
        return no_such_recipe(path);
    }
    if (!S_ISREG(st.st_mode))
        return ls_fail(LS_E_USAGE, "%s is not a regular file", path);
    if (st.st_size > LS_YAML_MAX_BYTES)
        return ls_fail(LS_E_USAGE, "%s: %lld bytes is too large for a recipe (limit %d)", path,
                       (long long)st.st_size, LS_YAML_MAX_BYTES);
    char *text;
    size_t size;
    LS_TRY(ls_file_read(&text, &size, path));
    ls_status s = apply_text(state, text, size, &from);
    free(text);
    return s;
}

ls_status ls_recipe_apply_file(ls_recipe_state *state, const char *path_or_name)
{
    return apply_file(state, path_or_name, NULL);
}

ls_status ls_recipe_apply_text(ls_recipe_state *state, const char *text, size_t size, const char *name)
{
    const source from = { .name = ls_arena_strdup(&state->arena, name),
                          .lines = true,
                          .recorded = state->record };
    return apply_text(state, text, size, &from);
}

ls_status ls_recipe_apply_value(ls_recipe_state *state, const char *key, const char *yaml, const char *origin)
{
    const source from = { .name = ls_arena_strdup(&state->arena, origin) };
    ls_yaml *value;
    const char *where = where_text(&from, &state->arena, 0, key);
    LS_TRY(ls_yaml_parse(&value, &state->arena, yaml, strlen(yaml), where));
    LS_TRY(ls_yaml_expand(value, &state->arena, where, false));
    if (!value) { /* nothing after the '=': an empty text */
        value = LS_ARENA_NEW(&state->arena, ls_yaml);
        LS_TRY(ls_sys_have(value));
        value->text = "";
    }
    LS_TRY(ls_arena_status(&state->arena));
    if (!*key)
        return ls_fail(LS_E_USAGE, "%s: a key is missing before '='", origin);
    return apply(state, &from, ls_arena_strdup(&state->arena, key), value, 0);
}
