/* dataset.c - finds and opens data sets. A named set is looked for in the path that the caller gave and
 * nowhere else; or, without a path, in LOCKSTEP_DATA, in the cache, by a download into the cache, and at last
 * the built-in set is used. The first folder that contains any of the set's files serves both splits, so
 * training and evaluation never use different sources. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/field.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "base/sys.h"
#include "data/idx.h"
#include "data/known.h"
#include "data/loader.h"

typedef struct idx_set {
    ls_dataset set;
    ls_field fields[2];
    ls_idx_file images, labels;
    size_t sample_bytes;
    char *source, *labels_path;
    char **names; /* made up for sets without names ("idx"); else NULL */
    ls_dataset_part parts[2];
} idx_set;

/* ---- a split from two files */

static ls_status dataset_read_sample(const ls_dataset *set, int64_t i, void *const *to)
{
    const idx_set *d = (const idx_set *)set;
    if (to[0])
        memcpy(to[0], d->images.idx.data + (size_t)i * d->sample_bytes, d->sample_bytes);
    if (to[1])
        *(int32_t *)to[1] = d->labels.idx.data[i];
    return LS_OK;
}

static void dataset_close(ls_dataset *set)
{
    idx_set *d = (idx_set *)set;
    ls_idx_close(&d->images);
    ls_idx_close(&d->labels);
    for (int i = 0; d->names && i < d->fields[1].below; i++)
        free(d->names[i]);
    free(d->names);
    free(d->source);
    free(d->labels_path);
    free(d);
}

/* Checks that counts agree, and that labels are below `classes` (0: there are as many as the largest label
 * needs). */
static ls_status check_labels(idx_set *d, int *classes, const char *images, const char *labels)
{
    const ls_idx *im = &d->images.idx, *la = &d->labels.idx;
    if (im->dims[0] != la->dims[0])
        return ls_fail(
            LS_E_FORMAT,
            "%s: %lld labels (offset 4), but %s holds %lld images; the two files do not belong together",
            labels, (long long)la->dims[0], images, (long long)im->dims[0]);
    if (im->dims[1] > 1 << 16 || im->dims[2] > 1 << 16)
        return ls_fail(LS_E_FORMAT, "%s: images of %lld x %lld (offset 8), at most 65536 x 65536 is possible",
                       images, (long long)im->dims[1], (long long)im->dims[2]);
    int largest = 0;
    for (size_t i = 0; i < la->bytes; i++) {
        if (*classes && la->data[i] >= *classes)
            return ls_fail(LS_E_FORMAT,
                           "%s: label %d of sample %zu (offset %zu) is not below classes: %d; raise "
                           "the model's classes or mend the file",
                           labels, la->data[i], i, 8 + i, *classes);
        if (la->data[i] > largest)
            largest = la->data[i];
    }
    if (!*classes)
        *classes = largest + 1;
    return LS_OK;
}

static ls_status name_classes(idx_set *d, int classes)
{
    d->names = ls_sys_calloc((size_t)classes, sizeof *d->names);
    for (int i = 0; d->names && i < classes; i++)
        if (!(d->names[i] = ls_sys_text("%d", i)))
            return ls_fail(LS_E_MEMORY, "no memory for class names");
    return d->names ? LS_OK : ls_fail(LS_E_MEMORY, "no memory for class names");
}

static ls_status open_pair(ls_dataset **out, const char *name, const ls_known *known, ls_split split,
                           const char *images, const char *labels, int classes)
{
    idx_set *d = ls_sys_calloc(1, sizeof *d);
    if (!d || !(d->source = ls_sys_strdup(images)) || !(d->labels_path = ls_sys_strdup(labels))) {
        free(d ? d->source : NULL);
        free(d);
        return ls_fail(LS_E_MEMORY, "no memory for data set %s", name);
    }
    ls_status s;
    d->set = (ls_dataset){ .name = known ? known->name : "idx",
                           .source = d->source,
                           .split = split,
                           .n_fields = 2,
                           .fields = d->fields,
                           .read = dataset_read_sample,
                           .count = ls_dataset_one_label,
                           .close = dataset_close };
    LS_TRY_TO(s, ls_idx_open(&d->images, images, 3), fail);
    LS_TRY_TO(s, ls_idx_open(&d->labels, labels, 1), fail);
    LS_TRY_TO(s, check_labels(d, &classes, images, labels), fail);
    d->set.n = d->images.idx.dims[0];
    d->fields[0] = (ls_field){ .name = "images",
                               .type = LS_TYPE(LS_U8, 1, d->images.idx.dims[1], d->images.idx.dims[2]) };
    d->fields[1] = (ls_field){
        .name = "labels", .type = LS_SCALAR(LS_I32), .below = classes, .ignorable = true
    };
    d->sample_bytes = ls_type_bytes(&d->fields[0].type);
    d->parts[0] = (ls_dataset_part){ "images", d->source, d->images.digest };
    d->parts[1] = (ls_dataset_part){ "labels", d->labels_path, d->labels.digest };
    d->set.parts = d->parts;
    d->set.n_parts = 2;
    d->set.digest = ls_hash64_more(d->images.digest, &d->labels.digest, sizeof d->labels.digest);
    if (known && classes == known->classes) {
        d->fields[1].names = known->class_names;
    } else {
        LS_TRY_TO(s, name_classes(d, classes), fail);
        d->fields[1].names = (const char *const *)d->names;
    }
    *out = &d->set;
    return LS_OK;
fail:
    dataset_close(&d->set);
    return s;
}

