/* augment_set.c - a data set whose training samples are those of another one, changed at random. */
#include "augment_set.h"

#include <stdlib.h>
#include <string.h>

#include "augment_mix.h"
#include "base/sys.h"
#include "resample.h"

typedef struct augmented {
    ls_dataset set;
    ls_dataset *inner;
    ls_augment a;
    int images, labels; /* numbers of these fields; the two of a mixture are behind all others */
    int channels, height, width;
    ls_field fields[];
} augmented;

static bool mixes(const ls_augment *a) { return a->mixup > 0 || a->cutmix > 0; }

/* An unmixed sample: its other label is its own. */
static void fill_mixture(const augmented *d, void *const *to)
{
    const int n = d->inner->n_fields;
    if (d->set.n_fields == n)
        return;
    if (to[n])
        *(int32_t *)to[n] = to[d->labels] ? *(const int32_t *)to[d->labels] : 0;
    if (to[n + 1])
        *(float *)to[n + 1] = 1;
}

static ls_status read_plain(const ls_dataset *set, int64_t i, void *const *to)
{
    const augmented *d = (const augmented *)set;
    LS_TRY(d->inner->read(d->inner, i, to));
    fill_mixture(d, to);
    return LS_OK;
}

/* A box of the image in the place of the image. */
static ls_status crop(const augmented *d, uint64_t draw, uint8_t *image)
{
    int box[4];
    ls_augment_crop(&d->a, draw, d->width, d->height, box);
    const ls_cut cut = { .x = box[0], .y = box[1], .width = box[2], .height = box[3] };
    const size_t line = (size_t)d->width, plane = (size_t)d->height * line;
    ls_resampler plan;
    ls_room room = { 0 };
    uint8_t *from = ls_sys_malloc(plane);
    ls_status s = ls_sys_have(from);
    if (s == LS_OK)
        s = ls_resample_plan(&plan, &cut, 1, d->height, d->width, d->height, d->width, &room);
    for (int c = 0; c < d->channels && s == LS_OK; c++) {
        memcpy(from, image + (size_t)c * plane, plane);
        s = ls_resample(&plan, from + (size_t)plan.y * line + (size_t)plan.x, line, 1,
                        image + (size_t)c * plane, &room);
    }
    ls_room_release(&room);
    free(from);
    return s;
}

static ls_status read_drawn(const ls_dataset *set, int64_t i, uint64_t draw, void *const *to)
{
    const augmented *d = (const augmented *)set;
    uint8_t *image = to[d->images];
    if (d->inner->read_drawn) {
        LS_TRY(d->inner->read_drawn(d->inner, i, draw, to));
    } else {
        LS_TRY(d->inner->read(d->inner, i, to));
        if (image && d->a.crop == LS_CROP_RESIZED)
            LS_TRY(crop(d, draw, image));
        if (image)
            LS_TRY(ls_augment_pixels(&d->a, draw, d->channels, d->height, d->width, image));
    }
    fill_mixture(d, to);
    return LS_OK;
}

static void mix(const ls_dataset *set, uint64_t draw, int64_t rows, void *const *to)
{
    const augmented *d = (const augmented *)set;
    const ls_mix m = ls_mix_draw(&d->a, draw, d->height, d->width);
    const int32_t *labels = to[d->labels];
    int32_t *other = to[d->inner->n_fields];
    float *own = to[d->inner->n_fields + 1];
    if (to[d->images])
        ls_mix_images(&m, to[d->images], rows, d->channels, d->height, d->width);
    for (int64_t r = 0; r < rows; r++) {
        if (other && labels)
            other[r] = labels[r ? r - 1 : rows - 1];
        if (own)
            own[r] = m.own;
    }
}

static int64_t count(const ls_dataset *set, int64_t i, int k)
{
    const augmented *d = (const augmented *)set;
    return d->inner->count(d->inner, i, k < d->inner->n_fields ? k : d->labels);
}

static char *file(const ls_dataset *set, int64_t i)
{
    const augmented *d = (const augmented *)set;
    return d->inner->file(d->inner, i);
}

static void augment_set_close(ls_dataset *set)
{
    ls_dataset_close(&((augmented *)set)->inner);
    free(set);
}

static int field_number(const ls_dataset *set, const char *name)
{
    const ls_field *f = ls_dataset_field(set, name);
    return f ? (int)(f - set->fields) : -1;
}

ls_status ls_augment_open(ls_dataset **set, const ls_augment *a)
{
    ls_dataset *inner = *set;
    const int n = inner->n_fields, images = field_number(inner, "images"),
              labels = field_number(inner, "labels");
    augmented *d = NULL;
    ls_status s = LS_OK;
    if (images < 0 || inner->fields[images].type.dtype != LS_U8 || inner->fields[images].type.ndim != 3 ||
        (mixes(a) &&
         (labels < 0 || inner->fields[labels].type.dtype != LS_I32 || inner->fields[labels].type.ndim)))
        s = ls_fail(LS_E_SHAPE, "%s (%s) has no labelled images to augment", inner->name, inner->source);
    else if (!(d = ls_sys_calloc(1, sizeof *d + sizeof(ls_field) * (size_t)(n + 2))))
        s = ls_fail(LS_E_MEMORY, "no memory for an augmented data set");
    if (s != LS_OK) {
        ls_dataset_close(set);
        return s;
    }
    memcpy(d->fields, inner->fields, sizeof(ls_field) * (size_t)n);
    d->inner = inner;
    d->a = *a;
    d->images = images;
    d->labels = labels;
    const int64_t *dims = inner->fields[images].type.dims;
    d->channels = (int)dims[0];
    d->height = (int)dims[1];
    d->width = (int)dims[2];
    d->set = *inner;
    d->set.fields = d->fields;
    d->set.read = read_plain;
    d->set.read_drawn = read_drawn;
    d->set.count = inner->count ? count : NULL;
    d->set.file = inner->file ? file : NULL;
    d->set.close = augment_set_close;
    if (mixes(a)) {
        d->fields[n] = inner->fields[labels];
        d->fields[n].name = "labels.mixed";
        d->fields[n + 1] = (ls_field){ .name = "labels.weight", .type = LS_SCALAR(LS_F32) };
        d->set.n_fields = n + 2;
        d->set.mix = mix;
    }
    *set = &d->set;
    return LS_OK;
}
