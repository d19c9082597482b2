/* inspect_command.c - `lockstep inspect`: what is in a weight file, a checkpoint, a run, or a recipe's model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sys.h"
#include "ckpt/checkpoint.h"
#include "ckpt/pt.h"
#include "inspect_recipe.h"
#include "module_tree.h"
#include "target.h"

static ls_status print_json(FILE *out, const char *path, int64_t n, const ls_tree_item *items)
{
    ls_json j = { 0 };
    int64_t elements = 0;
    ls_json_object(&j, NULL);
    ls_json_text(&j, "path", path);
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

static ls_status show(const ls_inspect_opts *o, const ls_ui *ui, const char *title, int64_t n,
                      ls_tree_item *items)
{
    if (o->json)
        return print_json(ui->out, title, n, items);
    ls_module_tree_print(ui->out, title, n, items);
    return LS_OK;
}

static ls_status inspect_weights(const ls_inspect_opts *o, const ls_ui *ui, const char *path)
{
    ls_weights *w;
    LS_TRY(ls_target_weights(&w, path, o->prefix));
    int64_t n = ls_weights_count(w);
    ls_tree_item *items = ls_sys_calloc((size_t)n + 1, sizeof *items);
    if (!items) {
        ls_weights_close(&w);
        return ls_fail(LS_E_MEMORY, "out of memory for a list of %lld tensors", (long long)n);
    }
    for (int64_t i = 0; i < n; i++) {
        const ls_weight *t = ls_weights_at(w, i);
        items[i] = (ls_tree_item){ .name = t->name, .stored = t->stored, .type = t->type };
    }
    ls_tree_sort(n, items);
    const ls_status s = show(o, ui, path, n, items);
    free(items);
    ls_weights_close(&w);
    return s;
}

static ls_status inspect_checkpoint(const ls_inspect_opts *o, const ls_ui *ui, const char *dir)
{
    int files = 0;
    if (o->verify) {
        LS_TRY(ls_checkpoint_verify(dir, LS_VERIFY_FULL, &files));
        fprintf(ui->out, "%s: every byte of %d files matches the manifest\n", dir, files);
    }
    return inspect_weights(o, ui, dir);
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static bool is_weights(const char *path)
{
    static const char *const ENDS[] = { ".safetensors", ".json", ".pt", ".pth", ".bin" };
    bool is = false;
    for (size_t i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++)
        is = is || ends_with(path, ENDS[i]);
    return is;
}

/* --verify of a weight file: it has no manifest, but a file of torch.save has checksums. */
static ls_status verify_file(const char *path, const ls_ui *ui)
{
    int64_t entries;
    if (ends_with(path, ".safetensors") || ends_with(path, ".json") || !is_weights(path))
        return ls_fail(LS_E_USAGE,
                       "--verify: %s has no checksums; a checkpoint folder, a run or a .pt file has", path);
    LS_TRY(ls_pt_verify(path, &entries));
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
    const char *path = o->target.name;
    if (o->prefix)
        return inspect_folder(o, ui, path);
    if (ls_dir_exists(path)) {
        if (ls_checkpoint_is(path))
            return inspect_checkpoint(o, ui, path);
        char *latest = ls_path_join(path, "checkpoints/latest");
        ls_status s = !latest                    ? ls_sys_have(latest)
                      : ls_checkpoint_is(latest) ? inspect_checkpoint(o, ui, latest)
                                                 : inspect_folder(o, ui, path);
        free(latest);
        return s;
    }
    if (o->verify)
        LS_TRY(verify_file(path, ui));
    return is_weights(path) ? inspect_weights(o, ui, path) : ls_inspect_recipe(o, ui);
}
