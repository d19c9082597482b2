/* shared_model.h - the shared object of model.type module: opening it, what it is, and its data. Code is
 * loaded for a recipe that the user gives, or for --module (a --set of model.path): never because a run or a
 * checkpoint names it. */
#pragma once
#include "module_keys.h"

typedef struct ls_shared_model {
    const ls_model_module *table; /* of the object, which is never unloaded */
    void *self;
    ls_module_map keys, data_keys;
    void *settings, *data_settings;      /* the structs that they fill; NULL: there are no keys */
    const ls_yaml *config, *data_config; /* the recipe's maps with the defaults; NULL: not read */
    bool opened;                         /* its open has succeeded, or it has none: close is due */
    const char *path;                    /* as the recipe has it */
    const char *label;                   /* "mine 1 (./mine.so)" */
    uint64_t digest;                     /* xxh3 of the file */
    ls_graph *built; /* the model for a micro-batch, of `samples` samples; NULL: not built yet */
    int64_t samples;
    char *graph; /* its text, which is its identity */
} ls_shared_model;

/* Opens the model of the recipe, if it is one of type module and not open (recipe_shared.c does it for
 * others). LS_E_USAGE: it may not be loaded, it is not a module of this version, or a value of a key is
 * wrong. Local. */
ls_status ls_shared_model_open(const ls_recipe *r);
/* Loads a shared object for its keys alone, m->keys and m->data_keys, which lie in `a`. Errors as above.
 * There is nothing to close. Local. */
ls_status ls_shared_model_keys(ls_shared_model *m, const char *path, ls_arena *a);
/* Builds it, twice, for train.micro_batch samples and keeps the text. LS_E_USAGE: it builds something else
 * the second time, or other parameters for evaluation. Nothing where no module is open. Local. */
ls_status ls_shared_model_identify(ls_recipe *r);
/* Fills the struct of data.config, once. For this folder. */
ls_status ls_shared_model_read_data_keys(ls_shared_model *m, const ls_recipe *r);
/* What this thread is doing in a function of a module, "./mine.so: read"; NULL: it has left it. */
void ls_shared_model_inside(const char *what);
void ls_shared_model_close(ls_shared_model **m);                   /* null is fine */
const ls_shared_model *ls_recipe_shared_model(const ls_recipe *r); /* NULL: none is open */

/* What the model does with the field of that name, as its graph says. */
typedef struct ls_module_field {
    bool read, valid, weight; /* an input; its valid entries are counted; rows are multiplied by it */
    ls_dtype type;
} ls_module_field;
ls_module_field ls_shared_model_field(const ls_recipe *r, const char *name); /* nothing before it is built */
/* The output of that name, of one sample. NULL: there is none, or the model is not built. */
const ls_type *ls_shared_model_output(const ls_recipe *r, const char *name, ls_type *room);

/* The split that the module makes, as data.type module asks. */
ls_status ls_shared_model_data(ls_dataset **out, const ls_recipe *r, ls_split split);
/* `build` of the row. */
ls_status ls_shared_model_build(ls_graph *g, const ls_recipe *r, const void *preset, int64_t batch);
/* The first line in which two texts differ, of both; "": a text has ended. */
void ls_text_difference(const char *a, const char *b, char line_a[200], char line_b[200]);
