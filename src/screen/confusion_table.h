/* confusion_table.h - a confusion matrix as text: the scores of each class, and who was taken for whom. */
#pragma once
#include <stdio.h>
#include "base/confusion.h"

/* Of many classes, or on a narrow terminal, it prints the lowest classes and the most frequent mistakes.
 * `titled`: names the metric, because there are several. width 0: no limit. */
ls_status ls_confusion_print(FILE *out, const ls_confusion *c, bool titled, int width);
