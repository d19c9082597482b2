/* image_set.c - pictures in files as a data set. A picture is decoded when it is read: for evaluation its
 * shorter side is resized and the middle cut out, as torchvision's presets do. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/argument.h"
#include "base/file.h"
#include "base/field.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "base/sys.h"
#include "data/arrays.h"
#include "data/image_list.h"
#include "data/image_mask.h"
#include "data/image_set.h"
#include "data/image_split.h"
#include "data/image_view.h"
#include "data/known.h"

/* Rooms that no thread uses: there are as many as threads have read at once. */
typedef struct free_room {
    ls_room room;
    struct free_room *next;
} free_room;

enum { MOST_VALUES = 64 };

typedef struct image_set {
    ls_dataset set;
    ls_field fields[1 + MOST_VALUES]; /* the images; their labels or values */
    ls_dataset_part part;
    ls_dataset *values; /* the columns of a CSV file that come in place of labels; NULL: labels */
    ls_image_list list;
    const char *inside; /* "train/": the list's names begin in it; "" */
    bool both;          /* the list's files have the pictures of both splits */
    ls_image_eval eval;
    int channels;
    ls_mask_values masks; /* classes 0: pictures have no masks */
    bool skip;
    atomic_uchar *broken; /* [n]: pictures that are known to be; NULL unless `skip` */
    atomic_int named;     /* broken ones that the log names */
    ls_augment augment;
    pthread_mutex_t lock;
    free_room *rooms; /* guarded by lock */
} image_set;

/* ---- one picture */

static free_room *take_room(image_set *d)
{
    pthread_mutex_lock(&d->lock);
    free_room *r = d->rooms;
    if (r)
        d->rooms = r->next;
    pthread_mutex_unlock(&d->lock);
    return r ? r : ls_sys_calloc(1, sizeof *r);
}

static void give_room(image_set *d, free_room *r)
{
    pthread_mutex_lock(&d->lock);
    r->next = d->rooms;
    d->rooms = r;
    pthread_mutex_unlock(&d->lock);
}

static ls_status read_picture(const image_set *d, int64_t i, const ls_view *v, uint8_t *to, ls_room *room)
{
    const uint8_t *bytes;
    size_t n;
    char text[1024];
    ls_str name = LS_STR_IN(text);
    ls_image_list_name(&name, &d->list, i);
    ls_status s = ls_str_status(&name);
    if (s == LS_OK)
        s = ls_image_list_bytes(&bytes, &n, &d->list, i, ls_str_text(&name), room);
    if (s == LS_OK)
        s = ls_image_view(to, v, bytes, n, ls_str_text(&name), room);
    ls_str_release(&name);
    return s;
}

/* `picture`: its height and width; {0}: it was not read. */
static ls_status read_mask(const image_set *d, int64_t i, const ls_view *v, const int picture[2], uint8_t *to,
                           ls_room *room)
{
    const uint8_t *bytes;
    size_t n;
    char text[1024];
    ls_str path = LS_STR_IN(text);
    ls_mask_path(&path, d->list.root, d->list.at[i].name);
    ls_status s = ls_str_status(&path);
    if (s == LS_OK)
        s = ls_image_file_bytes(&bytes, &n, ls_str_text(&path), room);
    if (s == LS_OK)
        s = ls_mask_view(to, v, &d->masks, picture, bytes, n, ls_str_text(&path));
    ls_str_release(&path);
    return s;
}

/* How a sample is changed. `picture` becomes the height and width of the picture of the file. */
typedef struct drawing {
    const image_set *set;
    const uint64_t *draw; /* NULL: as an evaluation sees it */
    int *picture;
} drawing;

static void choose_cut(const void *context, int height, int width, ls_cut *out)
{
    const drawing *w = context;
    int box[4];
    w->picture[0] = height;
    w->picture[1] = width;
    if (!w->draw || w->set->augment.crop != LS_CROP_RESIZED) {
        ls_image_choose_middle(&w->set->eval, height, width, out);
        return;
    }
    ls_augment_crop(&w->set->augment, *w->draw, width, height, box);
    *out = (ls_cut){ .x = box[0], .y = box[1], .width = box[2], .height = box[3] };
}

