/* image_classes.c - whether both splits of a data set of pictures have the same classes. Folders are compared
 * when they are opened (image_folder.c); lists and shards number their classes alike, but one of them may
 * lack some. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/stop.h"
#include "base/sys.h"
#include "data/image_set.h"

/* Reads the label of sample i; -1: it is ignored. */
static ls_status read_label(int32_t *label, void **to, const ls_dataset *set, int64_t i)
{
    *label = -1;
    LS_TRY(ls_stop_check("comparing the classes of %s", set->source));
    to[ls_dataset_field(set, "labels") - set->fields] = label;
    return set->read(set, i, to);
}

/* Marks the classes of the split's pictures in `seen` [below]. */
static ls_status mark(uint8_t *seen, int64_t below, const ls_dataset *set)
{
    void **to = ls_sys_calloc((size_t)set->n_fields, sizeof *to);
    ls_status s = ls_sys_have(to);
    for (int64_t i = 0; i < set->n && s == LS_OK; i++) {
        int32_t label;
        s = read_label(&label, to, set, i);
        if (s == LS_OK && label >= 0 && label < below)
            seen[label] = 1;
    }
    free(to);
    return s;
}

static ls_status image_classes_compare(const uint8_t *trained, const uint8_t *evaluated,
                                       const ls_field *labels, const ls_dataset *train,
                                       const ls_dataset *eval)
{
    int64_t missing = 0;
    const char *first = NULL;
    for (int64_t c = 0; c < labels->below; c++) {
        const char *name = labels->names[c];
        if (evaluated[c] && !trained[c])
            return ls_fail(LS_E_USAGE,
                           "%s: it has pictures of class %s, and %s has none: the model cannot learn it. Add "
                           "some there, or take the class out here",
                           eval->source, name, train->source);
        if (!trained[c] || evaluated[c])
            continue;
        first = missing++ ? first : name;
    }
    char more[48] = "";
    if (missing > 1)
        snprintf(more, sizeof more, " (and of %lld more)", (long long)missing - 1);
    if (missing)
        ls_log_warn("%s: no picture of class %s%s, which %s has: evaluations do not measure it", eval->source,
                    first, more, train->source);
    return LS_OK;
}

ls_status ls_images_check_classes(const ls_dataset *train, const ls_dataset *eval)
{
    const ls_field *a = ls_dataset_field(train, "labels"), *b = ls_dataset_field(eval, "labels");
    if (!a || !b) /* numbers in place of classes */
        return LS_OK;
    const ls_field *most = b->below > a->below ? b : a;
    uint8_t *seen = ls_sys_calloc(2 * (size_t)most->below, 1);
    ls_status s = ls_sys_have(seen);
    if (s == LS_OK)
        s = mark(seen, most->below, train);
    if (s == LS_OK)
        s = mark(seen + most->below, most->below, eval);
    if (s == LS_OK)
        s = image_classes_compare(seen, seen + most->below, most, train, eval);
    free(seen);
    return s;
}

ls_status ls_images_count_classes(int64_t *out, const ls_dataset *set)
{
    const ls_field *labels = ls_dataset_field(set, "labels");
    *out = -1;
    if (!labels || labels->type.ndim || labels->type.dtype != LS_I32)
        return LS_OK;
    void **to = ls_sys_calloc((size_t)set->n_fields, sizeof *to);
    ls_status s = ls_sys_have(to);
    *out = 0;
    for (int64_t i = 0; i < set->n && s == LS_OK; i++) {
        int32_t label;
        s = read_label(&label, to, set, i);
        *out = label >= *out ? label + 1 : *out;
    }
    free(to);
    return s;
}
