/* inspect_command.c - `lockstep inspect`: what is in a weight file, a checkpoint, a run, or a recipe's model.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/adapter.h"
#include "ckpt/checkpoint.h"
#include "ckpt/gguf.h"
#include "ckpt/parts.h"
#include "ckpt/pt.h"
#include "inspect_page.h"
#include "inspect_recipe.h"
#include "module_tree.h"
#include "record/run_choice.h"
#include "record/rundir.h"
#include "saved_model.h"

/* The keys of a GGUF file as JSON. */
static ls_status add_keys(ls_json *j, const json_t *keys)
{
    char *text = keys ? json_dumps(keys, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    if (text)
        ls_json_raw(j, "keys", text);
    const ls_status s = keys ? ls_sys_have(text) : LS_OK;
    free(text);
    return s;
}

static ls_status print_json(FILE *out, const char *path, const json_t *keys, const char *digest, int64_t n,
                            const ls_tree_item *items)
{
    ls_json j = { 0 };
    int64_t elements = 0;
    ls_json_object(&j, NULL);
    ls_json_text(&j, "path", path);
    if (*digest)
        ls_json_text(&j, "digest", digest);
    const ls_status s = add_keys(&j, keys);
    if (s != LS_OK) {
        ls_str_release(&j.out);
        return s;
    }
    ls_json_array(&j, "tensors");
    for (int64_t i = 0; i < n; i++) {
        ls_json_object(&j, NULL);
        ls_json_text(&j, "name", items[i].name);
        ls_json_text(&j, "dtype", items[i].stored ? items[i].stored : ls_dtype_name(items[i].type.dtype));
        ls_json_array(&j, "shape");
        for (int d = 0; d < items[i].type.ndim; d++)
            ls_json_int(&j, NULL, items[i].type.dims[d]);
        ls_json_close_array(&j);
        ls_json_close_object(&j);
        elements += ls_type_count(&items[i].type);
    }
    ls_json_close_array(&j);
    ls_json_int(&j, "elements", elements);
    ls_json_close_object(&j);
    return ls_print_result(out, &j.out);
}

/* A line for each key of a GGUF file; a long value is cut. */
static void add_key_lines(ls_str *out, const json_t *keys)
{
    enum { WIDTH = 60 };
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)keys, key, value)
    {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15) | JSON_ENSURE_ASCII);
        ls_str_add_shown(out, key, false);
        ls_str_printf(out, "  %.*s%s\n", WIDTH, text ? text : "", text && strlen(text) > WIDTH ? " ..." : "");
        free(text);
    }
}

static ls_status show(const ls_inspect_opts *o, const ls_ui *ui, const char *title, const json_t *keys,
                      const char *digest, int64_t n, ls_tree_item *items)
{
    if (o->json)
        return print_json(ui->out, title, keys, digest, n, items);
    ls_str text = { 0 };
    if (*digest)
        ls_str_printf(&text, "%s: the weights have digest %s\n", title, digest);
    add_key_lines(&text, keys);
    ls_module_tree_text(&text, title, n, items);
    return ls_print_result(ui->out, &text);
}

/* ---- the page: which file has what of each tensor */

typedef struct file_list {
    int n, room;
    const char **paths; /* in the order in which tensors are in them */
} file_list;

static int file_number(file_list *f, const char *path)
{
    for (int i = f->n; i-- > 0;) /* neighbours are in one file */
        if (!strcmp(f->paths[i], path))
            return i;
    if (f->n < f->room)
        f->paths[f->n++] = path;
    return f->n - 1;
}

static void file_has(ls_inspect_page *p, file_list *f, const ls_weight *t, const ls_box *box)
{
    ls_str what = { 0 };
    if (box) {
        ls_str_add(&what, "[");
        for (int d = 0; d < box->ndim; d++)
            ls_str_printf(&what, "%s%lld:%lld", d ? ", " : "", (long long)box->start[d],
                          (long long)(box->start[d] + box->size[d]));
        ls_str_add(&what, "]");
    }
    ls_inspect_page_held(p, file_number(f, t->file), ls_type_count(&t->type),
                         box ? ls_str_text(&what) : "all of it");
    ls_str_inherit(&p->rows, &what);
    ls_str_release(&what);
}

/* A file does not say what is a buffer. Names of PyTorch's batch norm do, and types that nobody trains. */
static bool is_buffer(const ls_weight *t)
{
    static const char *const NAMES[] = { "running_mean", "running_var", "num_batches_tracked" };
    const char *dot = strrchr(t->name, '.'), *name = dot ? dot + 1 : t->name;
    bool is = !t->stored && !ls_dtype_is_float(t->type.dtype);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        is = is || !strcmp(name, NAMES[i]);
    return is;
}

