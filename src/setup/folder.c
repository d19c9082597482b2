/* folder.c - see folder.h. */
#include "folder.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/find.h"
#include "base/json.h"
#include "base/sys.h"
#include "ckpt/adapter.h"
#include "recipe/model_row.h"
#include "recipe/recipe_use.h"
#include "record/run_choice.h"
#include "record/rundir.h"

/* Reads a JSON file of the folder. The caller frees *root and *text. Both are NULL if there is no such file.
 */
static ls_status read_json(json_t **root, char **text, const char *dir, const char *name)
{
    *root = NULL;
    *text = NULL;
    if (!ls_file_in(dir, name))
        return LS_OK;
    char *path = ls_path_join(dir, name);
    size_t size = 0;
    ls_status s = ls_file_read(text, &size, path);
    if (*text && s == LS_OK)
        s = ls_json_parse(root, *text, size, path);
    free(path);
    return s;
}

ls_status ls_folder_look(char **out, const char *name)
{
    *out = NULL;
    return ls_dir_exists(name) || ls_file_exists(name) ? LS_OK : ls_find(out, name, ls_find_any);
}

static ls_status no_such(const char *name, const char *give)
{
    ls_str places = { 0 };
    ls_find_places(&places, name);
    const ls_status s = ls_fail(LS_E_USAGE, "%s: no such folder; %s%s%s%s", name, give,
                                places.len ? " (looked " : "", ls_str_text(&places), places.len ? ")" : "");
    ls_str_release(&places);
    return s;
}

static ls_status find_at(char **out, const char *name, bool best)
{
    static const char *const GIVE = "give a checkpoint, a run, or a folder with config.json and safetensors";
    *out = NULL;
    if (!ls_dir_exists(name))
        return ls_file_exists(name) ? ls_fail(LS_E_USAGE, "%s: a file, not a folder; %s", name, GIVE)
                                    : no_such(name, GIVE);
    const bool run = ls_run_is(name);
    char *dir = NULL;
    if (best && !run)
        return ls_fail(LS_E_USAGE, "%s: not a run, and only a run has a best checkpoint", name);
    LS_TRY(run ? ls_run_choose(&dir, name, best) : ls_sys_have(dir = ls_path_join(name, "")));
    if (ls_file_in(dir, "config.json") || ls_adapter_is(dir)) {
        *out = dir;
        return LS_OK;
    }
    free(dir);
    return ls_fail(LS_E_USAGE, "%s: neither a run (no recipe.yaml) nor a model's folder (no config.json); %s",
                   name, GIVE);
}

ls_status ls_folder_find(char **out, const char *name, bool best)
{
    char *elsewhere;
    LS_TRY(ls_folder_look(&elsewhere, name));
    const ls_status s = find_at(out, elsewhere ? elsewhere : name, best);
    free(elsewhere);
    return s;
}

ls_status ls_folder_config(char **out, const char *dir, const char *base)
{
    if (ls_adapter_is(dir) && !ls_file_in(dir, "config.json"))
        return ls_recipe_find_base(out, dir, base);
    return ls_sys_have(*out = ls_sys_strdup(dir));
}

/* The folder of the tokenizer: the adapter's own, or that of its base. */
static const char *tokenizer_folder(const char *dir, const char *config)
{
    static const char *const FILES[] = { "tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json" };
    bool own = !strcmp(dir, config);
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++)
        own = own || ls_file_in(dir, FILES[i]);
    return own ? dir : config;
}

/* What --set, or an option in its place, says of checkpoint.base. */
static const char *named_base(int n_sets, const char *const *sets)
{
    static const char KEY[] = "checkpoint.base=";
    const char *base = "";
    for (int i = 0; i < n_sets; i++)
        if (!strncmp(sets[i], KEY, sizeof KEY - 1))
            base = sets[i] + sizeof KEY - 1;
    return base;
}

