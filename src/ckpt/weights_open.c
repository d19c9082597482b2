/* weights_open.c - opens weight files: a safetensors or .pt file, the shards that an index lists, what the
 * ranks of HuggingFaceStorageWriter wrote, or a DCP directory. The index of a sharded model must list exactly
 * the tensors of its shards; otherwise files of different models were mixed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/stop.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/adapter.h"
#include "ckpt/foreign.h"
#include "ckpt/hf_shards.h"
#include "ckpt/nf4.h"
#include "ckpt/rank_files.h"
#include "ckpt/safetensors.h"
#include "ckpt/weights_own.h"

static ls_status map_file(ls_weights *w, const char *path)
{
    ls_mapping *m = &w->maps[w->mapped];
    LS_TRY(ls_stop_check("opening %s", path));
    LS_TRY(ls_file_map(m, path));
    w->mapped++;
    return ls_weights_add_file(w, m->data, m->size, path);
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
    LS_TRY_TO(s, ls_weights_index(w), done);
    LS_TRY_TO(s, check_index(w, map, index), done);
done:
    json_decref(root);
    return s;
}

static ls_status open_single(ls_weights *w, const char *path)
{
    w->maps = LS_ARENA_ARRAY(&w->arena, ls_mapping, 1);
    LS_TRY(ls_arena_status(&w->arena));
    bool shard;
    LS_TRY(map_file(w, path));
    LS_TRY(ls_hf_shard_is(&shard, path, w->metadata));
    if (ls_weights_metadata(w, LS_RANK_PARTS)) {
        LS_TRY(ls_rank_files_read(&w->tensors, &w->count, &w->arena, &w->maps, &w->mapped, path));
        w->files = w->mapped;
    } else if (shard)
        return ls_fail(
            LS_E_USAGE,
            "%s: holds only one rank's part of what PyTorch's HuggingFaceStorageWriter saved: name "
            "the folder that it is in",
            path);
    return ls_weights_index(w);
}

static ls_status open_file_of(ls_weights *w, const char *dir, const char *path)
{
    (void)dir;
    return open_single(w, path);
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
    return ls_weights_index(w);
}

static ls_status open_dcp_of(ls_weights *w, const char *dir, const char *path)
{
    return open_dcp(w, dir, path, NULL);
}

/* Maps and parses the shards. *parsed: how many have a `metadata` to release. */
static ls_status read_shards(ls_weights *w, const char *dir, const char *const *names, int n,
                             ls_hf_shard *shards, int *parsed)
{
    for (; *parsed < n; ++*parsed) {
        ls_hf_shard *f = &shards[*parsed];
        ls_mapping *m = &w->maps[w->mapped];
        f->path = ls_arena_printf(&w->arena, "%s/%s", dir, names[*parsed]);
        LS_TRY(ls_arena_status(&w->arena));
        LS_TRY(ls_stop_check("opening %s", f->path));
        LS_TRY(ls_file_map(m, f->path));
        w->mapped++;
        LS_TRY(ls_safetensors_parse(&w->arena, m->data, m->size, f->path, &f->list, &f->n, &f->metadata));
    }
    return LS_OK;
}

static ls_status open_shards(ls_weights *w, const char *dir, const char *const *names, int n)
{
    int parsed = 0;
    ls_hf_shard *shards = ls_sys_calloc((size_t)n, sizeof *shards);
    const char *where = ls_arena_strdup(&w->arena, dir);
    w->maps = LS_ARENA_ARRAY(&w->arena, ls_mapping, n);
    ls_status s = ls_sys_have(shards);
    if (s == LS_OK)
        s = ls_arena_status(&w->arena);
    if (s == LS_OK)
        s = read_shards(w, dir, names, n, shards, &parsed);
    if (s == LS_OK)
        s = ls_hf_shards_join(&w->tensors, &w->count, &w->arena, shards, n, where);
    w->files = w->mapped;
    for (int i = 0; shards && i < n; i++)
        if (i == 0)
            w->metadata = shards[i].metadata;
        else
            json_decref(shards[i].metadata);
    free(shards);
    return s == LS_OK ? ls_weights_index(w) : s;
}

/* Its tensors have the names that they have in the model. */
static ls_status open_adapter(ls_weights *w, const char *dir, const char *path)
{
    const size_t n = strlen(LS_ADAPTER_PREFIX);
    (void)dir;
    LS_TRY(open_single(w, path));
    for (int64_t i = 0; i < w->count; i++)
        if (!strncmp(w->tensors[i].name, LS_ADAPTER_PREFIX, n) && w->tensors[i].name[n])
            w->tensors[i].name += n;
    return ls_weights_index(w);
}

static ls_status open_directory(ls_weights *w, const char *dir)
{
    static const struct {
        const char *name;
        ls_status (*open)(ls_weights *w, const char *dir, const char *path);
    } KINDS[] = {
        { "model.safetensors", open_file_of },
        { ("model" LS_RANK_FILE_FIRST), open_file_of },
        { "model.safetensors.index.json", open_sharded },
        { LS_DCP_INDEX, open_dcp_of },
        { "pytorch_model.bin", open_file_of },
        { "pytorch_model.bin.index.json", open_sharded },
        { (LS_ADAPTER_WEIGHTS ".safetensors"), open_adapter },
        { (LS_ADAPTER_WEIGHTS LS_RANK_FILE_FIRST), open_adapter },
        { (LS_ADAPTER_WEIGHTS ".bin"), open_adapter },
        { (LS_TRAINED_WEIGHTS ".safetensors"), open_file_of },
        { (LS_TRAINED_WEIGHTS ".safetensors.index.json"), open_sharded },
        { (LS_TRAINED_WEIGHTS LS_RANK_FILE_FIRST), open_file_of },
    };
    const char **shards;
    int n;
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (ls_file_in(dir, KINDS[i].name)) {
            char *path = ls_path_join(dir, KINDS[i].name);
            const ls_status s = path ? KINDS[i].open(w, dir, path) : ls_sys_have(path);
            free(path);
            return s;
        }
    LS_TRY(ls_hf_shard_names(&shards, &n, &w->arena, dir));
    return n ? open_shards(w, dir, shards, n) : ls_foreign_refuse(dir);
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
    } else if (ls_ends_with(path, ".safetensors.index.json") || ls_ends_with(path, ".bin.index.json")) {
        const char *slash = strrchr(path, '/');
        char *dir = slash ? ls_sys_strndup(path, slash == path ? 1 : (size_t)(slash - path))
                          : ls_sys_strdup(".");
        s = dir ? open_sharded(w, dir, path) : ls_sys_have(dir);
        free(dir);
    } else {
        s = open_single(w, path);
    }
    if (s == LS_OK)
        s = ls_nf4_join(w);
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
    ls_status s = ls_weights_add_file(w, bytes, n, what);
    if (s == LS_OK && ls_weights_metadata(w, LS_RANK_PARTS))
        s = ls_fail(LS_E_UNSUPPORTED,
                    "%s: holds one rank's part of a checkpoint, which is read as a folder of files only",
                    what);
    if (s == LS_OK)
        s = ls_weights_index(w);
    if (s == LS_OK)
        s = ls_arena_outcome(&w->arena, ls_nf4_join(w));
    if (s != LS_OK)
        ls_weights_close(&w);
    *out = w;
    return s;
}
