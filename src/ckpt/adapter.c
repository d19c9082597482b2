/* adapter.c - reads and writes adapter_config.json. It comes from outside, and an option that is passed over
 * would compute another model. So what this version does not have is refused unless its value says that it is
 * off. */
#include "ckpt/adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/rank_files.h"

bool ls_adapter_is(const char *dir)
{
    return ls_file_in(dir, LS_ADAPTER_CONFIG) && !ls_file_in(dir, "model.safetensors") &&
           !ls_file_in(dir, "model.safetensors.index.json") && !ls_file_in(dir, "model" LS_RANK_FILE_FIRST);
}

bool ls_part_is(const char *dir)
{
    return ls_file_in(dir, LS_TRAINED_WEIGHTS ".safetensors") ||
           ls_file_in(dir, LS_TRAINED_WEIGHTS ".safetensors.index.json") ||
           ls_file_in(dir, LS_TRAINED_WEIGHTS LS_RANK_FILE_FIRST);
}

/* Keys that are read below, and those that say nothing of what the adapter computes. */
static const char *const FREE[] = { "r", "lora_alpha", "lora_dropout", "use_rslora", "target_modules",
                                    "exclude_modules", "fan_in_fan_out", "modules_to_save",
                                    "base_model_name_or_path", "peft_type", "task_type", "auto_mapping",
                                    "peft_version", "revision", "inference_mode", "runtime_config",
                                    /* how A and B began, see INITIAL */
                                    "init_lora_weights", "loftq_config", "eva_config", "corda_config",
                                    "lora_ga_config",
                                    /* settings of what is off */
                                    "megatron_core", "qalora_group_size", "layers_pattern", NULL };

/* These leave the base as it was; others, as pissa and loftq, change it. */
static const char *const INITIAL[] = { "gaussian", "eva", "orthogonal", NULL };

static bool adapter_listed(const char *const *list, const char *word)
{
    while (word && *list && strcmp(*list, word) != 0)
        list++;
    return word && *list;
}

static bool is_off(const json_t *value)
{
    const char *text = json_string_value(value);
    return json_is_null(value) || json_is_false(value) || (text && (!*text || !strcmp(text, "none"))) ||
           (json_is_object(value) && !json_object_size(value)) ||
           (json_is_array(value) && !json_array_size(value));
}

static ls_status refuse(const json_t *value, const char *key, const char *path, const char *has)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    const ls_status s = ls_fail(LS_E_UNSUPPORTED,
                                "%s: \"%s\" is %.60s; this version has %s: merge the adapter with PEFT "
                                "(merge_and_unload) and use the merged weights",
                                path, key, text ? text : "missing", has);
    free(text);
    return s;
}

static ls_status check_options(const json_t *config, const char *path)
{
    const char *key;
    const json_t *value = json_object_get(config, "peft_type"),
                 *begin = json_object_get(config, "init_lora_weights");
    if (!json_is_string(value) || strcmp(json_string_value(value), "LORA") != 0)
        return refuse(value, "peft_type", path, "LORA only");
    if (begin && !json_is_boolean(begin) && !adapter_listed(INITIAL, json_string_value(begin)))
        return refuse(begin, "init_lora_weights", path, "no first values that change the base");
    json_object_foreach((json_t *)(uintptr_t)config, key, value)
    {
        if (!adapter_listed(FREE, key) && !is_off(value))
            return refuse(value, key, path, "low-rank adapters without this option");
    }
    return LS_OK;
}

static ls_status read_number(double *out, const json_t *config, const char *key, double otherwise,
                             const char *path)
{
    const json_t *value = json_object_get(config, key);
    *out = value ? json_number_value(value) : otherwise;
    return !value || json_is_number(value)
               ? LS_OK
               : ls_fail(LS_E_FORMAT, "%s: \"%s\" is not a number: PEFT writes one", path, key);
}

/* Appends the names of a list, each with `mark` in front. */
static ls_status add_names(const char **all, ls_arena *a, const json_t *list, const char *mark,
                           const char *key, const char *path)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        if (!word || !*word || *word == '!' || strpbrk(word, " \t\n") || strlen(word) > 250)
            return ls_fail(LS_E_FORMAT, "%s: \"%s\" has an entry that is not the name of a module", path,
                           key);
        *all = ls_arena_printf(a, "%s%s%s%s", *all, **all ? " " : "", mark, word);
    }
    return ls_arena_status(a);
}

/* PEFT writes a list of the ends of names, or one text, which is a regular expression unless it is
 * all-linear. */
static ls_status read_targets(const char **out, ls_arena *a, const json_t *config, const char *path)
{
    const json_t *value = json_object_get(config, "target_modules"),
                 *but = json_object_get(config, "exclude_modules");
    const char *one = json_string_value(value);
    const bool every = one && !strcmp(one, "all-linear");
    *out = every ? one : "";
    if (!every && !json_array_size(value))
        return refuse(value, "target_modules", path, "a list of names, or all-linear");
    if (but && !json_is_array(but) && !is_off(but))
        return refuse(but, "exclude_modules", path, "a list of names");
    LS_TRY(add_names(out, a, every ? NULL : value, "", "target_modules", path));
    LS_TRY(add_names(out, a, but, "!", "exclude_modules", path));
    *out = ls_arena_strdup(a, *out);
    return ls_arena_status(a);
}

