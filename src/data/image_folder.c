/* image_folder.c - pictures in folders: SPLIT/CLASS/1.jpg. Classes and files are sorted by name, as
 * torchvision's ImageFolder does. The labels of both splits follow from the folders of the training split. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/pattern.h"
#include "base/stop.h"
#include "base/sys.h"
#include "data/image_list.h"
#include "data/image_mask.h"

enum { DEEPEST = 32 }; /* folders inside one class: links may lead in a circle */

typedef struct listing {
    ls_paths files, folders;
} listing;

static void image_folder_release(listing *l)
{
    ls_paths_release(&l->files);
    ls_paths_release(&l->folders);
}

static ls_status image_folder_add(ls_paths *p, const char *name)
{
    char *copy = ls_sys_strdup(name);
    /* the array grows when n is a power of two: room for 1, 2, 4, ... */
    if (copy && (p->n & (p->n - 1)) == 0) {
        char **at = ls_sys_realloc(p->at, sizeof *p->at * (p->n ? 2 * p->n : 1));
        if (!at) {
            free(copy);
            copy = NULL;
        } else
            p->at = at;
    }
    LS_TRY(ls_sys_have(copy));
    p->at[p->n++] = copy;
    return LS_OK;
}

/* Whether an entry of `folder` is a folder, following links. All else counts as a file: a link to nothing or
 * a pipe is refused, with its name, when it is read. */
static ls_status is_folder(bool *out, const char *folder, const struct dirent *e)
{
    *out = e->d_type == DT_DIR;
    if (e->d_type != DT_UNKNOWN && e->d_type != DT_LNK)
        return LS_OK;
    char *path = ls_path_join(folder, e->d_name);
    *out = ls_dir_exists(path);
    const ls_status s = ls_sys_have(path);
    free(path);
    return s;
}

/* What is in a folder, sorted; hidden names are left out. */
static ls_status list(listing *out, const char *folder)
{
    ls_status s = LS_OK;
    *out = (listing){ 0 };
    DIR *d = opendir(folder);
    if (!d)
        return ls_fail(errno == ENOENT ? LS_E_USAGE : LS_E_IO,
                       "%s: cannot list this folder: %s; images are in PATH/CLASS, or in PATH/train/CLASS "
                       "and PATH/val/CLASS "
                       "(docs/images.md)",
                       folder, strerror(errno));
    for (const struct dirent *e; s == LS_OK && (e = readdir(d));) {
        if (*e->d_name == '.' || !strcmp(e->d_name, "Thumbs.db") || !strcmp(e->d_name, "desktop.ini"))
            continue; /* what the system or its file manager keeps there */
        bool inside = false;
        s = ls_stop_check("listing %s", folder);
        if (s == LS_OK)
            s = is_folder(&inside, folder, e);
        if (s == LS_OK)
            s = image_folder_add(inside ? &out->folders : &out->files, e->d_name);
    }
    closedir(d);
    ls_sort_texts(out->files.at, out->files.n);
    ls_sort_texts(out->folders.at, out->folders.n);
    if (s != LS_OK)
        image_folder_release(out);
    return s;
}

typedef struct walk {
    ls_image_list *list;
    int32_t label;
    int64_t others; /* files that are not pictures */
    char *other;    /* one of them */
} walk;

/* Adds the pictures below ROOT/inside; first those of the folder itself. */
static ls_status add_pictures(walk *w, const char *inside, int depth)
{
    listing l;
    char *folder = ls_path_join(w->list->root, inside);
    LS_TRY(ls_sys_have(folder));
    ls_status s = ls_stop_check("listing %s", folder);
    if (s == LS_OK)
        s = list(&l, folder);
    if (s != LS_OK) {
        free(folder);
        return s;
    }
    for (size_t i = 0; i < l.files.n && s == LS_OK; i++) {
        char *name = ls_path_join(inside, l.files.at[i]);
        s = ls_sys_have(name);
        if (s == LS_OK && ls_image_name(name))
            s = ls_image_list_add(w->list, name, (ls_image_entry){ .label = w->label, .shard = -1 });
        else if (s == LS_OK && !w->others++)
            w->other = ls_sys_text("%s/%s", w->list->root, name);
        free(name);
    }
    for (size_t i = 0; i < l.folders.n && s == LS_OK; i++) {
        char *name = ls_path_join(inside, l.folders.at[i]);
        s = !name              ? ls_sys_have(name)
            : depth == DEEPEST ? ls_fail(LS_E_USAGE,
                                         "%s/%s: folders in folders in folders, %d deep; is there a "
                                         "circle of links?",
                                         w->list->root, name, DEEPEST)
                               : add_pictures(w, name, depth + 1);
        free(name);
    }
    free(folder);
    image_folder_release(&l);
    return s;
}

/* The classes of this split must be those of training: with fewer or others the labels would mean other
 * things. */
