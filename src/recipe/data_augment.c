/* data_augment.c - the keys of data.augment: checks, and what data sets take. */
#include <math.h>
#include <string.h>

#include "data_row.h"
#include "recipe_setting.h"

ls_augment ls_recipe_augment(const ls_recipe *r)
{
    ls_augment a = { .crop = r->data.augment.crop,
                     .padding = (int)r->data.augment.padding,
                     .flip = r->data.augment.flip,
                     .ops = (int)r->data.augment.randaugment.ops,
                     .magnitude = (int)r->data.augment.randaugment.magnitude,
                     .bins = (int)r->data.augment.randaugment.bins,
                     .brightness = r->data.augment.jitter.brightness,
                     .contrast = r->data.augment.jitter.contrast,
                     .saturation = r->data.augment.jitter.saturation,
                     .hue = r->data.augment.jitter.hue,
                     .erase = r->data.augment.erase,
                     .mixup = r->data.augment.mixup,
                     .cutmix = r->data.augment.cutmix };
    memcpy(a.scale, r->data.augment.crop_scale, sizeof a.scale);
    memcpy(a.ratio, r->data.augment.crop_ratio, sizeof a.ratio);
    memcpy(a.erase_scale, r->data.augment.erase_scale, sizeof a.erase_scale);
    memcpy(a.erase_ratio, r->data.augment.erase_ratio, sizeof a.erase_ratio);
    for (int c = 0; c < 3; c++)
        a.mean[c] = (uint8_t)rint(255 * fmin(fmax(r->data.mean.at[c < r->data.mean.n ? c : 0], 0), 1));
    return a;
}

int64_t ls_recipe_channels(const ls_recipe *r)
{
    return r->model.inputs.n ? r->model.inputs.at[0].type.dims[0] : r->model.in_channels;
}

bool ls_recipe_mixes(const ls_recipe *r) { return r->data.augment.mixup > 0 || r->data.augment.cutmix > 0; }

static ls_status check_range(const ls_recipe *r, const char *key, const double range[2])
{
    return range[0] <= range[1]
               ? LS_OK
               : ls_fail(LS_E_USAGE, "%s: a range from %g to %g; the smaller number is first",
                         ls_recipe_where(r, key), range[0], range[1]);
}

ls_status ls_recipe_check_augment(const ls_recipe *r)
{
    const ls_augment a = ls_recipe_augment(r);
    const long long channels = ls_recipe_channels(r);
    LS_TRY(check_range(r, "data.augment.crop_scale", a.scale));
    LS_TRY(check_range(r, "data.augment.crop_ratio", a.ratio));
    LS_TRY(check_range(r, "data.augment.erase_scale", a.erase_scale));
    LS_TRY(check_range(r, "data.augment.erase_ratio", a.erase_ratio));
    if (a.ops && a.magnitude >= a.bins)
        return ls_fail(
            LS_E_USAGE, "%s: magnitude %d is not below the %d bins",
            ls_recipe_where_either(r, "data.augment.randaugment.magnitude", "data.augment.randaugment.bins"),
            a.magnitude, a.bins);
    const char *colour = a.ops              ? "data.augment.randaugment.ops"
                         : a.brightness > 0 ? "data.augment.jitter.brightness"
                         : a.contrast > 0   ? "data.augment.jitter.contrast"
                         : a.saturation > 0 ? "data.augment.jitter.saturation"
                         : a.hue > 0        ? "data.augment.jitter.hue"
                                            : NULL;
    if (colour && channels != 1 && channels != 3)
        return ls_fail(LS_E_USAGE,
                       "%s: colours are changed in images of 1 or 3 channels, and those of the model have "
                       "%lld",
                       ls_recipe_where(r, colour), channels);
    if (channels == 1 && (a.saturation > 0 || a.hue > 0))
        return ls_fail(
            LS_E_USAGE, "%s: no effect: images of 1 channel have no %s",
            ls_recipe_where(r, a.hue > 0 ? "data.augment.jitter.hue" : "data.augment.jitter.saturation"),
            a.hue > 0 ? "hue" : "saturation");
    if (ls_recipe_mixes(r) && r->train.micro_batch == 1)
        return ls_fail(LS_E_USAGE,
                       "%s: no effect: samples are mixed with others of their micro-batch, and "
                       "train.micro_batch is 1",
                       ls_recipe_where(r, a.mixup > 0 ? "data.augment.mixup" : "data.augment.cutmix"));
    return LS_OK;
}