/* A picture and its mask: cut, moved and turned alike. */
static ls_status read_masked(const image_set *d, int64_t i, const ls_view *v, const drawing *w,
                             void *const *to, ls_room *room)
{
    const int side = d->eval.size;
    const size_t plane = (size_t)side * (size_t)side, n = (size_t)d->channels * plane;
    uint8_t *image = ls_room_get(room, LS_ROOM_SAMPLE, n + plane);
    LS_TRY(ls_sys_have(image));
    uint8_t *mask = image + n;
    ls_augment_step steps[LS_AUGMENT_STEPS];
    const int n_steps = w->draw ? ls_augment_draw(&d->augment, *w->draw, side, side, steps) : 0;
    if (to[0]) {
        LS_TRY(read_picture(d, i, v, image, room));
        LS_TRY(ls_augment_apply(steps, n_steps, d->channels, side, side, image));
    }
    if (to[1]) {
        const int picture[2] = { w->picture[0], w->picture[1] };
        LS_TRY(read_mask(d, i, v, picture, mask, room));
        LS_TRY(ls_augment_mask(steps, n_steps, side, side, mask));
        ls_mask_labels(to[1], mask, plane);
    }
    for (size_t k = 0; to[0] && k < n; k++)
        ((float *)to[0])[k] = image[k];
    return LS_OK;
}

static ls_status read_pixels(image_set *d, int64_t i, const uint64_t *draw, void *const *to)
{
    int picture[2] = { 0 };
    const int side = d->eval.size;
    const drawing w = { d, draw, picture };
    const ls_view v = {
        .channels = d->channels, .height = side, .width = side, .choose = choose_cut, .context = &w
    };
    free_room *r = take_room(d);
    LS_TRY(ls_sys_have(r));
    ls_status s = d->masks.classes ? read_masked(d, i, &v, &w, to, &r->room)
                                   : read_picture(d, i, &v, to[0], &r->room);
    if (s == LS_OK && draw && !d->masks.classes)
        s = ls_augment_pixels(&d->augment, *draw, d->channels, side, side, to[0]);
    give_room(d, r);
    return s;
}

static _Thread_local int64_t replaced;
int64_t ls_images_replaced(void) { return replaced; }

/* A damaged picture: names it once. Its message is the latest. */
static void name_broken(image_set *d, int64_t i)
{
    enum { MOST = 20 };
    if (atomic_exchange(&d->broken[i], 1))
        return;
    const int n = atomic_fetch_add(&d->named, 1);
    if (n < MOST)
        ls_log_warn("%s; the picture is skipped", ls_error_message());
    else if (n == MOST)
        ls_log_warn("more than %d broken pictures are skipped; the others are not named", MOST);
}

/* What a model learns of picture i, into to[1], ...; an entry that is NULL is not wanted. A mask is there
 * already. */
static ls_status read_target(const image_set *d, int64_t i, void *const *to)
{
    if (d->values)
        return d->values->read(d->values, i, to + 1);
    if (d->set.n_fields > 1 && to[1] && !d->masks.classes)
        *(int32_t *)to[1] = d->list.at[i].label;
    return LS_OK;
}

/* A broken sample of an evaluation, which does not count. */
static void fill_broken(const image_set *d, void *const *to)
{
    if (to[0])
        memset(to[0], 0, ls_type_bytes(&d->fields[0].type));
    for (int64_t k = 0; to[1] && k < ls_type_count(&d->fields[1].type); k++)
        ((int32_t *)to[1])[k] = LS_IGNORE_LABEL;
}