/* Writes the recipe as JSON, which is YAML too. */
static void write_recipe(ls_json *j, const json_t *config, const ls_model_row *m, const char *dir,
                         const char *tokenizer)
{
    const bool pairs = ls_model_reads_sources(m);
    const json_int_t most = json_integer_value(json_object_get(config, m->huggingface->most_tokens));
    ls_json_object(j, NULL);
    ls_json_object(j, "model");
    ls_json_text(j, "type", m->name);
    ls_json_text(j, "init", dir);
    ls_json_close_object(j);
    ls_json_object(j, "data");
    ls_json_text(j, "type", pairs ? "pairs" : "text");
    ls_json_text(j, "tokenizer", tokenizer);
    ls_json_text(j, "train_text", "none");
    if (pairs) {
        ls_json_text(j, "source", "source");
        ls_json_text(j, "target", "target");
    }
    if (most > 0)
        ls_json_int(j, pairs ? "source_length" : "seq_length", most);
    ls_json_close_object(j);
    ls_json_close_object(j);
}

ls_status ls_folder_recipe(ls_recipe **out, const char *dir, int n_sets, const char *const *sets)
{
    char *text, *from = NULL;
    json_t *config;
    ls_json j = { 0 };
    *out = NULL;
    LS_TRY(ls_folder_config(&from, dir, named_base(n_sets, sets)));
    char *path = ls_path_join(from, "config.json");
    ls_status s = read_json(&config, &text, from, "config.json");
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const ls_model_row *m = type ? ls_model_row_find(type) : NULL;
    char list[LS_MODEL_LIST];
    ls_model_list(list, ls_model_makes_text);
    if (s == LS_OK && (!m || !ls_model_makes_text(m) || !m->huggingface))
        s = type ? ls_fail(LS_E_UNSUPPORTED, "%s: \"model_type\" is %s; models that generate text: %s", path,
                           type, list)
                 : ls_fail(LS_E_UNSUPPORTED,
                           "%s: has no \"model_type\", so %s is not a Hugging Face language model; models "
                           "that generate text: %s",
                           path, dir, list);
    if (s == LS_OK) {
        write_recipe(&j, config, m, dir, tokenizer_folder(dir, from));
        s = ls_str_status(&j.out);
    }
    if (s == LS_OK)
        s = ls_recipe_load_text(out, ls_str_text(&j.out), j.out.len, path, n_sets, sets);
    ls_str_release(&j.out);
    json_decref(config);
    free(text);
    free(path);
    free(from);
    return s;
}

ls_status ls_folder_ends(int32_t *ends, int max, int *n, const char *dir)
{
    static const char *const FILES[] = { "generation_config.json", "config.json" };
    *n = 0;
    for (int i = 0; i < 2 && !*n; i++) {
        char *text;
        json_t *root;
        ls_status s = read_json(&root, &text, dir, FILES[i]);
        const json_t *said = json_object_get(root, "eos_token_id");
        const size_t listed = json_array_size(said);
        for (size_t k = 0; k < (listed ? listed : 1) && *n < max && s == LS_OK; k++) {
            const json_t *one = listed ? json_array_get(said, k) : said;
            const json_int_t id = json_integer_value(one);
            if (id < INT32_MIN || id > INT32_MAX)
                s = ls_fail(LS_E_FORMAT, "%s/%s: eos_token_id: the model has no token %" JSON_INTEGER_FORMAT,
                            dir, FILES[i], id);
            else if (json_is_integer(one))
                ends[(*n)++] = (int32_t)id;
        }
        json_decref(root);
        free(text);
        LS_TRY(s);
    }
    return LS_OK;
}

ls_status ls_folder_add_names(ls_weights *w, const char *dir)
{
    char *text;
    json_t *config;
    ls_status s = read_json(&config, &text, dir, "config.json");
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const ls_model_row *m = type ? ls_model_row_find(type) : NULL;
    for (const ls_second_name *n = m ? m->second_names : NULL; s == LS_OK && n && n->name; n++)
        if (n->same_as && ls_weights_find(w, n->same_as) &&
            !ls_weights_find(w, n->name)) /* else the file has a tensor of that name */
            s = ls_weights_add_name(w, n->name, n->same_as);
    json_decref(config);
    free(text);
    return s;
}
