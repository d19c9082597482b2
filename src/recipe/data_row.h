/* data_row.h - the table of data sets: one row for each word of data.type. */
#pragma once
#include <string.h>

#include "lockstep/recipe.h"
#include "data/array_words.h"
#include "data/chat.h"
#include "data/augment.h"
#include "model_row.h"

/* What opening a data set needs besides the recipe. */
typedef struct ls_data_opening {
    int threads;
    int classes; /* of the model; for text the size of its vocabulary */
    /* Called while files are downloaded or tokenized. NULL: nothing is called. */
    void (*progress)(void *context, const char *file, int64_t bytes, int64_t total, double bytes_per_second);
    void *context;
} ls_data_opening;

typedef struct ls_data_row {
    const char *name; /* the word of data.type */
    const char *keys; /* last names of the recipe keys that the data set has */
    ls_samples samples;
    const char *doing;                      /* for the progress line: "downloading" */
    ls_status (*check)(const ls_recipe *r); /* checks that required keys are set; NULL: none is required */
    ls_status (*open)(ls_dataset **out, const ls_recipe *r, ls_split split, const ls_data_opening *o);
    bool fields, module; /* a model of fields, or a module, takes its samples, too */
} ls_data_row;

extern const ls_data_row LS_DATA[]; /* ended by a row without name */
const char *ls_data_word(int row);  /* NULL after the last */
const ls_data_row *ls_recipe_data(const ls_recipe *r);

/* The channels of the model's images: model.in_channels or, of images with masks, those of model.inputs. */
int64_t ls_recipe_channels(const ls_recipe *r);

/* The n files of pictures as samples for the model of a recipe with data.type images. LS_E_USAGE: no such
 * file. */
ls_status ls_recipe_pictures(ls_dataset **out, const ls_recipe *r, int n, const char *const *paths);

/* New rows as samples for the model of a recipe with data.type arrays. They have these fields alone, so a
 * target may be missing. A word is "FIELD=FILE", or one file for all fields; columns are those that the
 * recipe names, unless the word has some. LS_E_USAGE: a field without a file, and as ls_arrays_open. */
ls_status ls_recipe_rows(ls_dataset **out, const ls_recipe *r, int n_fields, const char *const *fields,
                         int n_words, const char *const *words);

/* The words of the model's text, of all rows of a split's file or of files as above; of an output with a
 * class for each token. */
ls_status ls_recipe_words(ls_array_words *out, const ls_recipe *r, ls_split split, int n_words,
                          const char *const *words);

/* Replaces ranges and patterns of columns in data.train and data.eval by the names that they have in the
 * tables of data.train, and gives a table of data.eval without columns those of its field in data.train. So
 * the recipe that a run stores has names. Tables that are not there are left for who opens them. LS_E_USAGE:
 * as ls_columns_of. */
ls_status ls_recipe_name_columns(ls_recipe *r);
/* "a,b,c", from data.class_names, where ls_recipe_name_columns has put the texts of labels; NULL: numbers. */
static inline const char *ls_recipe_class_names(const ls_recipe *r, const char *field)
{
    for (int i = 0; i < r->data.class_names.n; i++)
        if (!strcmp(r->data.class_names.at[i].field, field))
            return r->data.class_names.at[i].file;
    return NULL;
}

/* Whether the loss is of classes of the words of a text: its output is [tokens, classes]. */
bool ls_recipe_has_tags(const ls_recipe *r, const ls_task_loss *l);

/* data.pack as the data set takes it. */
ls_pack_choice ls_recipe_pack(const ls_recipe *r);
/* How the recipe's conversations become tokens; *folder, malloc'ed, must outlive *out. `text` is copied. */
ls_status ls_recipe_chat(ls_chat_options *out, char **folder, const ls_recipe *r,
                         const ls_text_options *text);

/* What data.augment asks for. */
ls_augment ls_recipe_augment(const ls_recipe *r);
ls_status ls_recipe_check_augment(const ls_recipe *r);