/* Reads sample i or, if it is broken and may be skipped, the next sound one. */
static ls_status read_sound(image_set *d, int64_t i, const uint64_t *draw, void *const *to)
{
    enum { MOST = 1000 };
    int64_t at = i;
    for (int tried = 0;; tried++, at = (at + 1) % d->list.n) {
        ls_status s = d->skip && atomic_load(&d->broken[at]) ? LS_E_FORMAT : LS_OK;
        if (s == LS_OK && (to[0] || d->masks.classes))
            s = read_pixels(d, at, draw, to);
        if (s == LS_OK)
            return read_target(d, at, to);
        if (s != LS_E_FORMAT) /* not the picture's fault */
            return s;
        if (!d->skip)
            return ls_fail(s, "%s; mend or remove the file%s", ls_error_message(),
                           d->values && d->set.split == LS_SPLIT_EVAL
                               ? ""
                               : ", or leave broken images out (on_error: skip)");
        name_broken(d, at);
        replaced += !tried;
        if (d->set.split == LS_SPLIT_EVAL) {
            fill_broken(d, to);
            return LS_OK;
        }
        if (tried == MOST || tried == d->list.n)
            return ls_fail(LS_E_FORMAT, "%s: %d pictures in a row are broken", d->part.path, tried);
    }
}

static ls_status image_set_read_sample(const ls_dataset *set, int64_t i, void *const *to)
{
    return read_sound((image_set *)(uintptr_t)set, i, NULL, to);
}

static ls_status read_drawn(const ls_dataset *set, int64_t i, uint64_t draw, void *const *to)
{
    return read_sound((image_set *)(uintptr_t)set, i, &draw, to);
}

void ls_images_augment(ls_dataset *set, const ls_augment *a)
{
    image_set *d = (image_set *)set;
    d->augment = *a;
    d->set.read_drawn = read_drawn;
}

/* "val/cat/1.jpg" below the folder of all splits; else what the list or the shard says. */
static char *file_of(const ls_dataset *set, int64_t i)
{
    const image_set *d = (const image_set *)set;
    return ls_sys_text("%s%s", d->inside, d->list.at[i].name);
}

static void image_set_close(ls_dataset *set)
{
    image_set *d = (image_set *)set;
    for (free_room *r = d->rooms; r;) {
        free_room *next = r->next;
        ls_room_release(&r->room);
        free(r);
        r = next;
    }
    pthread_mutex_destroy(&d->lock);
    ls_image_list_release(&d->list);
    if (d->values)
        d->values->close(d->values);
    free(d->broken);
    free(d);
}

/* ---- opening */

static ls_status check_labels(const image_set *d, int classes)
{
    char text[1024];
    if (!classes || d->list.classes <= classes)
        return LS_OK;
    if (d->list.at[0].shard < 0 && !ls_ends_with(d->part.path, ".csv"))
        return ls_fail_field(LS_E_SHAPE, "classes",
                             "%s has %d folders of classes, the model has %d; set "
                             "it to %d",
                             d->part.path, d->list.classes, classes, d->list.classes);
    int64_t i = 0;
    while (i < d->list.n - 1 && d->list.at[i].label < classes)
        i++;
    ls_str name = LS_STR_IN(text);
    ls_image_list_name(&name, &d->list, i);
    const ls_status s = ls_fail_field(
        LS_E_SHAPE, "classes",
        "%s has label %d, and with %d classes labels are 0 to %d; set it to %d or "
        "correct the label",
        ls_str_text(&name), d->list.at[i].label, classes, classes - 1, d->list.classes);
    ls_str_release(&name);
    return s;
}

static ls_status open_list(image_set *d, ls_split split, const ls_images_options *o)
{
    ls_image_list *l = &d->list;
    ls_image_where w;
    LS_TRY(ls_images_find(&w, &l->arena, split, o));
    const char *given = w.split, *train = w.train;
    d->inside = w.inside;
    d->both = w.both;
    const ls_image_source from = { .split = given,
                                   .train = *train ? train : NULL,
                                   .again = w.both && split == LS_SPLIT_EVAL,
                                   .values = o->n_values > 0 };
    d->part = (ls_dataset_part){ .what = "pictures", .path = ls_arena_strdup(&l->arena, given) };
    d->set.source = d->part.path;
    const bool table = ls_ends_with(given, ".csv"), shards = ls_ends_with(given, ".tar");
    if (o->mask && (table || shards))
        return ls_fail(LS_E_USAGE,
                       "%s: pictures with masks are in folders, images/NAME.jpg and masks/NAME.png. A CSV "
                       "file or tar shards have no masks",
                       given);
    if (o->mask)
        return ls_image_folder_masks(l, &from);
    if (table)
        return ls_image_table(l, &from);
    if (from.values)
        return ls_fail(LS_E_USAGE,
                       "%s: \"%s\" is a number of each picture: list the pictures in a CSV file with the "
                       "columns path and %s. Folders and tar shards have classes only",
                       given, o->values[0].field, o->values[0].field);
    return shards ? ls_image_shards(l, &from) : ls_image_folder(l, &from);
}