static ls_status image_folder_compare(const char *split, const ls_paths *have, const char *train,
                                      const ls_paths *want)
{
    for (size_t a = 0, b = 0; a < have->n || b < want->n; a++, b++) {
        const int order = a == have->n ? 1 : b == want->n ? -1 : strcmp(have->at[a], want->at[b]);
        if (order > 0)
            return ls_fail(
                LS_E_USAGE,
                "%s: the class %s of %s has no folder here: add one with its pictures, or take the "
                "class out of both",
                split, want->at[b], train);
        if (order < 0)
            return ls_fail(LS_E_USAGE,
                           "%s/%s: %s has no class of this name: move the folder away, or correct "
                           "its name",
                           split, have->at[a], train);
    }
    return LS_OK;
}

static ls_status check_classes(const ls_image_source *from, const listing *split)
{
    listing train;
    if (!split->folders.n)
        return ls_fail(LS_E_USAGE,
                       "%s: holds no folders: each class is a folder with its pictures, as in %s/cat/1.jpg",
                       from->split, from->split);
    if (!from->train || !strcmp(from->train, from->split) || !ls_dir_exists(from->train))
        return LS_OK;
    LS_TRY(list(&train, from->train));
    const ls_status s = image_folder_compare(from->split, &split->folders, from->train, &train.folders);
    image_folder_release(&train);
    return s;
}

static ls_status add_classes(walk *w, const listing *split)
{
    ls_image_list *l = w->list;
    l->classes = (int)split->folders.n;
    l->names = ls_arena_alloc(&l->arena, sizeof *l->names * split->folders.n);
    LS_TRY(ls_arena_status(&l->arena));
    for (size_t i = 0; i < split->folders.n; i++) {
        const int64_t before = l->n;
        l->names[i] = ls_arena_strdup(&l->arena, split->folders.at[i]);
        w->label = (int32_t)i;
        LS_TRY(add_pictures(w, split->folders.at[i], 0));
        if (l->n == before)
            return ls_fail(
                LS_E_USAGE,
                "%s/%s: an empty class: the folder has no file that ends in .jpg, .jpeg, .png, .pgm "
                "or .ppm",
                l->root, split->folders.at[i]);
    }
    return LS_OK;
}

static void name_others(walk *w, const ls_image_source *from)
{
    char more[64] = " is";
    if (w->others > 1)
        snprintf(more, sizeof more, " and %lld other file%s are", (long long)w->others - 1,
                 w->others == 2 ? "" : "s");
    if (w->others && !from->again)
        ls_log_warn("%s%s left out: pictures end in .jpg, .jpeg, .png, .pgm or .ppm", w->other, more);
    free(w->other);
}

ls_status ls_image_folder(ls_image_list *out, const ls_image_source *from)
{
    listing split;
    walk w = { .list = out };
    LS_TRY(list(&split, from->split));
    out->root = ls_arena_strdup(&out->arena, from->split);
    ls_status s = check_classes(from, &split);
    if (s == LS_OK)
        s = add_classes(&w, &split);
    name_others(&w, from);
    image_folder_release(&split);
    return s;
}

static ls_status check_mask(const ls_image_list *l, const char *name)
{
    char text[1024];
    ls_str path = LS_STR_IN(text);
    ls_mask_path(&path, l->root, name);
    ls_status s = ls_str_status(&path);
    if (s == LS_OK && access(ls_str_text(&path), F_OK))
        s = ls_fail(LS_E_USAGE, "%s: no such mask, and %s/%s needs one: add it, or take the picture out",
                    ls_str_text(&path), l->root, name);
    ls_str_release(&path);
    return s;
}

ls_status ls_image_folder_masks(ls_image_list *out, const ls_image_source *from)
{
    walk w = { .list = out };
    out->root = ls_arena_strdup(&out->arena, from->split);
    LS_TRY(ls_arena_status(&out->arena));
    char *images = ls_path_join(from->split, "images"), *masks = ls_path_join(from->split, "masks");
    ls_status s = ls_sys_have(images && masks ? images : NULL);
    for (int i = 0; i < 2 && s == LS_OK; i++)
        if (!ls_dir_exists(i ? masks : images))
            s = ls_fail(LS_E_USAGE,
                        "%s: no such folder. Pictures are in PATH/train/images and PATH/val/images, and "
                        "their masks in PATH/train/masks and PATH/val/masks (docs/images.md)",
                        i ? masks : images);
    if (s == LS_OK)
        s = add_pictures(&w, "images", 0);
    if (s == LS_OK && !out->n)
        s = ls_fail(LS_E_USAGE, "%s: no file that ends in .jpg, .jpeg, .png, .pgm or .ppm", images);
    for (int64_t i = 0; i < out->n && s == LS_OK; i++) {
        s = ls_stop_check("looking for the masks of %s", from->split);
        if (s == LS_OK)
            s = check_mask(out, out->at[i].name);
    }
    name_others(&w, from);
    free(images);
    free(masks);
    return s;
}