/* ---- finding the files of named sets */

/* DIR/FILE.gz or DIR/FILE without .gz, whichever is there. */
static bool find_file(char path[PATH_MAX], const char *dir, const ls_known_file *file)
{
    const int n = snprintf(path, PATH_MAX, "%s/%s", dir, file->name);
    if (n >= PATH_MAX || ls_file_exists(path))
        return n < PATH_MAX;
    path[n - 3] = 0;
    return ls_file_exists(path);
}

/* How many of them are there. */
static int files_in(const char *dir, const ls_known *k)
{
    char path[PATH_MAX];
    int n = 0;
    for (int i = 0; i < LS_KNOWN_FILES; i++)
        n += find_file(path, dir, &k->files[i]);
    return n;
}

/* Files of all sets have the same names, so a folder called `mnist` must not be taken for fashion-mnist. */
static bool is_named_after_another(const char *dir, const ls_known *k)
{
    size_t n = strlen(dir);
    while (n && dir[n - 1] == '/')
        n--;
    size_t start = n;
    while (start && dir[start - 1] != '/')
        start--;
    for (int i = 0; i < ls_known_count; i++)
        if (&ls_known_sets[i] != k && strlen(ls_known_sets[i].name) == n - start &&
            !strncmp(dir + start, ls_known_sets[i].name, n - start))
            return true;
    return false;
}

/* The set's folder in `root`: ROOT/NAME, ROOT/torchvision's/raw, or ROOT itself. False: none. */
static bool find_folder(char dir[PATH_MAX], const char *root, const ls_known *k)
{
    if (snprintf(dir, PATH_MAX, "%s/%s", root, k->name) < PATH_MAX && files_in(dir, k))
        return true;
    if (snprintf(dir, PATH_MAX, "%s/%s/raw", root, k->torchvision) < PATH_MAX && files_in(dir, k))
        return true;
    return snprintf(dir, PATH_MAX, "%s", root) < PATH_MAX && !is_named_after_another(root, k) &&
           files_in(dir, k);
}

static ls_status open_folder(ls_dataset **out, const ls_known *k, ls_split split, const char *dir,
                             int classes)
{
    const ls_known_file *file = &k->files[2 * split];
    char images[PATH_MAX], labels[PATH_MAX];
    const bool there = find_file(images, dir, &file[0]);
    if (!there || !find_file(labels, dir, &file[1]))
        return ls_fail(
            LS_E_IO, "%s: %s (or the same without .gz) is missing beside the other files of %s; put it there",
            dir, (there ? file[1] : file[0]).name, k->name);
    return open_pair(out, k->name, k, split, images, labels, classes ? classes : k->classes);
}

static ls_status open_path(ls_dataset **out, const ls_known *k, ls_split split, const ls_dataset_options *o)
{
    if (!ls_dir_exists(o->path))
        return ls_fail_field(LS_E_USAGE, "path",
                             "%s: no such folder (for %s it is a folder with %s and three "
                             "more, or one that holds %s/)",
                             o->path, k->name, k->files[0].name, k->name);
    char dir[PATH_MAX];
    if (!find_folder(dir, o->path, k))
        return ls_fail_field(LS_E_USAGE, "path",
                             "%s holds neither %s nor a folder %s/ with it; correct the path, or leave "
                             "it empty to use "
                             "LOCKSTEP_DATA, the cache or a download",
                             o->path, k->files[0].name, k->name);
    return open_folder(out, k, split, dir, o->classes);
}

/* A process tries to download a set once. The second split neither waits again nor gets another result than
 * the first. */