static ls_status open_masks(image_set *d, const ls_images_options *o)
{
    const int side = d->eval.size, numbers[] = { o->classes, o->ignore };
    if (o->classes > LS_MASK_CLASSES || o->ignore < -1 || o->ignore > 255 || o->n_values)
        return ls_fail(LS_E_USAGE,
                       "masks of %d classes with %d ignored and %d values: at most %d classes, an ignored "
                       "value of -1 (none) to 255, and no values are possible",
                       o->classes, o->ignore, o->n_values, LS_MASK_CLASSES);
    d->masks = (ls_mask_values){ o->classes ? o->classes : LS_MASK_CLASSES, o->ignore };
    d->fields[0].name = o->image ? o->image : "image";
    d->fields[0].type.dtype = LS_F32;
    d->fields[1] = (ls_field){
        .name = o->mask, .type = LS_TYPE(LS_I32, side, side), .below = o->classes, .ignorable = true
    };
    d->list.digest = ls_hash64_more(d->list.digest, numbers, sizeof numbers);
    d->set.count = NULL; /* known when a mask is read */
    return LS_OK;
}

/* The columns of the list, as a data set of arrays: its sample i belongs to picture i. */
static ls_status open_values(image_set *d, ls_split split, const ls_images_options *o)
{
    ls_array_field columns[MOST_VALUES];
    for (int i = 0; i < o->n_values; i++) {
        columns[i] = o->values[i];
        columns[i].file = ls_arena_printf(&d->list.arena, "%s:%s", d->part.path, o->values[i].field);
    }
    LS_TRY(ls_arena_status(&d->list.arena));
    LS_TRY(ls_arrays_open(&d->values, split, o->n_values, columns));
    if (d->values->n != d->list.n)
        return ls_fail(LS_E_FORMAT, "%s: %lld paths, but %lld rows of values: each path needs one row",
                       d->part.path, (long long)d->list.n, (long long)d->values->n);
    d->list.digest = ls_hash64_more(d->list.digest, &d->values->digest, sizeof d->values->digest);
    d->set.n_fields = 1 + d->values->n_fields;
    memcpy(d->fields + 1, d->values->fields, sizeof *d->fields * (size_t)d->values->n_fields);
    d->set.count = NULL; /* no field is ignorable */
    return LS_OK;
}

static ls_status open_labels(image_set *d, const ls_images_options *o)
{
    LS_TRY(check_labels(d, o->classes));
    LS_TRY(ls_image_list_number(&d->list));
    d->fields[1] = (ls_field){ .name = "labels",
                               .type = LS_SCALAR(LS_I32),
                               .below = d->list.classes,
                               .ignorable = true,
                               .names = d->list.names };
    return LS_OK;
}

/* Leaves the pictures of the split. */
static ls_status hold_out(image_set *d, ls_split split, double fraction)
{
    const long long total = d->list.n;
    int64_t *kept = NULL;
    ls_status s = ls_image_list_hold_out(&kept, &d->list, split, fraction, d->part.path);
    if (s == LS_OK && d->values)
        s = ls_arrays_keep(d->values, kept, d->list.n);
    free(kept);
    d->set.source = ls_arena_printf(&d->list.arena, "%s (%lld of %lld pictures)", d->part.path,
                                    (long long)d->list.n, total);
    return s == LS_OK ? ls_arena_status(&d->list.arena) : s;
}

static ls_status open_set(image_set *d, ls_split split, const ls_images_options *o)
{
    LS_TRY(open_list(d, split, o));
    LS_TRY(o->mask ? open_masks(d, o) : o->n_values ? open_values(d, split, o) : open_labels(d, o));
    if (d->both)
        LS_TRY(hold_out(d, split, o->eval_fraction));
    d->set.n = d->list.n;
    d->broken = d->skip ? ls_sys_calloc((size_t)d->list.n, sizeof *d->broken) : NULL;
    if (d->skip)
        LS_TRY(ls_sys_have(d->broken));
    d->part.digest = d->list.digest;
    d->set.digest = d->list.digest;
    return ls_arena_status(&d->list.arena);
}

