/* recipe_hint.c - what was probably meant by a key, a name or a value that a recipe does not have. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "recipe_read.h"

bool ls_key_is_section(const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < ls_key_count(); i++)
        if (!strncmp(ls_key_at(i)->key, name, n) && ls_key_at(i)->key[n] == '.')
            return true;
    return false;
}

/* ---- names and values of other programs */

/* Upper and lower case are the same, and so are - and _, because flags of a command line have -. */
static bool is_name(const char *name, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (name[i] != (word[i] == '-' ? '_' : tolower((unsigned char)word[i])))
            return false;
    return !word[n];
}

static bool has_name(const char *names, const char *word)
{
    for (size_t n; *names; names += n + (names[n] == ' ')) {
        n = strcspn(names, " ");
        if (is_name(names, n, word))
            return true;
    }
    return false;
}

/* What stands behind the next dot; NULL: nothing. */
static const char *behind_dot(const char *word)
{
    const char *dot = strchr(word, '.');
    return dot ? dot + 1 : NULL;
}

static bool exists(const char *ours)
{
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(ours, ":"), ours);
    return ls_key_find(key) >= 0 || ls_key_is_section(key);
}

/* The longest name counts: "checkpoint.interval" before "interval". Rows of keys that a later version may
 * have are passed over. */
const ls_foreign_name *ls_foreign_name_find(const char *word)
{
    for (; word; word = behind_dot(word))
        for (const ls_foreign_name *f = LS_FOREIGN_NAMES; f->theirs; f++)
            if (has_name(f->theirs, word) && (!f->ours || exists(f->ours)))
                return f;
    return NULL;
}

/* A prefix counts nothing: "torch.bfloat16". */
const ls_foreign_value *ls_foreign_value_find(const ls_key *k, const char *word)
{
    for (; word; word = behind_dot(word))
        for (const ls_foreign_value *f = LS_FOREIGN_VALUES; f->theirs; f++)
            if (has_name(f->of, k->key) && has_name(f->theirs, word))
                return f;
    return NULL;
}

/* What is written in place of a value; NULL: nothing. A row without an answer has one as soon as the key
 * takes one of its names, as a schedule that a later version has. */
static const char *value_of(const ls_key *k, const ls_foreign_value *v)
{
    const bool words = k->kind == LS_KEY_CHOICE || k->kind == LS_KEY_WORD;
    const char *one;
    for (int i = 0; words && !v->ours && (one = ls_key_word(k, i)); i++)
        if (has_name(v->theirs, one))
            return one;
    return v->ours;
}

/* ---- names that are nearly right */

/* The next names in the keys below `group` ("" or "parallel.prefetch."); `names` has room for all. Returns
 * how many. */
static int names_below(const char *group, size_t length, const char **names, ls_arena *a)
{
    int n = 0;
    for (int i = 0; i < ls_key_count(); i++)
        if (!strncmp(ls_key_at(i)->key, group, length)) {
            const char *rest = ls_key_at(i)->key + length;
            names[n++] = ls_arena_printf(a, "%.*s", (int)strcspn(rest, "."), rest);
        }
    return n;
}

/* Words that say nothing outside their section: `checkpoint.interval` has nothing to do with
 * precision.scaler.interval. */
static const char OF_THEIR_SECTION[] =
    "act async backward base beams bins bucket channels config data delta eval every every_epochs "
    "epochs every_steps "
    "export field files forward gather groups growth hidden ignore init inputs interval jitter keep levels "
    "magnitude max_file memory mirror missing mode modules name ops output outputs padding param path prefix "
    "reduce refit samples scale size source std steps target tensor tokens train type units up verify";

/* The sections of other programs, and ours that has such keys. */
static const char *const SECTIONS[][2] = {
    { "dataset datasets dataloader data_loader loader datamodule", "data" },
    { "training trainer training_args training_arguments train_config fit", "train" },
    { "optim optimization optimizer_config", "optimizer" },
    { "lr_scheduler scheduler lr_schedule", "schedule" },
    { "evaluation validation val test", "eval" },
    { "logging logger", "log" },
    { "checkpointing ckpt checkpoints checkpoint_config", "checkpoint" },
    { "experiment job", "run" },
    { "parallelism dist distributed distributed_training", "parallel" },
    { "mixed_precision amp", "precision" },
    { "network net model_config model_args", "model" },
};

