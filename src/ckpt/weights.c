/* weights.c - opens weight files: a safetensors or .pt file, the shards that a model.safetensors.index.json
 * lists, or a DCP directory. It owns the mappings and everything parsed from them. The index of a sharded
 * model must list exactly the tensors of its shards; otherwise files of different models were mixed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/file.h"
#include "base/json.h"
#include "base/stop.h"
#include "base/sys.h"
#include "ckpt/dcp.h"
#include "ckpt/manifest.h"
#include "ckpt/pt.h"
#include "ckpt/rank_files.h"
#include "ckpt/safetensors.h"
#include "ckpt/select.h"

struct ls_weights {
    ls_arena arena;
    ls_mapping *maps; /* one for each file; NULL if the caller owns the bytes */
    int mapped;
    json_t *metadata;   /* of the first file */
    ls_weight *tensors; /* [room] */
    const ls_weight **by_name;
    int64_t count, room;
    int files;
    ls_manifest *proof;          /* verifies what is loaded; NULL: nothing is verified */
    const ls_dcp_bytes *objects; /* of the optimizer in a DCP directory */
    int64_t n_objects;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const ls_weight *const *)a)->name, (*(const ls_weight *const *)b)->name);
}

static ls_status index_names(ls_weights *w)
{
    w->by_name = LS_ARENA_ARRAY(&w->arena, const ls_weight *, w->count + 1);
    LS_TRY(ls_arena_status(&w->arena));
    for (int64_t i = 0; i < w->count; i++)
        w->by_name[i] = &w->tensors[i];
    if (w->count > 1)
        qsort(w->by_name, (size_t)w->count, sizeof *w->by_name, compare_names);
    for (int64_t i = 1; i < w->count; i++) {
        const ls_weight *a = w->by_name[i - 1], *b = w->by_name[i];
        char shown[128];
        if (strcmp(a->name, b->name) == 0 && a->file == b->file)
            return ls_fail(LS_E_FORMAT, "%s: two tensors are named \"%s\": rename one before saving", a->file,
                           ls_shown_name(shown, a->name));
        if (strcmp(a->name, b->name) == 0)
            return ls_fail(LS_E_FORMAT,
                           "tensor \"%s\" is both in %s and in %s: the shards are not of one model, or one "
                           "was saved twice",
                           ls_shown_name(shown, a->name), a->file, b->file);
    }
    return LS_OK;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Parses one file and appends its tensors. */
static ls_status add_file(ls_weights *w, const uint8_t *bytes, size_t size, const char *path)
{
    ls_weight *list = NULL;
    int64_t n = 0;
    json_t *metadata = NULL;
    if (ls_pt_is(bytes, size))
        LS_TRY(ls_pt_parse(&w->arena, bytes, size, path, &list, &n));
    else if (ends_with(path, ".pt") || ends_with(path, ".pth"))
        return ls_fail(
            LS_E_FORMAT,
            "%s: does not begin like what torch.save writes: the file is damaged, or something else", path);
    else
        LS_TRY(ls_safetensors_parse(&w->arena, bytes, size, path, &list, &n, &metadata));
    if (w->files == 0)
        w->metadata = metadata;
    else
        json_decref(metadata);
    if (w->count == 0) {
        w->tensors = list;
        w->room = n;
    } else if (w->count + n > w->room) { /* grows by doubling, because there may be thousands of files */
        w->room = 2 * (w->count + n);
        ls_weight *all = LS_ARENA_ARRAY(&w->arena, ls_weight, w->room);
        LS_TRY(ls_arena_status(&w->arena));
        memcpy(all, w->tensors, sizeof *all * (size_t)w->count);
        w->tensors = all;
    }
    if (w->count && n)
        memcpy(w->tensors + w->count, list, sizeof *list * (size_t)n);
    w->count += n;
    w->files++;
    return LS_OK;
}

static ls_status map_file(ls_weights *w, const char *path)
{
    ls_mapping *m = &w->maps[w->mapped];
    LS_TRY(ls_stop_check("opening %s", path));
    LS_TRY(ls_file_map(m, path));
    w->mapped++;
    return add_file(w, m->data, m->size, path);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of the shards' files, sorted, each once. */
static ls_status shard_names(ls_weights *w, json_t *map, const char *path, const char ***names, int *count)
{
    char shown[128];
    const char **list = LS_ARENA_ARRAY(&w->arena, const char *, json_object_size(map) + 1);
    LS_TRY(ls_arena_status(&w->arena));
    size_t n = 0;
    const char *key;
    json_t *value;
    json_object_foreach(map, key, value)
    {
        const char *file = json_string_value(value);
        if (!file)
            return ls_fail(LS_E_FORMAT, "%s: weight_map: \"%s\" does not name a file", path,
                           ls_shown_name(shown, key));
        if (file[0] == 0 || strchr(file, '/') || strcmp(file, ".") == 0 || strcmp(file, "..") == 0)
            return ls_fail(LS_E_FORMAT, "%s: weight_map: \"%s\" is not the name of a file beside the index",
                           path, ls_shown_name(shown, file));
        list[n++] = file;
    }
    if (n > 0)
        qsort(list, n, sizeof *list, compare_texts);
    int unique = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(list[i], list[i - 1]) != 0)
            list[unique++] = list[i];
    *names = list;
    *count = unique;
    return LS_OK;
}

/* Checks that each tensor of the index is in the file that the index names, and that the index lists every
 * tensor of the shards. */
static ls_status check_index(const ls_weights *w, json_t *map, const char *path)
{
    char shown[128], shown_file[128];
    const char *key;
    json_t *value;
    json_object_foreach(map, key, value)
    {
        const ls_weight *t = ls_weights_find(w, key);
        const char *file = json_string_value(value);
        if (!t)
            return ls_fail(LS_E_FORMAT,
                           "%s: tensor \"%s\" is said to be in %s, which does not hold it: a shard is "
                           "damaged or of another model",
                           path, ls_shown_name(shown, key), ls_shown_name(shown_file, file));
        const char *slash = strrchr(t->file, '/');
        if (strcmp(slash ? slash + 1 : t->file, file) != 0)
            return ls_fail(LS_E_FORMAT, "%s: tensor \"%s\" is said to be in %s, but is in %s", path,
                           ls_shown_name(shown, key), ls_shown_name(shown_file, file), t->file);
    }
    for (int64_t i = 0; i < w->count; i++)
        if (!json_object_get(map, w->tensors[i].name))
            return ls_fail(LS_E_FORMAT,
                           "%s: tensor \"%s\" of %s is not in the index: a shard is of another model, or the "
                           "index is older",
                           path, ls_shown_name(shown, w->tensors[i].name), w->tensors[i].file);
    return LS_OK;
}

static ls_status open_sharded(ls_weights *w, const char *dir, const char *index)
{
    char *text = NULL;
    size_t size = 0;
    LS_TRY(ls_file_read(&text, &size, index));
    json_t *root = NULL;
    ls_status s = ls_json_parse(&root, text, size, index);
    free(text);
    if (s != LS_OK)
        return ls_trace(s, __FILE__, __LINE__, __func__);
    json_t *map = json_object_get(root, "weight_map");
    const char **names = NULL;
    int n = 0;
    if (!json_is_object(map)) {
        s = ls_fail(LS_E_FORMAT, "%s: no \"weight_map\" object that says which file holds which tensor",
                    index);
        goto done;
    }
    LS_TRY_TO(s, shard_names(w, map, index, &names, &n), done);
    w->maps = LS_ARENA_ARRAY(&w->arena, ls_mapping, n);
    LS_TRY_TO(s, ls_arena_status(&w->arena), done);
    for (int i = 0; i < n; i++) {
        char *path = ls_path_join(dir, names[i]);
        s = map_file(w, path);
        if (s == LS_E_IO)
            ls_fail_in(s, "%s names this shard", index);
        free(path);
        if (s != LS_OK)
            goto done;
    }
    LS_TRY_TO(s, index_names(w), done);
    LS_TRY_TO(s, check_index(w, map, index), done);
done:
    json_decref(root);
    return s;
}

static ls_status open_single(ls_weights *w, const char *path)
{
    w->maps = LS_ARENA_ARRAY(&w->arena, ls_mapping, 1);
    LS_TRY(ls_arena_status(&w->arena));
    LS_TRY(map_file(w, path));
    if (ls_weights_metadata(w, LS_RANK_PARTS)) {
        LS_TRY(ls_rank_files_read(&w->tensors, &w->count, &w->arena, &w->maps, &w->mapped, path));
        w->files = w->mapped;
    }
    return index_names(w);
}

static ls_status map_dcp_files(ls_weights *w, const ls_dcp_index *x, const char *dir, const char *index,
                               const char **paths)
{
    ls_status s = LS_OK;
    w->maps = LS_ARENA_ARRAY(&w->arena, ls_mapping, x->n_files + 1);
    LS_TRY(ls_arena_status(&w->arena));
    for (; w->mapped < x->n_files && s == LS_OK; w->mapped += s == LS_OK) {
        char *path = ls_path_join(dir, x->files[w->mapped]);
        paths[w->mapped] = ls_arena_strdup(&w->arena, path);
        free(path);
        s = ls_arena_status(&w->arena);
        if (s == LS_OK)
            s = ls_file_map(&w->maps[w->mapped], paths[w->mapped]);
    }
    w->files = w->mapped;
    return s == LS_E_IO ? ls_fail_in(s, "%s names this file", index) : s;
}

static ls_status find_objects(ls_weights *w, const ls_dcp_index *x, const char **paths)
{
    ls_dcp_bytes *list = LS_ARENA_ARRAY(&w->arena, ls_dcp_bytes, x->n_objects + 1);
    LS_TRY(ls_arena_status(&w->arena));
    for (int64_t i = 0; i < x->n_objects; i++) {
        const ls_dcp_object *o = &x->objects[i];
        const ls_mapping *m = &w->maps[o->at.file];
        if (o->at.length > m->size || o->at.offset > m->size - o->at.length)
            return ls_fail(LS_E_FORMAT,
                           "%s: holds %zu bytes, and should have %s at %" PRIu64
                           ": the file is cut, or of another save: copy the directory again or save it again",
                           paths[o->at.file], m->size, o->name, o->at.offset);
        list[i] = (ls_dcp_bytes){ o->name, paths[o->at.file], m->data + o->at.offset, o->at.length };
    }
    w->objects = list;
    w->n_objects = x->n_objects;
    return LS_OK;
}

static ls_status open_dcp(ls_weights *w, const char *dir, const char *index, const ls_dcp_ask *ask)
{
    ls_mapping m;
    ls_dcp_index x;
    LS_TRY(ls_file_map(&m, index));
    ls_status s = ls_dcp_index_read(&x, &w->arena, m.data, m.size, index, ask);
    ls_file_unmap(&m);
    LS_TRY(s);
    const char **paths = LS_ARENA_ARRAY(&w->arena, const char *, x.n_files + 1),
               *where = ls_arena_strdup(&w->arena, dir);
    LS_TRY(ls_arena_status(&w->arena));
    LS_TRY(map_dcp_files(w, &x, dir, index, paths));
    LS_TRY(find_objects(w, &x, paths));
    w->tensors = LS_ARENA_ARRAY(&w->arena, ls_weight, x.n + 1);
    LS_TRY(ls_arena_status(&w->arena));
    for (; w->count < x.n; w->count++) {
        LS_TRY(ls_stop_check("opening %s", where));
        LS_TRY(ls_dcp_tensor_read(&w->tensors[w->count], &w->arena, &x, w->count, w->maps, paths, where));
    }
    return index_names(w);
}

static ls_status open_directory(ls_weights *w, const char *dir)
{
    static const char *const NAMES[] = { "model.safetensors", ("model" LS_RANK_FILE_FIRST),
                                         "model.safetensors.index.json", LS_DCP_INDEX };
    int i = 0;
    while (i < 4 && !ls_file_in(dir, NAMES[i]))
        i++;
    if (i == 4)
        return ls_fail(LS_E_IO,
                       "%s: no model.safetensors, no model.safetensors.index.json and no .metadata in this "
                       "directory: name a weight file, or a directory with one",
                       dir);
    char *path = ls_path_join(dir, NAMES[i]);
    const ls_status s = !path    ? ls_sys_have(path)
                        : i <= 1 ? open_single(w, path)
                        : i == 2 ? open_sharded(w, dir, path)
                                 : open_dcp(w, dir, path, NULL);
    free(path);
    return s;
}

bool ls_dcp_is(const char *dir) { return ls_file_in(dir, LS_DCP_INDEX); }

ls_status ls_dcp_open(ls_weights **out, const char *dir, const ls_dcp_ask *ask)
{
    ls_weights *w = ls_sys_calloc(1, sizeof *w);
    *out = NULL;
    if (!w)
        return ls_fail(LS_E_MEMORY, "%s: out of memory", dir);
    char *index = ls_path_join(dir, LS_DCP_INDEX);
    ls_arena_init(&w->arena);
    ls_status s = open_dcp(w, dir, index, ask);
    free(index);
    if (s != LS_OK)
        ls_weights_close(&w);
    *out = w;
    return s;
}

const ls_dcp_bytes *ls_dcp_objects(const ls_weights *w, int64_t *n)
{
    *n = w->n_objects;
    return w->objects;
}

ls_status ls_weights_open(ls_weights **out, const char *path)
{
    LS_ARG(out);
    LS_ARG(path);
    *out = NULL;
    ls_weights *w = ls_sys_calloc(1, sizeof *w);
    if (!w)
        return ls_fail(LS_E_MEMORY, "%s: out of memory", path);
    ls_arena_init(&w->arena);
    ls_status s;
    if (ls_dir_exists(path)) {
        s = open_directory(w, path);
    } else if (ends_with(path, ".safetensors.index.json")) {
        const char *slash = strrchr(path, '/');
        char *dir = slash ? ls_sys_strndup(path, slash == path ? 1 : (size_t)(slash - path))
                          : ls_sys_strdup(".");
        s = dir ? open_sharded(w, dir, path) : ls_sys_have(dir);
        free(dir);
    } else {
        s = open_single(w, path);
    }
    s = ls_arena_outcome(&w->arena, s);
    if (s != LS_OK)
        ls_weights_close(&w);
    *out = w;
    return s;
}

ls_status ls_weights_open_memory(ls_weights **out, const void *bytes, size_t n, const char *what)
{
    LS_ARG(out);
    if (n)
        LS_ARG(bytes);
    LS_ARG(what);
    *out = NULL;
    ls_weights *w = ls_sys_calloc(1, sizeof *w);
    if (!w)
        return ls_fail(LS_E_MEMORY, "%s: out of memory", what);
    ls_arena_init(&w->arena);
    ls_status s = add_file(w, bytes, n, what);
    if (s == LS_OK && ls_weights_metadata(w, LS_RANK_PARTS))
        s = ls_fail(LS_E_UNSUPPORTED,
                    "%s: holds one rank's part of a checkpoint, which is read as a folder of files only",
                    what);
    if (s == LS_OK)
        s = index_names(w);
    if (s != LS_OK)
        ls_weights_close(&w);
    *out = w;
    return s;
}

void ls_weights_close(ls_weights **w)
{
    if (!w || !*w)
        return;
    ls_weights *x = *w;
    for (int i = 0; i < x->mapped; i++)
        ls_file_unmap(&x->maps[i]);
    json_decref(x->metadata);
    ls_arena_release(&x->arena);
    free(x);
    *w = NULL;
}

int64_t ls_weights_count(const ls_weights *w)
{
    LS_ARG_OR(w, 0);
    return w->count;
}

const ls_weight *ls_weights_at(const ls_weights *w, int64_t i)
{
    LS_ARG_OR(w, NULL);
    return i >= 0 && i < w->count ? &w->tensors[i] : NULL;
}

const ls_weight *ls_weights_find(const ls_weights *w, const char *name)
{
    LS_ARG_OR(w, NULL);
    LS_ARG_OR(name, NULL);
    ls_weight key = { .name = name };
    const ls_weight *wanted = &key;
    if (w->count == 0)
        return NULL;
    const ls_weight **found = bsearch(&wanted, w->by_name, (size_t)w->count, sizeof *w->by_name,
                                      compare_names);
    return found ? *found : NULL;
}

ls_status ls_weights_add_name(ls_weights *w, const char *name, const char *of)
{
    LS_ARG(w);
    LS_ARG(name);
    LS_ARG(of);
    const ls_weight *t = ls_weights_find(w, of);
    char shown[128];
    if (!t || ls_weights_find(w, name))
        return ls_fail(LS_E_ARG, "ls_weights_add_name: %s \"%s\"",
                       t ? "there is a tensor named" : "there is no tensor",
                       ls_shown_name(shown, t ? name : of));
    ls_weight *all = LS_ARENA_ARRAY(&w->arena, ls_weight, w->count + 1);
    LS_TRY(ls_arena_status(&w->arena));
    memcpy(all, w->tensors, sizeof *all * (size_t)w->count);
    all[w->count] = *t;
    all[w->count++].name = ls_arena_strdup(&w->arena, name);
    w->tensors = all;
    w->room = w->count;
    return index_names(w);
}

void ls_weights_leave_out(ls_weights *w, const char *name, const char *of)
{
    LS_ARG_VOID(w);
    LS_ARG_VOID(name);
    const ls_weight *t = ls_weights_find(w, name), *same = of ? ls_weights_find(w, of) : NULL;
    if (!t || (of && !(same && ls_weight_equal(t, same))))
        return;
    const int64_t at = t - w->tensors;
    memmove(w->tensors + at, w->tensors + at + 1, sizeof *w->tensors * (size_t)(--w->count - at));
    for (int64_t i = 0; i < w->count; i++)
        w->by_name[i] = &w->tensors[i];
    qsort(w->by_name, (size_t)w->count, sizeof *w->by_name, compare_names);
}

ls_status ls_weights_select(ls_weights *w, ls_weight_namer name_of, void *context)
{
    int64_t n = 0;
    for (int64_t i = 0; i < w->count; i++) {
        const char *name = name_of(context, w->tensors[i].name);
        if (!name)
            continue;
        w->tensors[n] = w->tensors[i];
        w->tensors[n++].name = ls_arena_strdup(&w->arena, name);
    }
    w->count = n;
    return index_names(w);
}

int ls_weights_file_count(const ls_weights *w)
{
    LS_ARG_OR(w, 0);
    return w->files;
}

const char *ls_weights_metadata(const ls_weights *w, const char *key)
{
    LS_ARG_OR(w, NULL);
    LS_ARG_OR(key, NULL);
    return json_string_value(json_object_get(w->metadata, key));
}

void ls_weights_prove(ls_weights *w, ls_manifest *m)
{
    if (w)
        w->proof = m;
}

ls_manifest *ls_weights_proof(const ls_weights *w) { return w->proof; }