static ls_status read_config(ls_adapter *out, ls_arena *a, const json_t *config, const char *path)
{
    double rank;
    const char *base = json_string_value(json_object_get(config, "base_model_name_or_path"));
    if (!json_is_object(config))
        return ls_fail(LS_E_FORMAT, "%s: not a JSON object: PEFT writes one", path);
    LS_TRY(check_options(config, path));
    *out = (ls_adapter){ .rslora = json_is_true(json_object_get(config, "use_rslora")),
                         .transposed = json_is_true(json_object_get(config, "fan_in_fan_out")),
                         .base = ls_arena_strdup(a, base ? base : "") };
    LS_TRY(read_number(&rank, config, "r", 8, path));
    LS_TRY(read_number(&out->alpha, config, "lora_alpha", 8, path));
    LS_TRY(read_number(&out->dropout, config, "lora_dropout", 0, path));
    LS_TRY(read_targets(&out->targets, a, config, path));
    if (!(rank >= 1 && rank <= 1e6 && rank == floor(rank)) || !(out->alpha > 0 && out->alpha <= 1e6) ||
        !(out->dropout >= 0 && out->dropout < 1))
        return ls_fail(
            LS_E_FORMAT,
            "%s: r %g, lora_alpha %g, lora_dropout %g: a whole r from 1, a lora_alpha above 0 and a "
            "lora_dropout from 0 and below 1 are needed",
            path, rank, out->alpha, out->dropout);
    out->rank = (int64_t)rank;
    return ls_arena_status(a);
}

ls_status ls_adapter_parse(ls_adapter *out, ls_arena *a, const char *text, size_t size, const char *path)
{
    json_t *config = NULL;
    LS_TRY(ls_json_parse(&config, text, size, path));
    const ls_status s = read_config(out, a, config, path);
    json_decref(config);
    return s;
}

ls_status ls_adapter_read(ls_adapter *out, ls_arena *a, const char *dir)
{
    char *text = NULL, *path = ls_path_join(dir, LS_ADAPTER_CONFIG);
    size_t size = 0;
    ls_status s = ls_file_read(&text, &size, path);
    if (s == LS_OK)
        s = ls_adapter_parse(out, a, text, size, path);
    free(text);
    free(path);
    return s;
}

/* Writes the words with `mark` in front, without it; mark 0: those without a !. Nothing, if there are none.
 */
static void write_words(ls_json *j, const char *key, const char *words, char mark)
{
    char word[512];
    int n = 0;
    for (int used; sscanf(words, "%511s%n", word, &used) == 1; words += used) {
        if ((*word == '!') != (mark == '!'))
            continue;
        if (!n++)
            ls_json_array(j, key);
        ls_json_text(j, NULL, word + (mark == '!'));
    }
    if (n)
        ls_json_close_array(j);
}

/* all-linear is one text for PEFT. */
static void write_targets(ls_json *j, const char *targets)
{
    static const char ALL[] = "all-linear";
    const size_t n = sizeof ALL - 1;
    if (!strncmp(targets, ALL, n) && (!targets[n] || targets[n] == ' '))
        ls_json_text(j, "target_modules", ALL);
    else
        write_words(j, "target_modules", targets, 0);
    write_words(j, "exclude_modules", targets, '!');
}

char *ls_adapter_text(const ls_adapter *x, const char *task, const char *modules)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "peft_type", "LORA");
    if (task)
        ls_json_text(&j, "task_type", task);
    if (*x->base)
        ls_json_text(&j, "base_model_name_or_path", x->base);
    ls_json_int(&j, "r", x->rank);
    if (x->alpha == floor(x->alpha))
        ls_json_int(&j, "lora_alpha", (int64_t)x->alpha);
    else
        ls_json_f64(&j, "lora_alpha", x->alpha);
    ls_json_f64(&j, "lora_dropout", x->dropout);
    ls_json_bool(&j, "use_rslora", x->rslora);
    write_targets(&j, x->targets);
    write_words(&j, "modules_to_save", modules, 0);
    ls_json_text(&j, "bias", "none");
    ls_json_bool(&j, "fan_in_fan_out", x->transposed);
    ls_json_bool(&j, "inference_mode", true);
    ls_json_close_object(&j);
    ls_str_add(&j.out, "\n");
    return ls_str_take(&j.out);
}

const char *ls_adapter_modules(ls_arena *a, const ls_weights *w)
{
    const char *all = "", *last = "";
    for (int64_t i = 0; i < ls_weights_count(w); i++) {
        const char *name = ls_weights_at(w, i)->name, *dot = strrchr(name, '.');
        const char *module = ls_arena_printf(a, "%.*s", dot ? (int)(dot - name) : (int)strlen(name), name);
        if (ls_adapter_has(name) || !strcmp(module, last))
            continue;
        last = module;
        all = ls_arena_printf(a, "%s%s%s", all, *all ? " " : "", module);
    }
    return all;
}

bool ls_adapter_has(const char *name)
{
    const size_t n = strlen(name);
    return n > 14 && (!strcmp(name + n - 14, ".lora_A.weight") || !strcmp(name + n - 14, ".lora_B.weight"));
}
