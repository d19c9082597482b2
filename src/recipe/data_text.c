/* data_text.c - data sets of texts: text, chat and pairs, and mixtures of the first two. */
#include "data_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sys.h"
#include "data/mixture_set.h"
#include "recipe_read.h"

/* ---- text */

static ls_status check_files(const ls_recipe *r, const char *files)
{
    if (!*r->data.train_text)
        return ls_fail(LS_E_USAGE, "%s: %s needs data.train_text: %s", ls_recipe_where(r, "data.type"),
                       r->data.type, files);
    if (!*r->data.tokenizer)
        return ls_fail(LS_E_USAGE,
                       "%s: %s needs data.tokenizer: a tokenizer.json or spiece.model, a folder "
                       "with one, or `bytes`",
                       ls_recipe_where(r, "data.type"), r->data.type);
    return LS_OK;
}

static int paths_of(const char *paths)
{
    int n = 1;
    for (const char *p = paths; *p; p++)
        n += *p == '\n';
    return n;
}

static ls_status check_weights(const ls_recipe *r)
{
    const int n = paths_of(r->data.train_text);
    if (r->data.weights.n == 1 || r->data.weights.n == n)
        return LS_OK;
    return ls_fail(LS_E_USAGE,
                   "%s: %d weights, and data.train_text has %d %s: give each entry of a list a weight",
                   ls_recipe_where_either(r, "data.weights", "data.train_text"), r->data.weights.n, n,
                   n == 1 ? "entry" : "entries");
}

ls_status ls_data_check_text(const ls_recipe *r)
{
    LS_TRY(check_files(r, "text files"));
    return check_weights(r);
}

/* Conversations never see one another: `true` packs them as `documents` does. */
ls_pack_choice ls_recipe_pack(const ls_recipe *r)
{
    const bool chat = !strcmp(r->data.type, "chat");
    return chat && r->data.pack == LS_PACK_STREAM ? LS_PACK_DOCUMENTS : r->data.pack;
}

static ls_text_options text_options(const ls_recipe *r, const ls_data_opening *o)
{
    return (ls_text_options){ LS_TEXT_DEFAULTS,
                              .eval_path = r->data.eval_text,
                              .eval_fraction = r->data.eval_fraction,
                              .documents = r->data.documents,
                              .field = r->data.field,
                              .end_token = r->data.end_token,
                              .pack = ls_recipe_pack(r),
                              .vocabulary = o->classes,
                              .threads = o->threads,
                              .progress = o->progress,
                              .context = o->context,
                              .train_percentage = r->data.train_percentage,
                              .too_long = r->data.too_long };
}

static ls_status open_one_text(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o)
{
    const ls_text_options options = text_options(r, o);
    return ls_text_open_with(out, split, r->data.train_text, r->data.tokenizer, r->data.seq_length, &options);
}

/* With weights every entry of train_text is a set of its own, of which a part is held out. */
static ls_status open_mixture(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o,
                              ls_status (*one)(ls_dataset **out, const ls_recipe *r, ls_split split,
                                               const ls_data_opening *o))
{
    const int n = r->data.weights.n;
    if (n == 1 || (split == LS_SPLIT_EVAL && *r->data.eval_text))
        return one(out, r, split, o);
    ls_dataset *sets[LS_RECIPE_LIST];
    ls_recipe *entry = ls_sys_malloc(sizeof *entry);
    char *paths = ls_sys_strdup(r->data.train_text), *at = paths;
    ls_status s = entry && paths ? LS_OK : ls_fail(LS_E_MEMORY, "no memory for a mixture of data sets");
    int opened = 0;
    for (; s == LS_OK && opened < n; opened += s == LS_OK) {
        *entry = *r;
        entry->data.train_text = strsep(&at, "\n");
        s = one(&sets[opened], entry, split, o);
    }
    free(entry);
    free(paths);
    if (s == LS_OK)
        return ls_mixture_open(out, n, sets, split == LS_SPLIT_TRAIN ? r->data.weights.at : NULL);
    while (opened > 0)
        ls_dataset_close(&sets[--opened]);
    return s;
}

ls_status ls_data_open_text(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o)
{
    return open_mixture(out, r, split, o, open_one_text);
}

/* ---- conversations */

ls_status ls_data_check_chat(const ls_recipe *r)
{
    LS_TRY(check_files(r, "files of JSON lines"));
    return check_weights(r);
}

/* The folder of the model that is trained on; "": none is known. malloc'ed. */
static ls_status init_folder(char **out, const ls_recipe *r)
{
    *out = NULL;
    if (strcmp(r->model.init, "random") != 0)
        LS_TRY(ls_init_find(out, r->model.init));
    if (*out && ls_file_exists(*out)) {
        char *slash = strrchr(*out, '/');
        if (slash)
            *slash = 0;
    }
    return *out ? LS_OK : ls_sys_have(*out = ls_sys_strdup(""));
}

ls_status ls_recipe_chat(ls_chat_options *out, char **folder, const ls_recipe *r, const ls_text_options *text)
{
    LS_TRY(init_folder(folder, r));
    *out = (ls_chat_options){
        .text = *text, .template = r->data.chat_template, .folder = *folder, .train_on = r->data.train_on
    };
    return LS_OK;
}

static ls_status open_one_chat(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o)
{
    const ls_text_options text = text_options(r, o);
    ls_chat_options options;
    char *folder;
    LS_TRY(ls_recipe_chat(&options, &folder, r, &text));
    const ls_status s = ls_chat_open_with(out, split, r->data.train_text, r->data.tokenizer,
                                          r->data.seq_length, &options);
    free(folder);
    return s;
}

ls_status ls_data_open_chat(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o)
{
    return open_mixture(out, r, split, o, open_one_chat);
}

/* ---- pairs */

ls_status ls_data_check_pairs(const ls_recipe *r)
{
    LS_TRY(check_files(r, "CSV files or JSON lines"));
    if (!strcmp(r->data.source, r->data.target))
        return ls_fail(LS_E_USAGE, "%s: \"%s\" is also data.source; source and target are two columns",
                       ls_recipe_where_either(r, "data.target", "data.source"), r->data.target);
    return LS_OK;
}

ls_status ls_data_open_pairs(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o)
{
    const ls_pairs_options options = { .source = r->data.source,
                                       .target = r->data.target,
                                       .prefix = r->data.prefix,
                                       .samples = split == LS_SPLIT_TRAIN ? r->data.train_samples
                                                                          : r->data.eval_samples,
                                       .eval_path = r->data.eval_text,
                                       .eval_fraction = r->data.eval_fraction,
                                       .end_token = r->data.end_token,
                                       .vocabulary = o->classes,
                                       .threads = o->threads,
                                       .progress = o->progress,
                                       .context = o->context };
    return ls_pairs_open_with(out, split, r->data.train_text, r->data.tokenizer, r->data.source_length,
                              r->data.target_length, &options);
}
