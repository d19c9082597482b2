/* array_npz.c - an array in an .npz archive. */
#include "data/array_npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/safetensors.h"
#include "ckpt/zip.h"
#include "data/array_room.h"

static bool is(const char *entry, const char *name)
{
    const size_t n = strlen(name);
    return !strncmp(entry, name, n) && !strcmp(entry + n, ".npy");
}

static ls_status no_array(const ls_zip *z, const char *name)
{
    enum { MOST = 32 };
    const char *names[MOST];
    char texts[MOST][64], shown[128];
    int n = 0;
    for (int64_t i = 0; i < z->count && n < MOST; i++) {
        const char *entry = z->entries[i].name;
        if (!ls_ends_with(entry, ".npy"))
            continue;
        snprintf(texts[n], sizeof texts[n], "%.*s", (int)(strlen(entry) - strlen(".npy")), entry);
        names[n] = texts[n];
        n++;
    }
    const char *near = n ? ls_nearest_name(name, names, n) : NULL;
    if (!n)
        return ls_fail(LS_E_USAGE, "%s: it has no array \"%s\", and no other", z->path, name);
    return ls_fail(LS_E_USAGE, "%s: it has no array \"%s\"; %s \"%s\"", z->path, name,
                   near ? "is it" : "its first one is", ls_shown_name(shown, near ? near : names[0]));
}

/* Whether the array's shape takes as many bytes as the archive says: before so many are inflated. */
static ls_status check_start(const ls_zip *z, const ls_zip_entry *e)
{
    const size_t n = e->whole < LS_NPY_START ? e->whole : LS_NPY_START;
    uint8_t *start = ls_sys_malloc(n + 1);
    ls_status s = ls_sys_have(start);
    if (s == LS_OK)
        s = ls_zip_inflate_start(start, n, z, e);
    if (s == LS_OK)
        s = ls_npy_check(start, n, e->whole, z->path);
    free(start);
    return s;
}

static ls_status npz_find(ls_npy *out, void **heap, const ls_zip *z, const char *name)
{
    int64_t i = 0;
    while (i < z->count && !is(z->entries[i].name, name))
        i++;
    if (i == z->count)
        return no_array(z, name);
    const ls_zip_entry *e = &z->entries[i];
    if (!e->deflated)
        return ls_npy_parse(out, z->bytes + e->offset, e->bytes, z->path);
    LS_TRY(check_start(z, e));
    LS_TRY(ls_array_room(e->whole, z->path));
    LS_TRY(ls_zip_inflate(heap, z, e));
    return ls_npy_parse(out, *heap, e->whole, z->path);
}

ls_status ls_npz_find(ls_npy *out, void **heap, const void *bytes, size_t size, const char *name,
                      const char *what)
{
    ls_arena arena;
    ls_zip z;
    ls_arena_init(&arena);
    *heap = NULL;
    ls_status s = ls_zip_read(&z, &arena, bytes, size, what, true);
    if (s == LS_OK)
        s = npz_find(out, heap, &z, name);
    if (s != LS_OK) {
        free(*heap);
        *heap = NULL;
    }
    ls_arena_release(&arena);
    return s;
}