static const char *our_section(const char *theirs)
{
    for (size_t i = 0; i < sizeof SECTIONS / sizeof *SECTIONS; i++)
        if (has_name(SECTIONS[i][0], theirs))
            return SECTIONS[i][1];
    return NULL;
}

bool ls_hint_is_their_section(const char *name) { return our_section(name) != NULL; }

/* The key that is this name but for dots: optimizer_lr, checkpoint-every-steps. */
static const char *key_with_dots(const char *name)
{
    for (int i = 0; i < ls_key_count(); i++) {
        const char *key = ls_key_at(i)->key;
        size_t n = 0;
        while (key[n] && (key[n] == name[n] || (strchr("._", key[n]) && strchr("._-", name[n]) && name[n])))
            n++;
        if (!key[n] && !name[n])
            return key;
    }
    return NULL;
}

/* The key with this last name; NULL when no key, or more than one ("type"), has it. */
static const char *only_key_named(const char *leaf)
{
    const char *found = NULL;
    for (int i = 0; i < ls_key_count(); i++) {
        const char *last = strrchr(ls_key_at(i)->key, '.');
        if (strcmp(last ? last + 1 : ls_key_at(i)->key, leaf))
            continue;
        if (found)
            return NULL;
        found = ls_key_at(i)->key;
    }
    return found;
}

/* The key that was probably meant. Looks for a similar name in the same section, then for the same name in
 * another section, then for a similar section. NULL: none. */
static const char *nearest_key(const char *full, ls_arena *a)
{
    const char *names[LS_KEY_MAX];
    const char *dot = strrchr(full, '.'), *leaf = dot ? dot + 1 : full;
    const size_t group = (size_t)(leaf - full);
    int n = names_below(full, group, names, a);
    const char *near = n ? ls_nearest_name(leaf, names, n) : NULL;
    if (near)
        return ls_arena_printf(a, "%.*s%s", (int)group, full, near);
    near = dot && has_name(OF_THEIR_SECTION, leaf) ? NULL : only_key_named(leaf);
    if (near || n)
        return near;
    n = names_below("", 0, names, a);
    const char *first = ls_arena_printf(a, "%.*s", (int)strcspn(full, "."), full);
    const char *section = dot ? our_section(first) : NULL;
    if (!section)
        section = ls_nearest_name(first, names, n);
    if (!section)
        return NULL;
    const char *mended = ls_arena_printf(a, "%s%s", section, full + strcspn(full, "."));
    if (ls_key_find(mended) >= 0)
        return mended;
    return strcmp(mended, full) ? nearest_key(mended, a) : NULL;
}

/* ---- the answers */

/* With a value that has a translation: "precision.param: bf16". */
static ls_hint with_value(ls_hint h, const char *value, ls_arena *a)
{
    const int row = value && h.ours ? ls_key_find(h.ours) : -1;
    const ls_foreign_value *v = row >= 0 ? ls_foreign_value_find(ls_key_at(row), value) : NULL;
    if (!v)
        return h;
    const char *ours = value_of(ls_key_at(row), v);
    if (!ours)
        return (ls_hint){ h.ours, ls_arena_printf(a, "'%s' is %s", value, v->how) };
    return (ls_hint){ exists(ours) ? ours : ls_arena_printf(a, "%s: %s", h.ours, ours),
                      v->ours && v->how ? v->how : h.how };
}

ls_hint ls_hint_known_key(const char *key, const char *value, ls_arena *a)
{
    const char *dot = strrchr(key, '.'), *leaf = dot ? dot + 1 : key;
    const ls_foreign_name *f = ls_foreign_name_find(key);
    const char *same = has_name(OF_THEIR_SECTION, leaf) ? NULL : only_key_named(leaf);
    if (f && (f->ours || !same))
        return with_value((ls_hint){ f->ours, f->how }, value, a);
    return with_value((ls_hint){ .ours = same }, value, a);
}

/* What is said of a section of another program, for a name in it that is not known: "deepspeed.aio". */
static ls_hint of_their_section(const char *key, ls_arena *a)
{
    char *section = ls_arena_strdup(a, key), *dot;
    while (section && (dot = strrchr(section, '.'))) {
        *dot = 0;
        if (ls_key_is_section(section) || ls_key_find(section) >= 0 || our_section(section))
            break; /* the name alone would say what is meant */
        const ls_foreign_name *f = ls_foreign_name_find(section);
        if (f)
            return (ls_hint){ f->ours, f->how };
    }
    return (ls_hint){ 0 };
}

