/* image_list.c - see image_list.h. */
#include "data/image_list.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/sys.h"

ls_status ls_image_list_add(ls_image_list *l, const char *name, ls_image_entry entry)
{
    ls_image_entry *at = ls_sys_grow(l->at, l->n, &l->capacity, sizeof *l->at);
    if (!at)
        return ls_fail(LS_E_MEMORY, "no memory for a list of %lld pictures", (long long)l->n + 1);
    l->at = at;
    entry.name = ls_arena_strdup(&l->arena, name);
    at[l->n++] = entry;
    const uint64_t numbers[] = { (uint64_t)entry.label, entry.size };
    l->digest = ls_hash64_more(l->digest, name, strlen(name));
    l->digest = ls_hash64_more(l->digest, numbers, sizeof numbers);
    return ls_arena_status(&l->arena);
}

void ls_image_list_release(ls_image_list *l)
{
    for (int i = 0; i < l->n_shards; i++)
        ls_file_unmap(&l->shards[i].map);
    free(l->shards);
    free(l->at);
    ls_arena_release(&l->arena);
    *l = (ls_image_list){ 0 };
}

bool ls_image_name(const char *name)
{
    static const char *const ENDS[] = { ".jpg", ".jpeg", ".png", ".pgm", ".ppm" };
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof ENDS / sizeof *ENDS; i++)
        if (!strcasecmp(dot, ENDS[i]))
            return true;
    return false;
}

static int in_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void ls_sort_texts(char **texts, size_t n)
{
    if (n)
        qsort(texts, n, sizeof *texts, in_order);
}

ls_status ls_image_list_number(ls_image_list *l)
{
    if (l->names)
        return LS_OK;
    l->names = ls_arena_alloc(&l->arena, sizeof *l->names * (size_t)l->classes);
    for (int i = 0; l->names && i < l->classes; i++)
        l->names[i] = ls_arena_printf(&l->arena, "%d", i);
    return ls_arena_status(&l->arena);
}
