/* image_shards.c - pictures in tar archives in WebDataset's layout: KEY.jpg followed by KEY.cls. KEY is the
 * member's name up to the first dot behind its last slash. Other members are left out. Shards are mapped:
 * only their headers are read here, and of a picture only its own bytes later. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/stop.h"
#include "base/sys.h"
#include "data/corpus.h"
#include "data/image_list.h"
#include "data/tar.h"

typedef struct sample {
    ls_str key, name; /* name of the picture, "" while there is none */
    ls_image_entry entry;
    bool labelled;
} sample;

static size_t key_length(const char *name)
{
    const char *slash = strrchr(name, '/'), *dot = strchr(slash ? slash : name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

/* A whole number, with white space around it. */
static ls_status read_label(int32_t *out, const ls_tar *t, const ls_tar_file *f)
{
    char text[16] = "", *end = text;
    memcpy(text, t->p + f->offset, f->size < sizeof text - 1 ? f->size : sizeof text - 1);
    const long v = strtol(text, &end, 10);
    if (end == text || end[strspn(end, " \r\n\t")] || v < 0 || v > 1000000 || f->size >= sizeof text)
        return ls_fail(LS_E_FORMAT, "%s: %s: \"%.15s\" is not a label: a class is a whole number from 0 on",
                       t->what, f->name, text);
    *out = (int32_t)v;
    return LS_OK;
}

/* The sample is over: adds it, if it has a picture. */
static ls_status finish(ls_image_list *l, sample *s, const char *what)
{
    if (!s->name.len && !s->labelled)
        return LS_OK;
    if (!s->name.len || !s->labelled)
        return ls_fail(LS_E_FORMAT,
                       "%s: the sample %s has no %s: each one is KEY.jpg (jpeg, png, pgm, ppm) "
                       "followed by KEY.cls",
                       what, ls_str_text(&s->key), s->name.len ? "label" : "picture");
    LS_TRY(ls_str_status(&s->name));
    if (s->entry.label >= l->classes)
        l->classes = s->entry.label + 1;
    return ls_image_list_add(l, ls_str_text(&s->name), s->entry);
}

static ls_status image_shards_take(ls_image_list *l, sample *s, const ls_tar *t, const ls_tar_file *f)
{
    const size_t key = key_length(f->name);
    const char *ending = f->name + key;
    if (s->key.len != key || strncmp(ls_str_text(&s->key), f->name, key)) {
        LS_TRY(finish(l, s, t->what));
        ls_str_clear(&s->key);
        ls_str_clear(&s->name);
        ls_str_add_n(&s->key, f->name, key);
        LS_TRY(ls_str_status(&s->key));
        s->labelled = false;
    }
    if (!strcmp(ending, ".cls")) {
        s->labelled = true;
        return read_label(&s->entry.label, t, f);
    }
    if (!ls_image_name(ending) || strchr(ending + 1, '.')) /* not KEY.mask.png */
        return LS_OK;
    if (s->name.len)
        return ls_fail(LS_E_FORMAT, "%s: the sample %s has two pictures, %s and %s", t->what,
                       ls_str_text(&s->key), ls_str_text(&s->name), f->name);
    ls_str_add(&s->name, f->name);
    s->entry.shard = l->n_shards - 1;
    s->entry.offset = f->offset;
    s->entry.size = f->size;
    return LS_OK;
}

static ls_status add_shard(ls_image_list *l, const char *path)
{
    ls_image_shard *at = ls_sys_grow(l->shards, l->n_shards, &l->shard_capacity, sizeof *at);
    LS_TRY(ls_sys_have(at));
    l->shards = at;
    at += l->n_shards;
    *at = (ls_image_shard){ .path = ls_arena_strdup(&l->arena, path) };
    LS_TRY(ls_file_map(&at->map, path));
    l->n_shards++;
    /* Headers and pictures are read one by one, in any order: what the kernel would read around each, up to
     * some MiB, pushes others out where shards are larger than memory. */
    if (at->map.size)
        madvise((void *)(uintptr_t)at->map.data, at->map.size, MADV_RANDOM); /* may fail */
    ls_tar t = { .p = at->map.data, .n = at->map.size, .what = at->path };
    sample s = { 0 };
    ls_tar_file f;
    bool end = false;
    const int64_t before = l->n;
    ls_status status = ls_tar_next(&t, &f, &end);
    while (status == LS_OK && !end) {
        status = image_shards_take(l, &s, &t, &f);
        if (status == LS_OK)
            status = ls_stop_check("reading %s", path);
        if (status == LS_OK)
            status = ls_tar_next(&t, &f, &end);
    }
    if (status == LS_OK)
        status = finish(l, &s, path);
    if (status == LS_OK && l->n == before)
        status = ls_fail(LS_E_FORMAT, "%s: no pictures: members of a shard are KEY.jpg and KEY.cls", path);
    ls_str_release(&s.key);
    ls_str_release(&s.name);
    ls_str_release(&t.name);
    return status;
}

/* {000..127} without other choices says how many shards there are: a missing one is an error. */
static ls_status check_number(const char *pattern, size_t found)
{
    const char *open = strchr(pattern, '{');
    long first, last;
    if (!open || strchr(open + 1, '{') || strpbrk(pattern, "*?[") ||
        sscanf(open, "{%ld..%ld}", &first, &last) != 2 || first < 0 || last < first ||
        (size_t)(last - first + 1) == found)
        return LS_OK;
    return ls_fail(LS_E_USAGE,
                   "%s: names %ld shards, and %zu of them are there: get the others, or correct the numbers",
                   pattern, last - first + 1, found);
}

ls_status ls_image_shards(ls_image_list *out, const ls_image_source *from)
{
    ls_corpus files;
    LS_TRY(ls_corpus_find(&files, from->split));
    ls_status s = check_number(from->split, files.n);
    for (size_t i = 0; i < files.n && s == LS_OK; i++)
        s = add_shard(out, files.paths[i]);
    ls_corpus_release(&files);
    return s;
}