ls_hint ls_hint_key(const char *key, const char *value, ls_arena *a)
{
    if (ls_foreign_name_find(key))
        return ls_hint_known_key(key, value, a);
    const char *near = key_with_dots(key);
    near = near ? near : nearest_key(key, a);
    return near ? with_value((ls_hint){ .ours = near }, value, a) : of_their_section(key, a);
}

ls_status ls_hint_value(const ls_key *k, const char *value, const char *where, ls_status s)
{
    const ls_foreign_value *v = ls_foreign_value_find(k, value);
    if (!v)
        return s;
    const char *ours = value_of(k, v), *how = v->ours ? v->how : NULL;
    if (ours)
        return ls_fail(LS_E_USAGE, "%s: there is no '%s'; did you mean %s?%s%s%s", where, value, ours,
                       how ? " (" : "", how ? how : "", how ? ")" : "");
    return ls_fail(LS_E_USAGE, "%s: '%s' is %s", where, value, v->how);
}

ls_status ls_hint_loss(const ls_yaml *value, const char *where, ls_status s, ls_arena *a)
{
    static const ls_key TYPE = { .key = "loss.type" }; /* of LS_FOREIGN_VALUES */
    for (const ls_yaml *one = value->kind == LS_YAML_LIST ? value->child : value; one;
         one = value->kind == LS_YAML_LIST ? one->next : NULL) {
        const ls_yaml *map = ls_yaml_real(one);
        for (const ls_yaml *c = map->kind == LS_YAML_MAP ? map->child : NULL; c; c = c->next) {
            const ls_yaml *v = ls_yaml_real(c);
            if (!strcmp(c->key, "type") && v->kind == LS_YAML_SCALAR && ls_foreign_value_find(&TYPE, v->text))
                return ls_hint_value(&TYPE, v->text, where, s);
            if (has_name("type of target weight mask factor delta class_weights", c->key))
                continue;
            const ls_hint h = ls_hint_known_key(c->key, NULL, a);
            if (h.ours && ls_key_find(h.ours) >= 0 && !strncmp(h.ours, "train.", strlen("train.")))
                return ls_fail(LS_E_USAGE, "%s: a loss has no '%s'; did you mean the key %s?", where, c->key,
                               h.ours);
            if (!h.ours && h.how)
                return ls_fail(LS_E_USAGE, "%s: a loss has no '%s'; %s", where, c->key, h.how);
        }
    }
    return s;
}

/* The value is probably that of the section's first choice: model.type, precision.param. */
const char *ls_hint_section(const char *section, const char *value, ls_arena *a)
{
    const size_t n = strlen(section);
    for (int i = 0; i < ls_key_count() && value; i++) {
        const ls_key *k = ls_key_at(i);
        if (strncmp(k->key, section, n) || k->key[n] != '.' || strchr(k->key + n + 1, '.'))
            continue;
        if (k->kind != LS_KEY_CHOICE && k->kind != LS_KEY_WORD && k->kind != LS_KEY_DTYPE)
            continue;
        const ls_foreign_value *v = ls_foreign_value_find(k, value);
        const char *word = v ? v->ours : value, *good = NULL, *one;
        ls_dtype type;
        if (k->kind == LS_KEY_DTYPE && word && ls_dtype_parse(word, &type))
            good = word;
        for (int w = 0; k->kind != LS_KEY_DTYPE && word && (one = ls_key_word(k, w)); w++)
            good = strcasecmp(one, word) ? good : one;
        if (good)
            return ls_arena_printf(a, "%s: {%s: %s}", section, k->key + n + 1, good);
    }
    for (int i = 0; i < ls_key_count(); i++) { /* the section's first key */
        const ls_key *k = ls_key_at(i);
        if (strncmp(k->key, section, n) || k->key[n] != '.' || strchr(k->key + n + 1, '.'))
            continue;
        double x;
        const bool number = k->kind == LS_KEY_INT || k->kind == LS_KEY_REAL,
                   fits = value && *value && number == ls_key_parse_real(value, &x) &&
                          (number || k->kind == LS_KEY_TEXT);
        return ls_arena_printf(a, "%s: {%s: %s}", section, k->key + n + 1, fits ? value : "...");
    }
    return ls_arena_printf(a, "%s: {...}", section);
}
