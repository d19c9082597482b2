/* args.c - parses the command line into options and plain words: --name VALUE, --name=VALUE, -q, -vv. `--`
 * ends the options; so does the name of a user's program (`launch`). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/c_locale.h"
#include "base/file.h"
#include "base/sys.h"
#include "cli.h"
#include "recipe/recipe_read.h"
#include "setup/folder.h"

const ls_option LS_COMMON_OPTIONS[] = { { "--quiet", 'q', NULL, "only warnings and errors" },
                                        { "--verbose", 'v', NULL, "more messages; twice: everything" },
                                        { "--log", 0, "json|text", "format of messages (default text)" },
                                        { "--no-progress", 0, NULL, "no progress line on a terminal" },
                                        { "--help", 'h', NULL, "this text" },
                                        { 0 } };

const ls_option LS_RECIPE_OPTIONS[] = { { "--set", 0, "KEY=VALUE",
                                          "change a key of the recipe, as train.epochs=3; may be repeated" },
                                        { "--workers", 0, "N", "short for --set workers=N" },
                                        { "--module", 0, "FILE",
                                          "the shared object that builds the model: short for --set "
                                          "model.path=FILE" },
                                        { 0 } };

static const ls_option *find_in(const ls_option *list, const char *name, size_t n, char letter)
{
    for (; list && list->name; list++)
        if (letter ? list->letter == letter : strlen(list->name) == n && !strncmp(list->name, name, n))
            return list;
    return NULL;
}

static const ls_option *find_option(const ls_verb *verb, const char *name, size_t n, char letter)
{
    const ls_option *o = find_in(verb->options, name, n, letter);
    if (!o && verb->recipe)
        o = find_in(LS_RECIPE_OPTIONS, name, n, letter);
    return o ? o : find_in(LS_COMMON_OPTIONS, name, n, letter);
}

static ls_status unknown_option(const ls_verb *verb, const char *name)
{
    const char *names[64];
    int n = 0;
    const ls_option *const lists[] = { verb->options, verb->recipe ? LS_RECIPE_OPTIONS : NULL,
                                       LS_COMMON_OPTIONS };
    for (int l = 0; l < 3; l++)
        for (const ls_option *o = lists[l]; o && o->name && n < 64; o++)
            names[n++] = o->name;
    const char *near = ls_nearest_name(name, names, n);
    if (near)
        return ls_fail(LS_E_USAGE, "lockstep %s has no option %s; did you mean %s?", verb->name, name, near);
    return ls_fail(LS_E_USAGE, "lockstep %s has no option %s (lockstep %s --help lists them)", verb->name,
                   name, verb->name);
}

/* --module of export is another one: which tensors. */
static bool is_of_recipes(const ls_option *o)
{
    return o == find_in(LS_RECIPE_OPTIONS, o->name, strlen(o->name), 0);
}

/* --workers 4 is short for --set workers=4, and so on. */
static ls_status remember(ls_args *a, const ls_option *o, const char *value)
{
    static const char *const SHORT[][2] = { { "--workers", "workers" },
                                            { "--cores-per-worker", "cores_per_worker" },
                                            { "--workers-per-host", "workers_per_host" },
                                            { "--threads", "threads" },
                                            { "--module", "model.path" },
                                            { "--isa", "isa" } };
    if (a->n_given == LS_MAX_ARGS)
        return ls_fail(LS_E_USAGE, "more than %d options", LS_MAX_ARGS);
    a->given[a->n_given++] = (ls_given){ o, value };
    if (!strcmp(o->name, "--set"))
        a->sets[a->n_sets++] = value;
    for (size_t i = 0; i < sizeof SHORT / sizeof SHORT[0]; i++)
        if (!strcmp(o->name, SHORT[i][0]) && (strcmp(o->name, "--module") || is_of_recipes(o))) {
            char *set = ls_sys_malloc(strlen(SHORT[i][1]) + strlen(value) + 2);
            if (!set)
                return ls_fail(LS_E_MEMORY, "out of memory");
            stpcpy(stpcpy(stpcpy(set, SHORT[i][1]), "="), value);
            a->made[a->n_made++] = set;
            a->sets[a->n_sets++] = set;
        }
    return LS_OK;
}

/* Returns the number of words that the option used; 0 on an error. */
static int take_option(ls_args *a, const ls_verb *verb, int n, char **words, ls_status *s)
{
    const char *word = words[0];
    if (word[1] != '-') { /* -q, -vv */
        for (const char *p = word + 1; *p; p++) {
            const char name[] = { '-', *p, 0 };
            const ls_option *o = find_option(verb, NULL, 0, *p);
            *s = o && !o->value ? remember(a, o, NULL) : unknown_option(verb, name);
            if (*s != LS_OK)
                return 0;
        }
        return 1;
    }
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const ls_option *o = find_option(verb, word, length, 0);
    if (!o) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)length, word);
        *s = unknown_option(verb, name);
        return 0;
    }
    if (equals && !o->value) {
        *s = ls_fail(LS_E_USAGE, "%s takes no value", o->name);
        return 0;
    }
    /* "[X]" may be left out: the next word is its value only if it is a number or a range of numbers */
    bool optional = o->value && *o->value == '[';
    if (optional && !equals && n > 1 && words[1][0] && strspn(words[1], "0123456789:") == strlen(words[1])) {
        *s = remember(a, o, words[1]);
        return *s == LS_OK ? 2 : 0;
    }
    if (equals || !o->value || optional) {
        *s = remember(a, o, equals ? equals + 1 : NULL);
        return *s == LS_OK ? 1 : 0;
    }
    if (n < 2) {
        *s = ls_fail(LS_E_USAGE, "%s needs a value: %s %s", o->name, o->name, o->value);
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
    for (int i = 0; i < out->n_given; i++)
        if (out->given[i].value && strcmp(out->given[i].option->value, "TEXT") &&
            strcmp(out->given[i].option->value, "URL")) /* a value of another kind may be a path */
            LS_TRY(ls_path_check(out->given[i].option->name, out->given[i].value));
    if (out->n_words < verb->min_words)
        return ls_fail(LS_E_USAGE, "lockstep %s needs %s (lockstep %s --help)", verb->name, verb->words,
                       verb->name);
    if (out->n_words > verb->max_words)
        return ls_fail(LS_E_USAGE, "lockstep %s: unexpected argument '%s' (usage: lockstep %s %s)",
                       verb->name, out->words[verb->max_words], verb->name, verb->words);
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

ls_status ls_args_int(const ls_args *a, const char *option, int64_t least, int64_t *out)
{
    const char *text = ls_args_value(a, option);
    if (!text)
        return LS_OK;
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end || errno || n < least)
        return ls_fail(LS_E_USAGE, "%s %s: a whole number from %lld up is needed", option, text,
                       (long long)least);
    *out = n;
    return LS_OK;
}

ls_status ls_args_number(const ls_args *a, const char *option, double least, double most, double *out)
{
    const char *text = ls_args_value(a, option);
    if (!text)
        return LS_OK;
    char *end;
    const double x = ls_strtod(text, &end);
    if (end == text || *end || !(x >= least && x <= most))
        return ls_fail(LS_E_USAGE, "%s %s: a number from %g to %g is needed", option, text, least, most);
    *out = x;
    return LS_OK;
}

ls_recipe_arg ls_args_recipe(const ls_args *a)
{
    return (ls_recipe_arg){ .name = a->words[0], .n_sets = a->n_sets, .sets = a->sets };
}
