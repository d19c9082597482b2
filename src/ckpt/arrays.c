/* arrays.c - saves and loads blocks of a program's own arrays, as ranges of a checkpoint's tensors. The ranks
 * first compare what they want to save, so that a mistake is reported with the array's name before any file
 * is made. */
#include "lockstep/checkpoint.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/argument.h"
#include "base/background.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/sys.h"
#include "ckpt/checkpoint.h"
#include "ckpt/checkpoint_head.h"
#include "comm/group_calls.h"

typedef struct blocks {
    const char *dir;
    int64_t n;
    const ls_array *arrays;
    ls_group *group;
    ls_arena arena;
    ls_box *boxes;
    ls_tensor_list list;
    bool copy;    /* copies all blocks, not only those with strides */
    char *packed; /* the copies, each contiguous */
} blocks;

static ls_status arrays_bad(const ls_array *a, const char *what)
{
    return ls_fail(LS_E_ARG, "array \"%s\": %s", a->name, what);
}

/* Checks the array and this rank's block of it, whose box goes to *box. */
static ls_status check_array(const blocks *b, int64_t i, ls_box *box)
{
    const ls_array *a = &b->arrays[i];
    const ls_type *t = &a->type, *mine = &a->block.type;
    if (!a->name || !*a->name)
        return ls_fail(LS_E_ARG, "array %" PRId64 " has no name", i);
    if (!ls_type_is_sound(t))
        return arrays_bad(a, "its element type or its shape is not valid");
    if (mine->dtype != t->dtype || mine->ndim != t->ndim)
        return arrays_bad(a, "its block is of another element type or number of dimensions");
    *box = ls_box_of(t);
    memcpy(box->start, a->start, sizeof box->start);
    memcpy(box->size, mine->dims, sizeof box->size);
    if (!ls_box_inside(box))
        return arrays_bad(a, "its block leads out of it");
    return b->list.mine[i].count > 0 && !a->block.data ? arrays_bad(a, "its block has no memory") : LS_OK;
}

/* Makes the list of tensors, with this rank's part of each. Their data come later. */
static ls_status make_list(blocks *b)
{
    if (b->n < 1)
        return ls_fail(LS_E_ARG, "%s: a checkpoint holds at least one array", b->dir);
    b->boxes = LS_ARENA_ARRAY(&b->arena, ls_box, b->n);
    ls_named_tensor *tensors = LS_ARENA_ARRAY(&b->arena, ls_named_tensor, b->n);
    ls_range *mine = LS_ARENA_ARRAY(&b->arena, ls_range, b->n);
    LS_TRY(ls_arena_status(&b->arena));
    b->list = (ls_tensor_list){ .n = b->n, .tensors = tensors, .mine = mine };
    for (int64_t i = 0; i < b->n; i++) {
        const ls_array *a = &b->arrays[i];
        mine[i].count = ls_type_count(&a->block.type);
        LS_TRY(check_array(b, i, &b->boxes[i]));
        tensors[i] = (ls_named_tensor){ ls_arena_strdup(&b->arena, a->name), ls_tensor_of(NULL, &a->type) };
        mine[i].box = &b->boxes[i];
        mine[i].differ = true;
    }
    return ls_arena_status(&b->arena);
}

/* ---- copies of blocks */

typedef enum direction { PACK, UNPACK } direction;

/* Copies between a block with strides and contiguous memory. */
static void move(const ls_tensor *block, char *packed, direction way)
{
    const ls_type *t = &block->type;
    const size_t size = ls_dtype_size(t->dtype);
    if (ls_tensor_is_contiguous(block)) {
        memcpy(way == PACK ? packed : block->data, way == PACK ? block->data : packed, ls_type_bytes(t));
        return;
    }
    const int64_t count = ls_type_count(t);
    int64_t index[LS_MAX_DIMS] = { 0 }, at = 0;
    for (int64_t i = 0; i < count; i++) {
        char *memory = (char *)block->data + at * (int64_t)size;
        memcpy(way == PACK ? packed : memory, way == PACK ? memory : packed, size);
        packed += size;
        for (int d = t->ndim - 1; d >= 0; d--) { /* goes to the next element */
            at += block->strides[d];
            if (++index[d] < t->dims[d])
                break;
            at -= block->strides[d] * t->dims[d];
            index[d] = 0;
        }
    }
}

static bool is_copied(const blocks *b, int64_t i)
{
    const ls_tensor *block = &b->arrays[i].block;
    return ls_type_count(&block->type) > 0 && (b->copy || !ls_tensor_is_contiguous(block));
}

