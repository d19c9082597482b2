/* image_set.h - what else a data set of pictures does for the loader and for augmentation. */
#pragma once
#include "data/augment.h"

/* From now on training reads samples with the random crop and changes of `a` (ls_dataset.read_drawn): a part
 * of the picture is cut out before it is resized. `set` is one of ls_images_open. */
void ls_images_augment(ls_dataset *set, const ls_augment *a);

/* LS_E_USAGE: the evaluation split has pictures of a class that the training split lacks. The log says if it
 * is the other way round. The sets are of ls_images_open, or made of such ones. */
ls_status ls_images_check_classes(const ls_dataset *train, const ls_dataset *eval);

/* *out: all labels of classes are below it, by reading them; -1: the set has none. */
ls_status ls_images_count_classes(int64_t *out, const ls_dataset *set);

/* The n files as a data set, as an evaluation of `o` sees their pictures; there are no labels and no masks to
 * read. With `skip` a broken file is a black picture and counts as replaced. LS_E_USAGE: no such file. */
ls_status ls_images_of_files(ls_dataset **out, int channels, int size, const ls_images_options *o, int n,
                             const char *const *paths);

/* How many broken pictures this thread has replaced by others so far (ls_images_options.skip), in all sets.
 */
int64_t ls_images_replaced(void);
