/* augment_set.h - a data set of images whose training samples are changed at random. */
#pragma once
#include "augment.h"

/* Puts a set in front of *set, which it owns from now on, and which may change its samples by itself
 * (read_drawn). With mixup or cutmix samples have two more fields: "labels.mixed" i32, the label of the
 * sample that this one is mixed with, and "labels.weight" f32, the share of its own. `read` changes nothing.
 * On an error *set is closed. LS_E_SHAPE: not labelled images; LS_E_MEMORY. */
ls_status ls_augment_open(ls_dataset **set, const ls_augment *a);
