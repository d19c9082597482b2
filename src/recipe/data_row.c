/* data_row.c - the table of data sets. */
#include "data_arrays.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/str.h"
#include "base/sys.h"
#include "data/array_file.h"
#include "data/image_mask.h"
#include "data/image_set.h"
#include "data_text.h"
#include "recipe_setting.h"
#include "shared_model.h"

/* ---- images */

/* A module takes the fields `images` u8 and `labels` as they are, and declares its loss itself or leaves it
 * to the recipe: neither knows a second label. */
static bool is_module(const ls_recipe *r) { return ls_recipe_samples(r) == LS_SAMPLES_FIELDS; }
static ls_status check_known(const ls_recipe *r)
{
    if (!is_module(r))
        return LS_OK;
    for (int i = 0; i < 2; i++) {
        const ls_real_list *l = i ? &r->data.std : &r->data.mean;
        if (l->n != 1 || l->at[0] != 0.5) /* the default */
            return ls_fail(LS_E_USAGE,
                           "%s: a module gets pixels of 0 to 255 and scales them itself, as by "
                           "ls_normalize_pixels: leave it out",
                           ls_recipe_where(r, i ? "data.std" : "data.mean"));
    }
    return ls_recipe_mixes(r)
               ? ls_fail(
                     LS_E_USAGE,
                     "%s: mixup and cutmix mix two labels, and the loss of a module has one: leave it out",
                     ls_recipe_where(r, r->data.augment.mixup > 0 ? "data.augment.mixup"
                                                                  : "data.augment.cutmix"))
               : LS_OK;
}

static ls_status check_idx(const ls_recipe *r)
{
    LS_TRY(check_known(r));
    static const char *const KEYS[] = { "data.train_images", "data.train_labels", "data.eval_images",
                                        "data.eval_labels" };
    const char *const files[] = { r->data.train_images, r->data.train_labels, r->data.eval_images,
                                  r->data.eval_labels };
    for (int i = 0; i < 4; i++)
        if (!*files[i])
            return ls_fail(LS_E_USAGE, "%s: data.type idx needs the file %s", ls_recipe_where(r, "data.type"),
                           KEYS[i]);
    return LS_OK;
}

/* A missing file is LS_E_USAGE, not LS_E_IO, because the recipe names it. */
static ls_status check_file(const ls_recipe *r, const char *key, const char *path)
{
    if (!path[0] || access(path, F_OK) == 0)
        return LS_OK;
    /* the default is empty, so the key was set and has an origin */
    return ls_fail(LS_E_USAGE, "%s: %s: no such file (%s)", key, path,
                   ls_recipe_setting(r->state, key)->origin);
}

static ls_status open_images(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o)
{
    const bool train = split == LS_SPLIT_TRAIN;
    const ls_dataset_options options = { LS_DATASET_DEFAULTS,
                                         .path = r->data.path,
                                         .images = train ? r->data.train_images : r->data.eval_images,
                                         .labels = train ? r->data.train_labels : r->data.eval_labels,
                                         .classes = is_module(r) ? 0 : o->classes,
                                         .download = r->data.download,
                                         .fallback = r->data.fallback,
                                         .mirror = r->data.mirror,
                                         .progress = o->progress,
                                         .context = o->context };
    LS_TRY(check_file(r, train ? "data.train_images" : "data.eval_images", options.images));
    LS_TRY(check_file(r, train ? "data.train_labels" : "data.eval_labels", options.labels));
    LS_TRY(ls_dataset_open_with(out, r->data.type, split, &options));
    const int size = (int)r->model.image_size;
    if (is_module(r)) /* its inputs are compared with the fields when its graph is there */
        return LS_OK;
    if (ls_dataset_check(*out, (int)r->model.in_channels, size, size, o->classes) == LS_OK)
        return LS_OK;
    ls_dataset_close(out);
    return LS_E_USAGE; /* not LS_E_SHAPE, because it is keys of the recipe that do not fit each other */
}

/* ---- pictures in files */

/* A model of fields takes pictures with masks: its input is the picture, its output has the classes. */
static bool has_masks(const ls_recipe *r) { return ls_recipe_samples(r) == LS_SAMPLES_FIELDS; }

static int64_t picture_size(const ls_recipe *r)
{
    return has_masks(r) ? r->model.inputs.at[0].type.dims[1] : r->model.image_size;
}

