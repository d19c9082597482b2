/* args.c - parses the command line into options and plain words: --name VALUE, --name=VALUE, -q, -vv. `--`
 * ends the options; so does the name of a user's program (`launch`). */
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/sys.h"
#include "cli.h"
#include "recipe/recipe_read.h"
#include "setup/folder.h"

const ls_option_row LS_COMMON_OPTIONS[] = {
    { "--quiet", LS_OPTION_FLAG, .letter = 'q', .help = "only warnings and errors" },
    { "--verbose", LS_OPTION_FLAG, .letter = 'v', .repeat = true,
      .help = "more messages; twice: everything" },
    { "--log", LS_OPTION_CHOICE, NULL, LS_OPTION_AT(ls_terminal_opts, json), "text",
      .words = (const char *const[]){ "text", "json", NULL }, .help = "format of messages" },
    { "--no-progress", LS_OPTION_FLAG, NULL, LS_OPTION_AT(ls_terminal_opts, no_progress),
      .help = "no progress line on a terminal" },
    { "--help", LS_OPTION_FLAG, .letter = 'h', .help = "this text" },
    { 0 }
};

const ls_option_row LS_RECIPE_OPTIONS[] = {
    { "--set", LS_OPTION_TEXT, "KEY=VALUE", .key = "", .repeat = true,
      .help = "change a key of the recipe, as train.epochs=3; may be repeated" },
    { "--workers", LS_OPTION_TEXT, "N", .key = "workers", .help = "number of ranks" },
    { "--module", LS_OPTION_FILE, "FILE", .key = "model.path",
      .help = "the shared object that builds the model" },
    { 0 }
};

static const ls_option_row *find_letter(const ls_option_row *list, char letter)
{
    for (; list->name; list++)
        if (list->letter == letter)
            return list;
    return NULL;
}

static const ls_option_row *find_option(const ls_verb *verb, const char *name, size_t n)
{
    const ls_option_row *o = ls_option_find(verb->options, name, n);
    if (!o && verb->recipe)
        o = ls_option_find(LS_RECIPE_OPTIONS, name, n);
    return o ? o : ls_option_find(LS_COMMON_OPTIONS, name, n);
}

/* An option that is a key of the recipe, or another program's name for one: --batch-size, --nproc_per_node.
 * The verb's own option for that key comes first. LS_OK: it is no such name. */
static ls_status key_as_option(const ls_verb *verb, const char *name)
{
    ls_arena a;
    ls_arena_init(&a);
    const ls_hint h = ls_hint_known_key(name + strspn(name, "-"), NULL, &a);
    const char *ours = h.ours ? h.ours : "", *dot = strrchr(ours, '.');
    char *option = ls_arena_printf(&a, "--%s", dot ? dot + 1 : ours);
    for (char *p = option; *p; p++)
        *p = *p == '_' ? '-' : *p;
    const char *how = h.how ? ls_arena_printf(&a, " (%s)", h.how) : "";
    const size_t key = strcspn(ours, ":"); /* "KEY", or "KEY: VALUE" */
    const char *value = ours[key] ? ours + key + 2 : "VALUE";
    ls_status s = ls_arena_status(&a);
    if (s == LS_OK && *ours && find_option(verb, option, strlen(option)))
        s = ls_fail(LS_E_USAGE, "lockstep %s has no option %s; did you mean %s?%s", verb->name, name, option,
                    how);
    else if (s == LS_OK && *ours && verb->recipe)
        s = ls_fail(LS_E_USAGE, "lockstep %s has no option %s; did you mean --set %.*s=%s?%s", verb->name,
                    name, (int)key, ours, value, how);
    else if (s == LS_OK && !*ours && h.how && verb->recipe)
        s = ls_fail(LS_E_USAGE, "lockstep %s has no option %s; %s", verb->name, name, h.how);
    ls_arena_release(&a);
    return s;
}

static ls_status unknown_option(const ls_verb *verb, const char *name)
{
    const char *names[64];
    int n = 0;
    const ls_option_row *const lists[] = { verb->options, verb->recipe ? LS_RECIPE_OPTIONS : NULL,
                                           LS_COMMON_OPTIONS };
    for (int l = 0; l < 3; l++)
        for (const ls_option_row *o = lists[l]; o && o->name && n < 64; o++)
            names[n++] = o->name;
    LS_TRY(key_as_option(verb, name));
    const char *near = ls_nearest_name(name, names, n);
    if (near)
        return ls_fail(LS_E_USAGE, "lockstep %s has no option %s; did you mean %s?", verb->name, name, near);
    return ls_fail(LS_E_USAGE, "lockstep %s has no option %s (lockstep %s --help lists them)", verb->name,
                   name, verb->name);
}

/* --workers 4 is short for --set workers=4, and so on. */
static ls_status remember(ls_args *a, const ls_option_row *o, const char *value)
{
    if (a->n_given == LS_MAX_ARGS)
        return ls_fail(LS_E_USAGE, "more than %d options", LS_MAX_ARGS);
    a->given[a->n_given++] = (ls_given){ o, value };
    if (o->key && *o->key) {
        char *set = ls_sys_text("%s=%s", o->key, value);
        LS_TRY(ls_sys_have(set));
        a->sets[a->n_sets++] = a->made[a->n_made++] = set;
    } else if (o->key) {
        a->sets[a->n_sets++] = value;
    }
    return LS_OK;
}

