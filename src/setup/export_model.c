/* export_model.c - see export_model.h. */
#include "export_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/dcp.h"
#include "ckpt/export_folder.h"
#include "companions.h"
#include "folder.h"

/* config.json with the type that the weights get: transformers loads them in that type. */
static ls_status read_config(char **out, const char *dir, const ls_dtype *floats)
{
    static const char *const TYPES[] = { "torch_dtype", "dtype" };
    char *path = ls_path_join(dir, "config.json");
    json_t *j = NULL;
    size_t size = 0;
    ls_status s = ls_file_read(out, &size, path);
    if (s == LS_OK)
        s = ls_json_parse(&j, *out, size, path);
    const char *name = !floats              ? NULL
                       : *floats == LS_BF16 ? "bfloat16"
                       : *floats == LS_F16  ? "float16"
                                            : "float32";
    bool changed = false;
    for (int i = 0; i < 2 && name && s == LS_OK; i++)
        if (json_object_get(j, TYPES[i])) {
            json_object_set_new(j, TYPES[i], json_string(name));
            changed = true;
        }
    if (changed) {
        free(*out);
        *out = json_dumps(j, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
        s = ls_sys_have(*out);
    }
    json_decref(j);
    free(path);
    return s;
}

static ls_status write_folder(const ls_weights *w, const char *from, const char *to,
                              const ls_weights_export_opts *o)
{
    ls_companions beside;
    char *config = NULL;
    if (!ls_file_in(from, "config.json"))
        return ls_fail(LS_E_USAGE,
                       "%s: has no config.json, which a folder for transformers needs; a name that ends in "
                       ".safetensors takes the weights alone, one in .dcp (or --format dcp) a directory of "
                       "torch.distributed.checkpoint",
                       from);
    ls_status s = ls_companions_in(&beside, from);
    if (s == LS_OK)
        s = read_config(&config, from, o->floats);
    if (s == LS_OK)
        s = ls_companions_add_text(&beside, "config.json", config);
    if (s == LS_OK)
        s = ls_weights_export_folder(w, to, "model", beside.at, beside.n, ls_companion_is, o);
    ls_companions_release(&beside);
    return s;
}

ls_status ls_export_model(ls_weights *w, const char *from, const char *to, const ls_export_how *how)
{
    const ls_weights_export_opts *o = how->opts;
    if (how->format == LS_EXPORT_PT || how->format == LS_EXPORT_DCP)
        LS_TRY(ls_folder_add_names(w, from));
    switch (how->format) {
    case LS_EXPORT_DCP: return ls_dcp_export(w, NULL, how->prefix, to, o);
    case LS_EXPORT_GGUF: return ls_gguf_export(w, from, to, how->mix, o);
    case LS_EXPORT_FOLDER: return write_folder(w, from, to, o);
    default: return ls_weights_export_with(w, to, o);
    }
}

void ls_export_said(ls_str *out, int64_t tensors, const char *to, ls_export_format format)
{
    char size[32];
    ls_format_bytes(size, (uint64_t)ls_file_size(to));
    ls_str_printf(out, "%s: %" PRId64 " tensors, %s", to, tensors,
                  format == LS_EXPORT_DCP      ? "a DCP directory"
                  : format == LS_EXPORT_FOLDER ? "a folder for transformers"
                  : format == LS_EXPORT_PEFT   ? "a folder for PEFT"
                                               : size);
}