static image_set *image_set_make(ls_split split, int channels, int size, int resize)
{
    image_set *d = ls_sys_calloc(1, sizeof *d);
    if (!d)
        return NULL;
    ls_arena_init(&d->list.arena);
    pthread_mutex_init(&d->lock, NULL);
    d->inside = "";
    d->channels = channels;
    d->eval = ls_image_eval_of(size, resize);
    d->fields[0] = (ls_field){ .name = "images", .type = LS_TYPE(LS_U8, channels, size, size) };
    d->set = (ls_dataset){ .name = "images",
                           .source = "",
                           .split = split,
                           .n_fields = 2,
                           .fields = d->fields,
                           .read = image_set_read_sample,
                           .threads = 1,
                           .close = image_set_close,
                           .file = file_of,
                           .parts = &d->part,
                           .n_parts = 1 };
    return d;
}

ls_status ls_images_open_with(ls_dataset **out, ls_split split, int channels, int size,
                              const ls_images_options *o)
{
    LS_ARG(out);
    LS_ARG_ENUM(ls_split, split, LS_SPLIT_EVAL);
    *out = NULL;
    o = o ? o : &(const ls_images_options){ LS_IMAGES_DEFAULTS };
    if ((channels != 1 && channels != 3) || size < 1 || size > 1 << 14)
        return ls_fail(LS_E_SHAPE,
                       "images of %d channels and %d x %d: 1 or 3 channels are possible, and a side of 1 to "
                       "16384",
                       channels, size, size);
    if (o->n_values < 0 || o->n_values > MOST_VALUES / 2) /* with `missing` a column gives two fields */
        return ls_fail(LS_E_USAGE, "%d columns of values; 0 to %d are possible", o->n_values,
                       MOST_VALUES / 2);
    if (!(o->eval_fraction >= 0 && o->eval_fraction < 1))
        return ls_fail_field(LS_E_USAGE, "eval_fraction", "%g is not from 0 on and below 1",
                             o->eval_fraction);
    if (o->resize && o->resize < size)
        return ls_fail(LS_E_USAGE, "the shorter side becomes %d, and %d x %d are cut out of it", o->resize,
                       size, size);
    image_set *d = image_set_make(split, channels, size, o->resize);
    LS_TRY(ls_sys_have(d));
    d->skip = o->skip && !(o->n_values && split == LS_SPLIT_EVAL);
    /* which labels of an evaluation count is known when the pictures are read */
    d->set.count = d->skip && split == LS_SPLIT_EVAL ? NULL : ls_dataset_one_label;
    d->set.threads = o->threads;
    const ls_status s = open_set(d, split, o);
    if (s == LS_OK)
        *out = &d->set;
    else
        image_set_close(&d->set);
    return s;
}

ls_status ls_images_of_files(ls_dataset **out, int channels, int size, const ls_images_options *o, int n,
                             const char *const *paths)
{
    *out = NULL;
    image_set *d = image_set_make(LS_SPLIT_EVAL, channels, size, o->resize);
    LS_TRY(ls_sys_have(d));
    d->list.root = "";
    d->set.n = n;
    d->set.n_fields = o->mask ? 2 : 1;
    d->skip = o->skip;
    d->broken = ls_sys_calloc((size_t)n + 1, sizeof *d->broken);
    ls_status s = ls_sys_have(d->broken);
    if (s == LS_OK && o->mask)
        s = open_masks(d, o);
    for (int i = 0; i < n && s == LS_OK; i++)
        s = access(paths[i], F_OK) ? ls_fail(LS_E_USAGE, "%s: no such image file", paths[i])
                                   : ls_image_list_add(&d->list, paths[i], (ls_image_entry){ .shard = -1 });
    if (s == LS_OK)
        *out = &d->set;
    else
        image_set_close(&d->set);
    return s;
}

ls_images_options ls_images_options_default(void) { return (ls_images_options){ LS_IMAGES_DEFAULTS }; }