static ls_status write_page(const ls_inspect_opts *o, const char *path, const ls_weights *w, int64_t n,
                            const ls_tree_item *items)
{
    file_list f = { .room = ls_weights_file_count(w) + 1 };
    ls_inspect_page p;
    ls_str printed = { 0 };
    ls_inspect_page_begin(&p, path, "", "file", f.room);
    f.paths = LS_ARENA_ARRAY(&p.arena, const char *, f.room);
    ls_status s = ls_arena_status(&p.arena);
    for (int64_t i = 0; i < n && s == LS_OK; i++) {
        const ls_weight *t = ls_weights_find(w, items[i].name);
        const struct ls_weight_parts *parts = t->parts;
        ls_inspect_page_tensor(&p, t->name, t->stored ? t->stored : ls_dtype_name(t->type.dtype), &t->type,
                               t->bytes, "", is_buffer(t));
        for (int64_t k = 0; parts && k < parts->n; k++)
            file_has(&p, &f, parts->at[k].tensor, &parts->at[k].box);
        if (!parts)
            file_has(&p, &f, t, NULL);
        ls_inspect_page_tensor_end(&p);
    }
    for (int i = 0; i < f.n; i++)
        f.paths[i] = strrchr(f.paths[i], '/') ? strrchr(f.paths[i], '/') + 1 : f.paths[i];
    ls_module_tree_text(&printed, path, n, items);
    if (s == LS_OK)
        s = ls_inspect_page_write(&p, o->html, f.n, f.paths, &printed, NULL);
    ls_inspect_page_release(&p);
    ls_str_release(&printed);
    return s;
}

static ls_status inspect_weights(const ls_inspect_opts *o, const ls_ui *ui, const char *path)
{
    ls_weights *w;
    LS_TRY(ls_saved_model_weights(&w, path, o->prefix));
    int64_t n = ls_weights_count(w);
    ls_tree_item *items = ls_sys_calloc((size_t)n + 1, sizeof *items);
    if (!items) {
        ls_weights_close(&w);
        return ls_fail(LS_E_MEMORY, "out of memory for a list of %lld tensors", (long long)n);
    }
    for (int64_t i = 0; i < n; i++) {
        const ls_weight *t = ls_weights_at(w, i);
        items[i] = (ls_tree_item){ .name = t->name, .stored = t->stored, .bytes = t->bytes, .type = t->type };
    }
    ls_tree_sort(n, items);
    char digest[17] = "";
    uint64_t sum;
    ls_status s = o->digest ? ls_weights_element_digest(&sum, path) : LS_OK;
    if (s == LS_OK && o->digest)
        snprintf(digest, sizeof digest, "%016" PRIx64, sum);
    if (s == LS_OK)
        s = o->html ? write_page(o, path, w, n, items)
                    : show(o, ui, path, ls_gguf_keys_of(w), digest, n, items);
    free(items);
    ls_weights_close(&w);
    return s;
}

static ls_status inspect_checkpoint(const ls_inspect_opts *o, const ls_ui *ui, const char *dir)
{
    int files = 0;
    if (o->verify) {
        LS_TRY(ls_checkpoint_verify(dir, LS_VERIFY_FULL, &files));
        if (!o->json)
            fprintf(ui->out, "%s: every byte of %d files matches the manifest\n", dir, files);
    }
    return inspect_weights(o, ui, dir);
}

static bool is_weights(const char *path)
{
    static const char *const ENDS[] = { ".safetensors", ".json", ".pt", ".pth", ".bin", ".gguf" };
    bool is = false;
    for (size_t i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++)
        is = is || ls_ends_with(path, ENDS[i]);
    return is;
}

/* --verify of a weight file: it has no manifest, but a file of torch.save has checksums. */
static ls_status verify_file(const char *path, bool json, const ls_ui *ui)
{
    int64_t entries;
    if (ls_ends_with(path, ".safetensors") || ls_ends_with(path, ".json") || ls_ends_with(path, ".gguf") ||
        !is_weights(path))
        return ls_fail(LS_E_USAGE,
                       "--verify: %s has no checksums; a checkpoint folder, a run or a .pt file has", path);
    LS_TRY(ls_pt_verify(path, &entries));
    if (!json)
        fprintf(ui->out, "%s: every byte of %lld entries matches its checksum\n", path, (long long)entries);
    return LS_OK;
}

/* A folder of weights that another program wrote. */
static ls_status inspect_folder(const ls_inspect_opts *o, const ls_ui *ui, const char *path)
{
    if (o->verify)
        return ls_fail(LS_E_USAGE,
                       "--verify: %s has no checksums; a checkpoint folder, a run or a .pt file has", path);
    return inspect_weights(o, ui, path);
}

ls_status ls_inspect_command(const ls_inspect_opts *o, const ls_ui *ui)
{
    const char *path = o->model.name;
    const bool run = ls_dir_exists(path) && ls_run_is(path);
    if (o->model.best && !run)
        return ls_fail(LS_E_USAGE, "--best chooses among the checkpoints of a run, and %s is not a run",
                       path);
    if (o->prefix)
        return inspect_folder(o, ui, path);
    if (run) {
        char *dir;
        LS_TRY(ls_run_choose(&dir, path, o->model.best));
        const ls_status s = inspect_checkpoint(o, ui, dir);
        free(dir);
        return s;
    }
    if (ls_dir_exists(path))
        return ls_checkpoint_is(path) ? inspect_checkpoint(o, ui, path) : inspect_folder(o, ui, path);
    if (o->verify)
        LS_TRY(verify_file(path, o->json, ui));
    return is_weights(path) ? inspect_weights(o, ui, path) : ls_inspect_recipe(o, ui);
}