/* Gives every range its memory: the block itself, or room for a contiguous copy of it. */
static ls_status find_memory(blocks *b)
{
    size_t bytes = 0;
    ls_range *mine = (ls_range *)b->list.mine;
    for (int64_t i = 0; i < b->n; i++)
        bytes += is_copied(b, i) ? ls_type_bytes(&b->arrays[i].block.type) : 0;
    b->packed = bytes ? ls_sys_malloc(bytes) : NULL;
    if (bytes && !b->packed)
        return ls_fail(LS_E_MEMORY, "%s: out of memory for a copy of the blocks, %zu bytes", b->dir, bytes);
    char *next = b->packed;
    for (int64_t i = 0; i < b->n; i++) {
        mine[i].data = is_copied(b, i) ? next : b->arrays[i].block.data;
        next += is_copied(b, i) ? ls_type_bytes(&b->arrays[i].block.type) : 0;
    }
    return LS_OK;
}

static void move_all(const blocks *b, direction way)
{
    for (int64_t i = 0; i < b->n; i++)
        if (is_copied(b, i))
            move(&b->arrays[i].block, b->list.mine[i].data, way);
}

/* ---- comparing with the other ranks */

static ls_status identity(const blocks *b, uint64_t *hash)
{
    ls_str s = { 0 };
    for (int64_t i = 0; i < b->n; i++) {
        const ls_type *t = &b->arrays[i].type;
        ls_str_printf(&s, "%s %s", b->arrays[i].name, ls_dtype_name(t->dtype));
        for (int d = 0; d < t->ndim; d++)
            ls_str_printf(&s, " %" PRId64, t->dims[d]);
        ls_str_add(&s, "\n");
    }
    *hash = ls_hash64(ls_str_text(&s), s.len);
    const ls_status status = ls_str_status(&s);
    ls_str_release(&s);
    return status;
}

static ls_status compare_ranks(const blocks *b)
{
    const int ranks = ls_group_size(b->group);
    uint64_t mine, *all;
    LS_TRY(ls_checkpoint_together(b->group, identity(b, &mine)));
    LS_TRY(ls_group_all_gather_new(b->group, &mine, sizeof mine, (void **)&all));
    int r = 1;
    while (r < ranks && all[r] == all[0])
        r++;
    free(all);
    return r == ranks
               ? LS_OK
               : ls_fail(LS_E_USAGE,
                         "%s: rank %d names other arrays, or other types or shapes of them, than rank 0",
                         b->dir, r);
}

/* Checks that the ranks' blocks make up whole arrays, as far as that is easy, in order to report the array's
 * name (the manifest finds all gaps). An array that every rank has whole is written by rank 0. */
static ls_status check_counts(blocks *b)
{
    const int ranks = b->group ? ls_group_size(b->group) : 1, rank = b->group ? ls_group_rank(b->group) : 0;
    int64_t *counts = LS_ARENA_ARRAY(&b->arena, int64_t, b->n);
    ls_range *mine = (ls_range *)b->list.mine;
    LS_TRY(ls_checkpoint_together(b->group, ls_sys_have(counts)));
    for (int64_t i = 0; i < b->n; i++)
        counts[i] = mine[i].count;
    if (b->group)
        LS_TRY(ls_group_all_reduce(b->group, counts, b->n, LS_I64, LS_REDUCE_SUM));
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t all = ls_type_count(&b->arrays[i].type);
        if (counts[i] != all && counts[i] != ranks * all)
            return ls_fail(LS_E_ARG,
                           "array \"%s\": the blocks of all ranks have %" PRId64
                           " elements, the array has %" PRId64,
                           b->arrays[i].name, counts[i], all);
        if (counts[i] != all && rank > 0)
            mine[i].count = 0;
    }
    return LS_OK;
}

/* Makes all ranks return the same status. */
static ls_status arrays_begin(blocks *b)
{
    ls_arena_init(&b->arena);
    ls_status s = make_list(b);
    if (s == LS_OK)
        s = find_memory(b);
    s = ls_checkpoint_together(b->group, s);
    return s == LS_OK && b->group ? compare_ranks(b) : s;
}

static void end(blocks *b)
{
    free(b->packed);
    ls_arena_release(&b->arena);
}

/* ---- the calls */

static char *trainer_json(const blocks *b, const char *text)
{
    const int ranks = b->group ? ls_group_size(b->group) : 1;
    return ls_checkpoint_head_json(
        &(ls_checkpoint_head){ .step = -1, .last_epoch = -1, .world = ranks, .text = text });
}

