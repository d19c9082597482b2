/* image_split.c - see image_split.h. */
#include "data/image_split.h"

#include <stdlib.h>
#include <string.h>

#include "base/field.h"
#include "base/hash.h"
#include "base/sys.h"
#include "data/held_out.h"

/* Pictures of a folder `test` beside those of classes would be learned as a class "test". `names` ends with
 * NULL. */
static ls_status check_no_split(const char *path, const char *const *names)
{
    for (; *names; names++) {
        char *folder = ls_path_join(path, *names);
        ls_status s = ls_sys_have(folder);
        if (ls_dir_exists(folder))
            s = ls_fail_field(
                LS_E_USAGE, "path",
                "%s: looks like a split, and splits are called train and val: rename it, or name "
                "the folders with train_images and eval_images (docs/images.md)",
                folder);
        free(folder);
        LS_TRY(s);
    }
    return LS_OK;
}

ls_status ls_images_find(ls_image_where *out, ls_arena *a, ls_split split, const ls_images_options *o)
{
    /* a folder `test` beside `train` is left for a last measurement */
    static const char *const NAMES[] = { "training", "test", "valid", "validation", "eval", NULL };
    const char *folder = ls_arena_printf(a, "%s/train", o->path),
               *val = ls_arena_printf(a, "%s/val", o->path);
    LS_TRY(ls_arena_status(a));
    *out = (ls_image_where){ .train = o->train, .inside = "" };
    out->both = o->eval_fraction > 0 && !*o->eval && (*o->train || *o->path) &&
                !(*o->path && ls_dir_exists(val));
    if (!*o->train && *o->path) {
        const bool has_train = !out->both || ls_dir_exists(folder);
        if (out->both)
            LS_TRY(check_no_split(o->path, has_train ? NAMES + 2 : NAMES));
        out->train = has_train ? folder : o->path;
    }
    out->split = out->both || split == LS_SPLIT_TRAIN ? out->train : *o->eval ? o->eval : *o->path ? val : "";
    if (!*out->split)
        return ls_fail_field(LS_E_USAGE, "path",
                             "pictures need a folder with a folder for each class, PATH/CLASS/*.jpg, or with "
                             "train/CLASS/*.jpg "
                             "and val/CLASS/*.jpg; or a CSV file or tar shards");
    out->inside = out->split == folder ? "train/" : out->split == val ? "val/" : "";
    return LS_OK;
}

ls_status ls_image_list_hold_out(int64_t **kept, ls_image_list *l, ls_split split, double fraction,
                                 const char *what)
{
    int64_t n = 0;
    ls_candidate *all = ls_sys_malloc(sizeof *all * (size_t)l->n);
    *kept = NULL;
    LS_TRY(ls_sys_have(all));
    for (int64_t i = 0; i < l->n; i++) {
        const ls_image_entry *e = &l->at[i];
        const char *shard = e->shard < 0 ? "" : l->shards[e->shard].path, *slash = strrchr(shard, '/');
        const uint64_t key = ls_hash_text(slash ? slash + 1 : shard);
        all[i] = (ls_candidate){ .key = ls_hash64_more(key, e->name, strlen(e->name)),
                                 .sample = i,
                                 .class = e->label };
    }
    const ls_status s = ls_held_out(kept, &n, split, fraction, all, l->n, what);
    free(all);
    for (int64_t i = 0; i < n; i++)
        l->at[i] = l->at[(*kept)[i]];
    l->n = s == LS_OK ? n : l->n;
    l->digest = ls_hash64_more(l->digest, *kept, sizeof **kept * (size_t)n);
    return s;
}