/* Changes that a mask cannot follow. */
static ls_status check_mask_changes(const ls_recipe *r)
{
    const char *mixes = r->data.augment.mixup > 0    ? "data.augment.mixup"
                        : r->data.augment.cutmix > 0 ? "data.augment.cutmix"
                                                     : NULL;
    if (mixes)
        return ls_fail(LS_E_USAGE,
                       "%s: samples with masks cannot be mixed: a mask has one class for each pixel. Leave "
                       "it out",
                       ls_recipe_where(r, mixes));
    if (r->data.augment.erase > 0)
        return ls_fail(LS_E_USAGE,
                       "%s: pictures with masks cannot be erased: the erased pixels would keep their "
                       "classes. Leave it out",
                       ls_recipe_where(r, "data.augment.erase"));
    return LS_OK;
}

static ls_status check_masks(const ls_recipe *r)
{
    const ls_port_list *in = &r->model.inputs, *out = &r->model.outputs;
    const ls_type *x = &in->at[0].type, *y = &out->at[0].type;
    if (in->n != 1 || x->ndim != 3 || (x->dims[0] != 1 && x->dims[0] != 3) || x->dims[1] != x->dims[2])
        return ls_fail(LS_E_USAGE,
                       "%s: data.type images gives one input, a square image of 1 or 3 channels, such as "
                       "{image: [3, 256, 256]}; for others use data.type arrays (docs/arrays.md)",
                       ls_recipe_where(r, "model.inputs"));
    if (r->loss.n != 1 || r->loss.at[0].kind != LS_LOSS_CROSS_ENTROPY || r->loss.at[0].weight)
        return ls_fail(LS_E_USAGE,
                       "%s: masks are classes: with data.type images a model of fields has one loss, {type: "
                       "cross_entropy, of: OUTPUT}; for others use data.type arrays (docs/arrays.md)",
                       ls_recipe_where(r, "loss"));
    if (out->n != 1 || y->ndim != 3 || y->dims[0] != x->dims[1] || y->dims[1] != x->dims[1] ||
        y->dims[2] > LS_MASK_CLASSES)
        return ls_fail(LS_E_USAGE,
                       "%s: with data.type images a model of fields has one output, [height, width, "
                       "classes], of the image's height and width and at most %d classes",
                       ls_recipe_where(r, "model.outputs"), LS_MASK_CLASSES);
    return check_mask_changes(r);
}

static ls_status check_pictures(const ls_recipe *r)
{
    if (has_masks(r))
        LS_TRY(check_masks(r));
    const long long size = picture_size(r), resize = r->data.resize, channels = ls_recipe_channels(r);
    if (channels != 1 && channels != 3)
        return ls_fail(LS_E_USAGE, "%s: %lld: images have 3 channels, or 1 if they are read as gray",
                       ls_recipe_where(r, "model.in_channels"), channels);
    if (resize && resize < size)
        return ls_fail(LS_E_USAGE, "%s: the shorter side becomes %lld, and %lld x %lld are cut out of it",
                       ls_recipe_where(r, "data.resize"), resize, size, size);
    return LS_OK;
}

/* The columns that the losses name, each once. Returns how many. */
static int columns_of(ls_array_field out[3 * LS_RECIPE_LIST], const ls_recipe *r)
{
    int n = 0;
    for (int i = 0; i < 3 * r->loss.n && r->model.outputs.n; i++) {
        const ls_task_loss *l = &r->loss.at[i / 3];
        const char *names[] = { l->target ? l->target : l->of, l->weight, l->mask }, *name = names[i % 3];
        int k = 0;
        while (name && k < n && strcmp(out[k].field, name))
            k++;
        if (!name || k < n)
            continue;
        const ls_array_field as = ls_recipe_array_field(r, name, NULL);
        out[n++] = (ls_array_field){ .field = name, .as = as.as, .range = as.range };
    }
    return n;
}

/* What both splits and files have in common. */
static ls_images_options picture_options(const ls_recipe *r, int classes)
{
    const bool masks = has_masks(r);
    const ls_task_loss *loss = &r->loss.at[0];
    return (ls_images_options){ LS_IMAGES_DEFAULTS,
                                .path = r->data.path,
                                .train = r->data.train_images,
                                .eval = r->data.eval_images,
                                .eval_fraction = ls_recipe_held_out(r),
                                .classes = masks                ? (int)r->model.outputs.at[0].type.dims[2]
                                           : r->model.outputs.n ? 0
                                                                : classes,
                                .resize = (int)r->data.resize,
                                .skip = r->data.on_error == LS_ON_ERROR_SKIP,
                                .mask = !masks         ? NULL
                                        : loss->target ? loss->target
                                                       : loss->of,
                                .image = masks ? r->model.inputs.at[0].name : NULL,
                                .ignore = (int)r->data.ignore };
}