/* ---- one save at a time in a folder: it deletes what others have left there */

typedef struct under_way {
    char *parent;
    struct under_way *next;
} under_way;
static pthread_mutex_t saves_lock = PTHREAD_MUTEX_INITIALIZER;
static under_way *saves; /* in the background, of this process */

/* The folder around `dir`, by the path that all names of it have; NULL: no memory. */
static char *parent_of(const char *dir)
{
    char *text = ls_sys_strdup(dir), *path;
    size_t n = text ? strlen(text) : 0;
    while (n > 0 && text[n - 1] == '/')
        n--;
    while (n > 0 && text[n - 1] != '/')
        n--;
    if (text)
        text[n] = 0;
    path = text ? realpath(n ? text : ".", NULL) : NULL;
    if (path)
        free(text);
    return path ? path : text;
}

static ls_status check_alone(const char *dir)
{
    char *parent = parent_of(dir);
    bool alone = true;
    LS_TRY(ls_sys_have(parent));
    pthread_mutex_lock(&saves_lock);
    for (const under_way *u = saves; u; u = u->next)
        alone = alone && strcmp(u->parent, parent) != 0;
    pthread_mutex_unlock(&saves_lock);
    free(parent);
    return alone ? LS_OK
                 : ls_fail(LS_E_ARG,
                           "%s: another save is under way in the folder around it; ls_arrays_wait ends it",
                           dir);
}

static ls_status arrays_enter(under_way *u, const char *dir)
{
    *u = (under_way){ .parent = parent_of(dir) };
    LS_TRY(ls_sys_have(u->parent));
    pthread_mutex_lock(&saves_lock);
    u->next = saves;
    saves = u;
    pthread_mutex_unlock(&saves_lock);
    return LS_OK;
}

static void arrays_leave(under_way *u)
{
    pthread_mutex_lock(&saves_lock);
    for (under_way **at = &saves; *at; at = &(*at)->next)
        if (*at == u) {
            *at = u->next;
            break;
        }
    pthread_mutex_unlock(&saves_lock);
    free(u->parent);
}

/* ---- saving */

struct ls_arrays_saving {
    blocks b;
    ls_saving *saving;
    ls_background work;
    under_way entry;
};

static ls_status write_blocks(void *context) { return ls_saving_write(context); }

/* The blocks are copied or found, the files are begun. */
static ls_status begin_save(ls_arrays_saving *s, const ls_arrays_save_opts *o)
{
    blocks *b = &s->b;
    LS_TRY(ls_checkpoint_together(b->group, check_alone(b->dir)));
    LS_TRY(arrays_begin(b));
    LS_TRY(check_counts(b));
    move_all(b, PACK);
    char *json = trainer_json(b, o->text);
    const ls_checkpoint_contents c = {
        .config = "{}\n", .trainer = json, .model = b->list, .max_file = o->max_file, .per_rank = o->per_rank
    };
    ls_status status = ls_checkpoint_together(b->group, ls_sys_have(json));
    if (status == LS_OK)
        status = ls_saving_begin(&s->saving, b->dir, &c, b->group);
    free(json);
    return status;
}

/* This rank has written, or has failed to: `status`. */
static ls_status end_save(ls_arrays_saving *s, ls_status status)
{
    if (status == LS_OK)
        status = ls_saving_collect(s->saving);
    if (status == LS_OK)
        status = ls_saving_commit(s->saving);
    return ls_checkpoint_together(s->b.group, status);
}

static void arrays_release(ls_arrays_saving *s)
{
    ls_saving_end(&s->saving);
    end(&s->b);
}

ls_status ls_arrays_save_with(const char *dir, int64_t n, const ls_array *arrays, ls_group *g,
                              const ls_arrays_save_opts *o)
{
    LS_ARG(dir);
    if (n)
        LS_ARG(arrays);
    o = o ? o : &(const ls_arrays_save_opts){ LS_ARRAYS_SAVE_DEFAULTS };
    ls_arrays_saving s = { .b = { .dir = dir, .n = n, .arrays = arrays, .group = g } };
    ls_status status = begin_save(&s, o);
    if (status == LS_OK)
        status = end_save(&s, ls_saving_write(s.saving));
    arrays_release(&s);
    return status;
}

