/* image_set.h - what else a data set of pictures does for the loader and for augmentation. */
#pragma once
#include "data/augment.h"

/* From now on training reads samples with the random crop and changes of `a` (ls_dataset.read_drawn): a part
 * of the picture is cut out before it is resized. `set` is one of ls_images_open. */
void ls_images_augment(ls_dataset *set, const ls_augment *a);

/* How many broken pictures this thread has replaced by others so far (ls_images_options.skip), in all sets.
 */
int64_t ls_images_replaced(void);