static ls_status needs_value(const ls_option_row *o)
{
    char room[256];
    ls_str usage = LS_STR_IN(room);
    ls_option_usage(&usage, o);
    const ls_status s = ls_fail(LS_E_USAGE, "%s needs a value: %s", o->name, ls_str_text(&usage));
    ls_str_release(&usage);
    return s;
}

/* Returns the number of words that the option used; 0 on an error. */
static int take_option(ls_args *a, const ls_verb *verb, int n, char **words, ls_status *s)
{
    const char *word = words[0];
    if (word[1] != '-') { /* -q, -vv */
        for (const char *p = word + 1; *p; p++) {
            const char name[] = { '-', *p, 0 };
            const ls_option_row *o = find_letter(LS_COMMON_OPTIONS, *p);
            *s = o ? remember(a, o, NULL) : unknown_option(verb, name);
            if (*s != LS_OK)
                return 0;
        }
        return 1;
    }
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const ls_option_row *o = find_option(verb, word, length);
    if (!o) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)length, word);
        *s = unknown_option(verb, name);
        return 0;
    }
    const bool flag = o->kind == LS_OPTION_FLAG;
    if (equals && flag) {
        *s = ls_fail(LS_E_USAGE, "%s takes no value", o->name);
        return 0;
    }
    /* "[X]" may be left out: the next word is its value only if it is a number or a range of numbers */
    bool optional = o->value && *o->value == '[';
    if (optional && !equals && n > 1 && words[1][0] && strspn(words[1], "0123456789:") == strlen(words[1])) {
        *s = remember(a, o, words[1]);
        return *s == LS_OK ? 2 : 0;
    }
    if (equals || flag || optional) {
        *s = remember(a, o, equals ? equals + 1 : NULL);
        return *s == LS_OK ? 1 : 0;
    }
    if (n < 2) {
        *s = needs_value(o);
        return 0;
    }
    *s = remember(a, o, words[1]);
    return *s == LS_OK ? 2 : 0;
}

/* For a verb that uses trained weights, the word may name weights in LOCKSTEP_DATA or a model that `lockstep
 * get` has loaded, as model.init does: their path takes the place of the word. */
static ls_status find_model(ls_args *a)
{
    const char *words = a->verb->words;
    if (!a->n_words || a->n_made == LS_MAX_ARGS || (!strstr(words, "CHECKPOINT") && strcmp(words, "PATH")) ||
        ls_recipe_bundled_text(a->words[0]))
        return LS_OK;
    char *found;
    LS_TRY(ls_folder_look(&found, a->words[0]));
    if (found)
        a->words[0] = a->made[a->n_made++] = found;
    return LS_OK;
}

ls_status ls_args_parse(ls_args *out, const ls_verb *verb, int n, char **words)
{
    *out = (ls_args){ .verb = verb };
    ls_status s = LS_OK;
    bool options = true;
    for (int i = 0; i < n;) {
        const char *word = words[i];
        if (options && !strcmp(word, "--")) {
            options = false;
            i++;
        } else if (options && *word == '-' && word[1]) {
            int taken = take_option(out, verb, n - i, words + i, &s);
            if (!taken)
                return s;
            i += taken;
        } else if (!strncmp(verb->words, "[--]", 4)) {
            out->program = words + i;
            out->words[out->n_words++] = words[i];
            break;
        } else {
            if (out->n_words == LS_MAX_ARGS)
                return ls_fail(LS_E_USAGE, "more than %d words", LS_MAX_ARGS);
            out->words[out->n_words++] = words[i++];
        }
    }
    if (ls_args_has(out, "--help"))
        return LS_OK;
    for (int i = 0; i < out->n_words; i++)
        LS_TRY(ls_path_check(verb->name, out->words[i]));
    if (out->n_words < verb->min_words)
        return ls_fail(LS_E_USAGE, "lockstep %s needs %s (lockstep %s --help)", verb->name, verb->words,
                       verb->name);
    if (out->n_words > verb->max_words) {
        const char *word = out->words[verb->max_words];
        const bool to = find_option(verb, "--to", strlen("--to")) && !ls_args_has(out, "--to");
        return ls_fail(LS_E_USAGE, "lockstep %s: unexpected argument '%s'%s%s%s (usage: lockstep %s %s)",
                       verb->name, word, to ? "; did you mean --to " : "", to ? word : "", to ? "?" : "",
                       verb->name, verb->words);
    }
    return find_model(out);
}

void ls_args_release(ls_args *a)
{
    while (a->n_made)
        free(a->made[--a->n_made]);
}

int ls_args_count(const ls_args *a, const char *option)
{
    int n = 0;
    for (int i = 0; i < a->n_given; i++)
        n += !strcmp(a->given[i].option->name, option);
    return n;
}

bool ls_args_has(const ls_args *a, const char *option) { return ls_args_count(a, option) > 0; }

const char *ls_args_value(const ls_args *a, const char *option)
{
    const char *value = NULL;
    for (int i = 0; i < a->n_given; i++)
        if (!strcmp(a->given[i].option->name, option))
            value = a->given[i].value;
    return value;
}

ls_recipe_arg ls_args_recipe(const ls_args *a)
{
    return (ls_recipe_arg){ .name = a->words[0], .n_sets = a->n_sets, .sets = a->sets };
}