ls_status ls_arrays_save_async_with(ls_arrays_saving **out, const char *dir, int64_t n,
                                    const ls_array *arrays, ls_group *g, const ls_arrays_save_opts *o)
{
    LS_ARG(out);
    LS_ARG(dir);
    if (n)
        LS_ARG(arrays);
    o = o ? o : &(const ls_arrays_save_opts){ LS_ARRAYS_SAVE_DEFAULTS };
    *out = NULL;
    ls_arrays_saving *s = ls_sys_calloc(1, sizeof *s);
    LS_TRY(ls_checkpoint_together(g, ls_sys_have(s)));
    s->b = (blocks){ .dir = dir, .n = n, .arrays = arrays, .group = g, .copy = true };
    ls_status status = begin_save(s, o);
    if (status == LS_OK) {
        status = arrays_enter(&s->entry, dir);
        if (status == LS_OK)
            status = ls_background_start(&s->work, write_blocks, s->saving);
        status = ls_checkpoint_together(g, status);
    }
    if (status == LS_OK) {
        *out = s;
        return LS_OK;
    }
    char message[1024]; /* the thread's end must not hide it */
    snprintf(message, sizeof message, "%s", ls_error_message());
    if (s->work.started)
        ls_background_wait(&s->work);
    arrays_leave(&s->entry);
    arrays_release(s);
    free(s);
    return ls_fail(status, "%s", message);
}

bool ls_arrays_written(const ls_arrays_saving *s)
{
    LS_ARG_OR(s, false);
    return ls_background_done(&s->work);
}

ls_status ls_arrays_wait(ls_arrays_saving **save)
{
    LS_ARG(save);
    ls_arrays_saving *s = *save;
    if (!s)
        return LS_OK;
    *save = NULL;
    ls_status status = end_save(s, ls_background_wait(&s->work));
    arrays_leave(&s->entry);
    arrays_release(s);
    free(s);
    return status;
}

/* ---- loading */

static ls_status arrays_load(blocks *b, const ls_weights *w, const ls_arrays_load_opts *o)
{
    LS_TRY(ls_ranges_load(w, &b->list,
                          &(ls_weights_load_opts){ .convert = o->convert, .allow_unexpected = o->partial }));
    move_all(b, UNPACK);
    return LS_OK;
}

static ls_status load_checkpoint(blocks *b, const ls_arrays_load_opts *o)
{
    ls_checkpoint c;
    LS_TRY(ls_checkpoint_open(&c, b->dir, o->verify ? LS_VERIFY_LOADED : LS_VERIFY_SIZES, b->group));
    ls_status s = arrays_load(b, c.weights, o);
    ls_checkpoint_release(&c);
    return s;
}

static ls_status load_weights(blocks *b, const ls_arrays_load_opts *o)
{
    ls_weights *w;
    LS_TRY(ls_weights_open(&w, b->dir));
    ls_status s = arrays_load(b, w, o);
    ls_weights_close(&w);
    return s;
}

ls_status ls_arrays_load_with(const char *dir, int64_t n, const ls_array *arrays, ls_group *g,
                              const ls_arrays_load_opts *o)
{
    LS_ARG(dir);
    if (n)
        LS_ARG(arrays);
    o = o ? o : &(const ls_arrays_load_opts){ LS_ARRAYS_LOAD_DEFAULTS };
    blocks b = { .dir = dir, .n = n, .arrays = arrays, .group = g };
    ls_status s = arrays_begin(&b);
    if (s == LS_OK)
        s = ls_checkpoint_together(g, ls_checkpoint_is(dir) ? load_checkpoint(&b, o) : load_weights(&b, o));
    end(&b);
    return s;
}

ls_status ls_arrays_text(char **text, const char *dir)
{
    LS_ARG(text);
    LS_ARG(dir);
    char *path = ls_path_join(dir, "trainer.json"), *json = NULL;
    size_t size;
    json_t *j = NULL;
    *text = NULL;
    ls_status s = ls_file_read(&json, &size, path);
    if (s == LS_OK)
        s = ls_json_parse(&j, json, size, path);
    if (s == LS_OK) {
        ls_checkpoint_head head;
        ls_checkpoint_head_read(&head, j);
        *text = ls_sys_strdup(head.text);
        if (!*text)
            s = ls_fail(LS_E_MEMORY, "%s: no memory for its text", path);
    }
    json_decref(j);
    free(json);
    free(path);
    return s;
}

ls_arrays_load_opts ls_arrays_load_opts_default(void)
{
    return (ls_arrays_load_opts){ LS_ARRAYS_LOAD_DEFAULTS };
}

ls_arrays_save_opts ls_arrays_save_opts_default(void)
{
    return (ls_arrays_save_opts){ LS_ARRAYS_SAVE_DEFAULTS };
}