static ls_status download_once(const ls_known *k, const char *dir, const ls_dataset_options *o)
{
    /* guards the other variables; held during a download */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static ls_str failed, reason;
    static ls_status status;
    ls_str key = { 0 };
    ls_str_printf(&key, "%s\n%s\n%s", k->name, dir, o->mirror);
    LS_TRY(ls_str_status(&key));
    pthread_mutex_lock(&lock);
    const bool again = !strcmp(ls_str_text(&key), ls_str_text(&failed));
    ls_status s = again ? ls_fail(status, "%s", ls_str_text(&reason)) : ls_known_download(k, dir, o);
    if (s != LS_OK && s != LS_E_MEMORY && !again) {
        status = s;
        ls_str_release(&failed);
        ls_str_release(&reason);
        ls_str_add(&failed, ls_str_text(&key));
        ls_str_add(&reason, ls_error_message());
    }
    pthread_mutex_unlock(&lock);
    ls_str_release(&key);
    return s;
}

/* The folder that has the set, in `dir`; "" and the reason in `why` if there is none. LS_E_MEMORY. */
static ls_status search(char dir[PATH_MAX], ls_str *why, const ls_known *k, const ls_dataset_options *o)
{
    const char *env = getenv("LOCKSTEP_DATA");
    if (env && *env && find_folder(dir, env, k))
        return LS_OK;
    char *cache = ls_cache_dir();
    LS_TRY(ls_sys_have(cache));
    const int n = snprintf(dir, PATH_MAX, "%s/data/%s", cache, k->name);
    free(cache);
    ls_status s = n < PATH_MAX ? LS_OK : ls_fail(LS_E_IO, "the cache's path is too long");
    if (s == LS_OK &&
        (files_in(dir, k) == LS_KNOWN_FILES || (o->download && (s = download_once(k, dir, o)) == LS_OK)))
        return LS_OK;
    if (s == LS_E_MEMORY)
        return s;
    ls_str_printf(why, "%s is neither in LOCKSTEP_DATA (%s) nor in %s%s%s", k->name,
                  env && *env ? env : "not set", dir, o->download ? ", and its download failed: " : "",
                  o->download ? ls_error_message() : "");
    dir[0] = 0;
    return LS_OK;
}

/* Says why the built-in set is used, once for each reason: training opens two splits. */
static void say_built_in(const ls_known *k, const char *why)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards `said` */
    static ls_str said;
    pthread_mutex_lock(&lock);
    const bool again = !strcmp(ls_str_text(&said), why);
    ls_str_release(&said);
    ls_str_add(&said, why);
    pthread_mutex_unlock(&lock);
    if (again)
        return;
    ls_log_warn("%s was not found: using the BUILT-IN shapes, whose results say nothing about %s", k->name,
                k->name);
    ls_log_info("%s", why);
    ls_log_info(
        "to use it, put %s, %s, %s and %s into a folder %s/ and name its parent folder in LOCKSTEP_DATA "
        "or as the path of the data set",
        k->files[0].name, k->files[1].name, k->files[2].name, k->files[3].name, k->name);
}

static ls_status open_known(ls_dataset **out, const ls_known *k, ls_split split, const ls_dataset_options *o)
{
    if (*o->path)
        return open_path(out, k, split, o);
    ls_str why = { 0 };
    char dir[PATH_MAX] = "";
    ls_status s;
    LS_TRY(search(dir, &why, k, o));
    if (*dir) {
        s = open_folder(out, k, split, dir, o->classes);
    } else if (o->fallback) {
        say_built_in(k, ls_str_text(&why));
        s = ls_shapes_open(out, split, k->name);
    } else {
        s = ls_fail_field(LS_E_IO, "path", "%s; put the files there, or name their folder here",
                          ls_str_text(&why));
    }
    ls_str_release(&why);
    return s;
}

/* ---- opening */

