/* confusion.h - how often rows of each class were predicted as each class, and what follows from it:
 * precision, recall and F1 of each class, and their means. Counts are integers, so no order of rows and no
 * number of ranks changes them. */
#pragma once
#include "json.h"

enum { LS_CONFUSION_MOST = 1024 }; /* classes; models of more have no matrix */

typedef struct ls_confusion {
    char *metric; /* of the accuracy that counts these rows */
    int classes;
    char **names;    /* [classes]; NULL: they have none */
    int64_t *counts; /* [true class][predicted class] */
} ls_confusion;
typedef struct ls_confusions {
    int n;
    ls_confusion *at;
} ls_confusions;

/* What is known of one class. A class that was never predicted has no precision, one without rows no recall
 * (NaN); both have an F1 of 0, and a class with neither has none. */
typedef struct ls_class_score {
    int64_t rows, predicted, right; /* of this class; predicted as it */
    double precision, recall, f1;
} ls_class_score;
/* One true class that was predicted as another. */
typedef struct ls_class_pair {
    int is, said;
    int64_t rows;
} ls_class_pair;

/* Makes a matrix of zeros behind the others. `names` may be NULL; they are copied. */
ls_status ls_confusions_add(ls_confusions *c, const char *metric, int classes, const char *const *names);
void ls_confusions_release(ls_confusions *c);

int64_t ls_confusion_rows(const ls_confusion *c);
ls_class_score ls_confusion_score(const ls_confusion *c, int class);
/* Means over the classes that occur, in the rows or in the predictions; NaN counts 0. `rows`, `predicted` and
 * `right` are those of all classes. */
ls_class_score ls_confusion_macro(const ls_confusion *c);
/* The most frequent mistakes, at most `most`; returns how many. Of equal ones those of the first classes. */
int ls_confusion_worst(const ls_confusion *c, ls_class_pair *out, int most);
/* The classes that occur with the lowest F1, at most `most`, as their numbers; returns how many. */
int ls_confusion_lowest(const ls_confusion *c, int *out, int most);
/* The name of a class, or its number. */
const char *ls_confusion_name(char out[16], const ls_confusion *c, int class);

/* Adds the member "confusion" to the open object; nothing if there are none. */
void ls_confusions_write(ls_json *j, const ls_confusions *c);
/* Reads the value of that member. LS_E_FORMAT names `what`. */
ls_status ls_confusions_read(ls_confusions *out, const json_t *object, const char *what);
