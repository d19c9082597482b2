/* get_command.c - `lockstep get`: downloads a model or data set from Hugging Face's hub, or from a server
 * with the same interface. */
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/log.h"
#include "base/shown.h"
#include "base/str.h"
#include "commands.h"
#include "net/hub.h"
#include "net/url.h"
#include "screen/table.h"

static bool any_matches(const ls_hub_repo *r, const char *pattern)
{
    for (int i = 0; i < r->n; i++)
        if (ls_glob_match(pattern, r->files[i].path))
            return true;
    return false;
}

/* Marks the files that the patterns of the command line match. */
static ls_status choose_named(ls_hub_repo *r, const ls_get_opts *o)
{
    for (int k = 0; k < o->n_files; k++) {
        if (!any_matches(r, o->files[k]))
            return ls_fail(LS_E_USAGE, "%s: no file of %s has this name; `lockstep get %s --list` shows them",
                           o->files[k], r->name, r->name);
        for (int i = 0; i < r->n; i++)
            r->files[i].wanted |= ls_glob_match(o->files[k], r->files[i].path);
    }
    return LS_OK;
}

/* Marks the default files. Of a model: configuration, tokenizer and weights in the top folder, the weights as
 * safetensors if there are any. Of a data set: all files. */
static ls_status choose_default(ls_hub_repo *r)
{
    static const char *const MODEL[] = { "*.json", "*.model", "merges.txt", "vocab.txt", "LICENSE*", NULL };
    const bool data = !strncmp(r->name, "datasets/", 9);
    bool safetensors = false, weights = false;
    for (int i = 0; i < r->n; i++)
        safetensors |= !strchr(r->files[i].path, '/') && ls_glob_match("*.safetensors", r->files[i].path);
    for (int i = 0; i < r->n; i++) {
        ls_hub_file *f = &r->files[i];
        if (!data && strchr(f->path, '/'))
            continue;
        const bool weight = ls_glob_match(safetensors ? "*.safetensors" : "pytorch_model*.bin", f->path);
        f->wanted = data || weight;
        for (const char *const *m = MODEL; *m; m++)
            f->wanted |= ls_glob_match(*m, f->path);
        weights |= weight;
    }
    if (!data && !weights)
        return ls_fail(
            LS_E_USAGE,
            "%s has neither model.safetensors nor pytorch_model.bin; name the files that you want, as "
            "`lockstep get %s --list` shows them",
            r->name, r->name);
    return LS_OK;
}

static void list_json(const ls_hub_repo *r, const char *folder, const ls_ui *ui)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "name", r->name);
    ls_json_text(&j, "commit", r->commit);
    ls_json_text(&j, "folder", folder);
    ls_json_array(&j, "files");
    for (int i = 0; i < r->n; i++) {
        ls_json_object(&j, NULL);
        ls_json_text(&j, "path", r->files[i].path);
        ls_json_int(&j, "bytes", r->files[i].bytes);
        ls_json_bool(&j, "wanted", r->files[i].wanted);
        ls_json_close_object(&j);
    }
    ls_json_close_array(&j);
    ls_json_close_object(&j);
    ls_print_line(ui->out, "%s", ls_str_text(&j.out));
    ls_str_release(&j.out);
}

static void list_table(const ls_hub_repo *r, const ls_ui *ui)
{
    static const ls_column COLUMNS[] = { { "file", true, 0 },
                                         { "size", false, 0 },
                                         { "loaded by default", true, 1 } };
    ls_table t = { .n_columns = 3, .columns = COLUMNS };
    for (int i = 0; i < r->n; i++) {
        char size[32];
        const char *cells[] = { r->files[i].path, ls_format_bytes(size, (uint64_t)r->files[i].bytes),
                                r->files[i].wanted ? "yes" : "" };
        ls_table_row(&t, cells, NULL);
    }
    ls_table_print(ui->out, &t, ui->width);
    ls_table_release(&t);
}

static void show_progress(void *context, const char *file, int64_t bytes, int64_t total, double rate)
{
    const ls_ui *ui = context;
    ls_str what = { 0 };
    ls_str_printf(&what, "downloading %s", file);
    ui->progress(
        ui->context,
        &(ls_progress){
            .what = ls_str_text(&what), .done = bytes, .total = total, .unit = "bytes", .rate = rate });
    ls_str_release(&what);
}

static ls_status load(const ls_hub_repo *r, const ls_get_opts *o, const ls_ui *ui)
{
    ls_hub_load l = { .to = o->to, .progress = ui->progress ? show_progress : NULL, .context = (void *)ui };
    char all[32], loaded[32], server[LS_URL_SHOWN];
    int64_t bytes = 0;
    int n = 0;
    for (int i = 0; i < r->n; i++) {
        bytes += r->files[i].wanted ? r->files[i].bytes : 0;
        n += r->files[i].wanted;
    }
    ls_log_info("%s at %.10s: %d files, %s, from %s", r->name, r->commit, n,
                ls_format_bytes(all, (uint64_t)bytes), ls_url_shown(server, r->endpoint));
    const ls_status s = ls_hub_get(r, &l);
    if (ui->progress)
        ui->progress(ui->context, NULL);
    if (s == LS_OK && o->json) {
        list_json(r, l.folder, ui);
    } else if (s == LS_OK) {
        ls_str line = { 0 };
        ls_str_printf(&line, "%s: %d files, %s, in %s", r->name, n, all, l.folder);
        if (l.loaded_files < n)
            ls_str_printf(&line, " (%s downloaded now, the rest was there)",
                          ls_format_bytes(loaded, (uint64_t)l.loaded));
        ls_print_line(ui->out, "%s", ls_str_text(&line));
        ls_str_release(&line);
    }
    free(l.folder);
    return s;
}

ls_status ls_get_command(const ls_get_opts *o, const ls_ui *ui)
{
    ls_hub_repo r;
    LS_TRY(ls_hub_list(&r, o->name, o->revision ? o->revision : "main", o->mirror));
    ls_status s = o->n_files ? choose_named(&r, o) : choose_default(&r);
    if (o->list && (s == LS_OK || !o->n_files)) { /* a list is also of a repository without weights */
        if (o->json)
            list_json(&r, NULL, ui);
        else
            list_table(&r, ui);
        s = LS_OK;
    } else if (s == LS_OK) {
        s = load(&r, o, ui);
    }
    ls_hub_release(&r);
    return s;
}
