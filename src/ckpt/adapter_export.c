/* adapter_export.c - writes an adapter's folder for PEFT. */
#include <stdlib.h>

#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/adapter.h"
#include "ckpt/folder.h"
#include "ckpt/select.h"

typedef struct adapter_naming {
    ls_arena arena;
} adapter_naming;

static const char *behind_prefix(void *context, const char *name)
{
    return ls_arena_printf(&((adapter_naming *)context)->arena, LS_ADAPTER_PREFIX "%s", name);
}

static ls_status adapter_write(ls_folder *f, const ls_weights *w, const char *config,
                               const ls_weights_export_opts *o)
{
    ls_str text = { 0 };
    char *weights = ls_path_join(f->unfinished, LS_ADAPTER_WEIGHTS ".safetensors"),
         *settings = ls_path_join(f->unfinished, LS_ADAPTER_CONFIG);
    ls_str_add(&text, config);
    ls_status s = ls_sys_have(weights && settings ? weights : NULL);
    if (s == LS_OK)
        s = ls_folder_begin(f);
    if (s == LS_OK)
        s = ls_weights_export_with(w, weights, o);
    if (s == LS_OK)
        s = ls_str_status(&text);
    if (s == LS_OK)
        s = ls_file_write_text(settings, &text);
    if (s == LS_OK)
        s = ls_folder_commit(f);
    ls_str_release(&text);
    free(settings);
    free(weights);
    return s;
}

ls_status ls_adapter_export(ls_weights *w, const char *config, const char *path,
                            const ls_weights_export_opts *o)
{
    adapter_naming n = { 0 };
    ls_folder f;
    ls_arena_init(&n.arena);
    ls_status s = ls_arena_outcome(&n.arena, ls_weights_select(w, behind_prefix, &n));
    ls_arena_release(&n.arena);
    LS_TRY(s);
    s = ls_folder_init(&f, path);
    f.replace = o->replace;
    if (s == LS_OK)
        s = adapter_write(&f, w, config, o);
    ls_folder_release(&f);
    return s;
}