ls_status ls_dataset_open_with(ls_dataset **out, const char *type, ls_split split,
                               const ls_dataset_options *o)
{
    LS_ARG(out);
    LS_ARG(type);
    LS_ARG_ENUM(ls_split, split, LS_SPLIT_EVAL);
    o = o ? o : &(const ls_dataset_options){ LS_DATASET_DEFAULTS };
    *out = NULL;
    ls_status s;
    const ls_known *k = ls_known_find(type);
    if (o->classes < 0 || o->classes > 256)
        return ls_fail(LS_E_SHAPE,
                       "%d classes for data of type %s: labels are bytes, 1 to 256 classes are possible",
                       o->classes, type);
    if (k) {
        s = open_known(out, k, split, o);
    } else if (!strcmp(type, "idx")) {
        if (!*o->images || !*o->labels)
            return ls_fail(
                LS_E_USAGE,
                "data of type idx needs the paths of two files for the %s split, images and labels",
                split == LS_SPLIT_TRAIN ? "training" : "evaluation");
        s = open_pair(out, type, NULL, split, o->images, o->labels, o->classes);
    } else if (!strcmp(type, "shapes")) {
        s = ls_shapes_open(out, split, NULL);
    } else {
        const char *names[] = { "mnist", "fashion-mnist", "idx", "shapes" },
                   *near = ls_nearest_name(type, names, 4);
        return ls_fail(LS_E_USAGE, "unknown type of data %s (known: %s)%s%s%s", type, ls_dataset_types(),
                       near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    LS_TRY(s);
    if (o->classes && (*out)->builtin && (*out)->fields[1].below > o->classes) {
        const int have = (int)(*out)->fields[1].below;
        ls_dataset_close(out);
        return ls_fail_field(LS_E_SHAPE, "classes",
                             "the built-in data set has %d classes, the model has %d; set it to %d", have,
                             o->classes, have);
    }
    return LS_OK;
}

void ls_dataset_close(ls_dataset **set)
{
    if (!set)
        return;
    if (*set && (*set)->close && !ls_loader_keeps(*set))
        (*set)->close(*set);
    *set = NULL;
}

const ls_field *ls_dataset_field(const ls_dataset *set, const char *name)
{
    LS_ARG_OR(set, NULL);
    LS_ARG_OR(name, NULL);
    for (int k = 0; k < set->n_fields; k++)
        if (!strcmp(set->fields[k].name, name))
            return &set->fields[k];
    return NULL;
}

ls_status ls_dataset_check(const ls_dataset *set, int channels, int height, int width, int classes)
{
    LS_ARG(set);
    const ls_field *images = ls_dataset_field(set, "images"), *labels = ls_dataset_field(set, "labels");
    if (!images || images->type.dtype != LS_U8 || images->type.ndim != 3 || !labels || labels->type.ndim)
        return ls_fail(LS_E_SHAPE, "%s (%s) is not a data set of labelled images, which the model needs",
                       set->name, set->source);
    const long long c = images->type.dims[0], h = images->type.dims[1], w = images->type.dims[2];
    if (h != w && height == width)
        return ls_fail(LS_E_SHAPE,
                       "%s (%s) has images of %lld x %lld (height, width), the model takes square ones; crop "
                       "or pad them",
                       set->name, set->source, h, w);
    if (c != channels || h != height || w != width)
        return ls_fail_field(LS_E_SHAPE, c == channels ? "image_size" : "in_channels",
                             "%s (%s) has images of %lld x %lld x %lld (channels, height, width), the model "
                             "takes %d x %d x %d; "
                             "its image_size must be %lld and its in_channels %lld",
                             set->name, set->source, c, h, w, channels, height, width, h, c);
    if (labels->below > classes)
        return ls_fail_field(LS_E_SHAPE, "classes",
                             "%s (%s) has %lld classes, the model has %d; set it to %lld", set->name,
                             set->source, (long long)labels->below, classes, (long long)labels->below);
    return LS_OK;
}

const char *ls_dataset_types(void) { return "mnist, fashion-mnist, idx, shapes"; }

bool ls_dataset_type_known(const char *type)
{
    LS_ARG_OR(type, false);
    return ls_known_find(type) || !strcmp(type, "idx") || !strcmp(type, "shapes");
}

bool ls_dataset_sizes(const char *type, int64_t *train, int64_t *eval, int *channels, int *height, int *width,
                      int *classes)
{
    LS_ARG_OR(type, false);
    LS_ARG_OR(train, false);
    LS_ARG_OR(eval, false);
    LS_ARG_OR(channels, false);
    LS_ARG_OR(height, false);
    LS_ARG_OR(width, false);
    LS_ARG_OR(classes, false);
    const ls_known *k = ls_known_find(type);
    if (!k && strcmp(type, "shapes"))
        return false;
    *train = k ? k->n[LS_SPLIT_TRAIN] : LS_SHAPES_TRAIN;
    *eval = k ? k->n[LS_SPLIT_EVAL] : LS_SHAPES_EVAL;
    *channels = 1;
    *height = *width = k ? k->size : LS_SHAPES_SIZE;
    *classes = k ? k->classes : 10;
    return true;
}

ls_dataset_options ls_dataset_options_default(void) { return (ls_dataset_options){ LS_DATASET_DEFAULTS }; }