static ls_status open_pictures(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o)
{
    ls_array_field columns[3 * LS_RECIPE_LIST];
    ls_images_options options = picture_options(r, o->classes);
    options.threads = r->data.threads ? (int)r->data.threads : o->threads;
    options.n_values = has_masks(r) ? 0 : columns_of(columns, r);
    options.values = columns;
    LS_TRY(ls_images_open_with(out, split, (int)ls_recipe_channels(r), (int)picture_size(r), &options));
    const ls_augment a = ls_recipe_augment(r);
    if (split == LS_SPLIT_TRAIN && ls_augment_changes(&a))
        ls_images_augment(*out, &a); /* crops are cut out before a picture is resized */
    return LS_OK;
}

ls_status ls_recipe_pictures(ls_dataset **out, const ls_recipe *r, int n, const char *const *paths)
{
    const ls_images_options options = picture_options(r, 0);
    return ls_images_of_files(out, (int)ls_recipe_channels(r), (int)picture_size(r), &options, n, paths);
}

/* ---- of a module */

static ls_status check_module(const ls_recipe *r)
{
    return strcmp(r->model.type, "module")
               ? ls_fail(LS_E_USAGE,
                         "%s: data.type module needs model.type module, whose shared object provides the "
                         "samples",
                         ls_recipe_where(r, "data.type"))
               : LS_OK;
}

static ls_status open_module(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o)
{
    (void)o;
    return ls_shared_model_data(out, r, split);
}

#define AUGMENT                                                                                           \
    " sampler crop padding crop_scale crop_ratio flip ops magnitude bins brightness contrast saturation " \
    "hue erase erase_scale erase_ratio mixup cutmix"
#define KNOWN "path download fallback mirror mean std" AUGMENT
#define IDX "path train_images train_labels eval_images eval_labels mean std" AUGMENT
#define FILES "train_text eval_text eval_fraction tokenizer end_token "

const ls_data_row LS_DATA[] = {
    { "fashion-mnist", KNOWN, LS_SAMPLES_IMAGES, "downloading", check_known, open_images, false, true },
    { "mnist", KNOWN, LS_SAMPLES_IMAGES, "downloading", check_known, open_images, false, true },
    { "idx", IDX, LS_SAMPLES_IMAGES, "reading", check_idx, open_images, false, true },
    { "images",
      "path train_images eval_images eval_fraction size resize threads on_error ignore mean std" AUGMENT,
      LS_SAMPLES_IMAGES, "listing", check_pictures, open_pictures, true, false },
    { "shapes", "path mean std" AUGMENT, LS_SAMPLES_IMAGES, "drawing", check_known, open_images, false,
      true },
    { "text", FILES "weights train_percentage documents field seq_length pack too_long", LS_SAMPLES_TEXT,
      "tokenizing", ls_data_check_text, ls_data_open_text, false, false },
    { "chat", FILES "weights train_percentage template train_on seq_length pack too_long", LS_SAMPLES_TEXT,
      "tokenizing", ls_data_check_chat, ls_data_open_chat, false, false },
    { "pairs", FILES "source target prefix source_length target_length train_samples eval_samples",
      LS_SAMPLES_PAIRS, "tokenizing", ls_data_check_pairs, ls_data_open_pairs, false, false },
    { "arrays", "train eval class_names eval_fraction missing sampler tokenizer", LS_SAMPLES_FIELDS,
      "reading", ls_check_arrays, ls_open_arrays, false, true },
    { "module", "config", LS_SAMPLES_FIELDS, "reading", check_module, open_module, false, true },
    { NULL, NULL, LS_SAMPLES_IMAGES, NULL, NULL, NULL, false, false },
};

const char *ls_data_word(int row) { return LS_DATA[row].name; }

const ls_data_row *ls_recipe_data(const ls_recipe *r)
{
    const ls_data_row *d = LS_DATA;
    while (d->name && strcmp(d->name, r->data.type) != 0)
        d++;
    LS_CHECK(d->name, "data.type %s has no row", r->data.type);
    return d;
}
