/* dcp.c - the tensors of a DCP directory, from its index and files. Each chunk is the only tensor of an
 * archive of torch.save, and must be what the index says. */
#include "base/sys.h"
#include "ckpt/dcp.h"

#include <inttypes.h>
#include <string.h>

#include "ckpt/parts.h"
#include "ckpt/pt.h"
#include "ckpt/safetensors.h"

static ls_status dcp_bad(const char *path, const char *name, const char *what)
{
    char shown[128];
    return ls_fail(LS_E_FORMAT,
                   "%s: tensor \"%s\": %s: the files are not of one save, or damaged: copy the directory "
                   "again or save it again",
                   path, ls_shown_name(shown, name), what);
}

static ls_status read_chunk(ls_weight **out, ls_arena *arena, const ls_dcp_tensor *t, const ls_dcp_chunk *c,
                            const ls_mapping *map, const char *path)
{
    char shown[128], what[160];
    ls_weight *list;
    int64_t n;
    if (c->at.length > map->size || c->at.offset > map->size - c->at.length)
        return ls_fail(LS_E_FORMAT,
                       "%s: holds %zu bytes; a chunk of tensor \"%s\" should be at %" PRIu64 " to %" PRIu64
                       ": the file is cut, or of another "
                       "save: copy the directory again or save it again",
                       path, map->size, ls_shown_name(shown, t->name), c->at.offset,
                       c->at.offset + c->at.length);
    if (!ls_pt_is(map->data + c->at.offset, c->at.length)) {
        snprintf(what, sizeof what, "what is at byte %" PRIu64 " is not of torch.save", c->at.offset);
        return dcp_bad(path, t->name, what);
    }
    const char *where = ls_arena_printf(arena, "%s, from byte %" PRIu64 " on", path, c->at.offset);
    LS_TRY(ls_arena_status(arena));
    LS_TRY(ls_pt_parse(arena, map->data + c->at.offset, c->at.length, where, &list, &n));
    bool fits = n == 1 && list->type.ndim == t->type.ndim;
    for (int i = 0; fits && i < t->type.ndim; i++)
        fits = list->type.dims[i] == c->box.size[i];
    if (!fits || strcmp(list->stored, t->stored) != 0) {
        char have[192], want[192];
        ls_type box = t->type;
        for (int i = 0; i < box.ndim; i++)
            box.dims[i] = c->box.size[i];
        return ls_fail(LS_E_FORMAT,
                       "%s: a chunk of tensor \"%s\" should be %s %s, there is %s %s: the files are not of "
                       "one save: save it again",
                       where, ls_shown_name(shown, t->name), t->stored, ls_shown_dims(want, &box),
                       n == 1 ? list->stored : "no tensor", n == 1 ? ls_shown_dims(have, &list->type) : "");
    }
    list->offset += c->at.offset;
    list->file = path;
    *out = list;
    return LS_OK;
}

ls_status ls_dcp_tensor_read(ls_weight *out, ls_arena *arena, const ls_dcp_index *x, int64_t i,
                             const ls_mapping *maps, const char *const *paths, const char *dir)
{
    const ls_dcp_tensor *t = &x->tensors[i];
    struct ls_weight_parts *parts = LS_ARENA_NEW(arena, struct ls_weight_parts);
    LS_TRY(ls_sys_have(parts));
    *parts = (struct ls_weight_parts){ .n = t->n,
                                       .at = LS_ARENA_ARRAY(arena, struct ls_weight_part, t->n + 1) };
    LS_TRY(ls_arena_status(arena));
    for (int64_t k = 0; k < t->n; k++) {
        const ls_dcp_chunk *c = &t->chunks[k];
        parts->at[k].box = c->box;
        LS_TRY(read_chunk(&parts->at[k].tensor, arena, t, c, &maps[c->at.file], paths[c->at.file]));
    }
    if (t->n == 1)
        *out = *parts->at[0].tensor;
    else
        *out = (ls_weight){ .file = dir,
                            .stored = t->stored,
                            .loadable = t->loadable,
                            .type = t->type,
                            .bytes = t->bytes,
                            .parts = t->n ? parts : NULL };
    out->name = t->name;
    return LS_OK;
}
