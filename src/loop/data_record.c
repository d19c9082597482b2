/* data_record.c - see data_record.h. Digests are 16 hex digits: JSON has no whole numbers of 64 bits. */
#include "data_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/agree.h"

static const char *key_of(ls_split split) { return split == LS_SPLIT_TRAIN ? "train" : "eval"; }

/* ---- writing */

static void write_digest(ls_json *j, uint64_t digest)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, digest);
    ls_json_text(j, "digest", text);
}

static void write_split(ls_json *j, const ls_dataset *set)
{
    ls_json_object(j, key_of(set->split));
    ls_json_bool(j, "builtin", set->builtin);
    ls_json_int(j, "samples", set->n);
    if (set->digest)
        write_digest(j, set->digest);
    ls_json_array(j, "files");
    for (int i = 0; i < set->n_parts; i++) {
        ls_json_object(j, NULL);
        ls_json_text(j, "what", set->parts[i].what);
        ls_json_text(j, "path", set->parts[i].path);
        write_digest(j, set->parts[i].digest);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
    ls_json_close_object(j);
}

void ls_data_record(ls_json *j, const ls_dataset *train, const ls_dataset *eval)
{
    ls_json_object(j, "data");
    write_split(j, train);
    if (eval)
        write_split(j, eval);
    ls_json_close_object(j);
}

/* ---- comparing */

static const char *split_name(ls_split split)
{
    return split == LS_SPLIT_TRAIN ? "training data" : "evaluation data";
}

static void add_line(ls_str *out, const ls_dataset *set)
{
    if (set)
        ls_str_printf(out, "%s: %lld samples%s, digest %016" PRIx64 "\n", split_name(set->split),
                      (long long)set->n, set->builtin ? " of the built-in shapes" : "", set->digest);
}

ls_status ls_data_agree(ls_group *g, const ls_dataset *train, const ls_dataset *eval)
{
    ls_str lines = { 0 };
    add_line(&lines, train);
    add_line(&lines, eval);
    char *text = ls_str_take(&lines);
    const ls_status s = g      ? ls_ranks_same(g, text, "the ranks have found different data")
                        : text ? LS_OK
                               : LS_E_MEMORY;
    free(text);
    return s;
}

static const char *data_record_text_of(const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    return text ? text : "";
}

static uint64_t digest_of(const json_t *j) { return strtoull(data_record_text_of(j, "digest"), NULL, 16); }

/* Appends both names, or one if they are equal. */
static void name(ls_str *out, const char *here, const char *there)
{
    if (strcmp(here, there))
        ls_str_printf(out, "%s here, %s there", here, there);
    else
        ls_str_printf(out, "%s (other content)", here);
}

static bool is_tokenizer(const char *what) { return !strcmp(what, "tokenizer"); }

/* Compares file by file, and names the first few that differ. Returns how many differ. */
static int compare_files(ls_str *out, const json_t *was, const ls_dataset *set)
{
    enum { MOST = 3 };
    int n = 0;
    for (int i = 0; i < set->n_parts; i++) {
        const ls_dataset_part *here = &set->parts[i];
        const json_t *there = json_array_get(was, (size_t)i);
        if (is_tokenizer(here->what) || (there && digest_of(there) == here->digest))
            continue;
        if (n++ < MOST) {
            ls_str_printf(out, "%s%s ", n > 1 ? ", " : "", here->what);
            if (there && strcmp(here->path, data_record_text_of(there, "path")))
                ls_str_printf(out, "%s here, %s there (other content)", here->path,
                              data_record_text_of(there, "path")); /* another path alone does not differ */
            else if (there)
                name(out, here->path, here->path);
            else
                ls_str_printf(out, "%s (not there)", here->path);
        }
    }
    for (size_t i = (size_t)set->n_parts; i < json_array_size(was); i++)
        if (n++ < MOST)
            ls_str_printf(out, "%s%s %s (there only)", n > 1 ? ", " : "",
                          data_record_text_of(json_array_get(was, i), "what"),
                          data_record_text_of(json_array_get(was, i), "path"));
    if (n > MOST)
        ls_str_printf(out, " and %d more files", n - MOST);
    return n;
}

static void data_record_begin(ls_str *out, const char *what)
{
    ls_str_printf(out, "%s%s: ", out->len ? "; " : "", what);
}

bool ls_data_difference(ls_str *out, const json_t *trainer, const ls_dataset *set)
{
    const json_t *was = json_object_get(json_object_get(trainer, "data"), key_of(set->split));
    const json_t *builtin = was ? json_object_get(was, "builtin")
                                : json_object_get(trainer, "builtin_data"); /* older versions say only this */
    const char *what = split_name(set->split);
    if (builtin && json_is_true(builtin) != set->builtin) {
        data_record_begin(out, what);
        ls_str_add(out, set->builtin ? "the built-in shapes here, the real ones there"
                                     : "the real ones here, the built-in shapes there");
        return false;
    }
    if (!was)
        return false;
    if (!set->digest || !*data_record_text_of(was, "digest") || digest_of(was) == set->digest)
        return true;
    ls_str files = { 0 };
    const int64_t samples = json_integer_value(json_object_get(was, "samples"));
    int n = compare_files(&files, json_object_get(was, "files"), set);
    if (samples != set->n && n++ >= 0)
        ls_str_printf(&files, "%s%lld samples here, %lld there", files.len ? "; " : "", (long long)set->n,
                      (long long)samples);
    data_record_begin(out, what);
    ls_str_add(out, n ? ls_str_text(&files) : "other samples of the same files");
    ls_str_release(&files);
    return false;
}

void ls_tokenizer_difference(ls_str *out, const json_t *trainer, const char *path, uint64_t digest)
{
    const json_t *files = json_object_get(json_object_get(json_object_get(trainer, "data"), "train"),
                                          "files"),
                 *file;
    size_t i;
    json_array_foreach(files, i, file)
    {
        if (!is_tokenizer(data_record_text_of(file, "what")) || digest_of(file) == digest)
            continue;
        data_record_begin(out, "tokenizer");
        name(out, path, data_record_text_of(file, "path"));
    }
}

void ls_data_tokenizer_difference(ls_str *out, const json_t *trainer, const ls_dataset *set)
{
    for (int i = 0; i < set->n_parts; i++)
        if (is_tokenizer(set->parts[i].what))
            ls_tokenizer_difference(out, trainer, set->parts[i].path, set->parts[i].digest);
}

/* Appends the first file of a split that differs, or the number of samples. */
static void add_split_difference(ls_str *out, const json_t *here, const json_t *there)
{
    const json_t *now = json_object_get(here, "files"), *was = json_object_get(there, "files");
    for (size_t i = 0; i < json_array_size(now) && i < json_array_size(was); i++) {
        const json_t *a = json_array_get(now, i), *b = json_array_get(was, i);
        if (digest_of(a) == digest_of(b) || is_tokenizer(data_record_text_of(a, "what")))
            continue;
        ls_str_printf(out, "%s ", data_record_text_of(a, "what"));
        name(out, data_record_text_of(a, "path"), data_record_text_of(b, "path"));
        return;
    }
    ls_str_printf(out,
                  "%" JSON_INTEGER_FORMAT " samples here, %" JSON_INTEGER_FORMAT " there, with other content",
                  json_integer_value(json_object_get(here, "samples")),
                  json_integer_value(json_object_get(there, "samples")));
}

void ls_data_records_differ(ls_str *out, const json_t *here, const json_t *there)
{
    const json_t *now = json_object_get(here, "data"), *was = json_object_get(there, "data"), *file;
    for (int i = 0; i < 2; i++) {
        const ls_split split = i ? LS_SPLIT_EVAL : LS_SPLIT_TRAIN;
        const json_t *a = json_object_get(now, key_of(split)), *b = json_object_get(was, key_of(split));
        if (!*data_record_text_of(a, "digest") || !*data_record_text_of(b, "digest") ||
            digest_of(a) == digest_of(b))
            continue;
        data_record_begin(out, split_name(split));
        add_split_difference(out, a, b);
    }
    size_t i;
    json_array_foreach(json_object_get(json_object_get(now, "train"), "files"), i,
                       file) if (is_tokenizer(data_record_text_of(file, "what")))
        ls_tokenizer_difference(out, there, data_record_text_of(file, "path"), digest_of(file));
}
