/* module_tree.h - parameters as the tree of modules that their dotted names describe, with counts. */
#pragma once
#include "base/str.h"
#include "lockstep/types.h"

typedef struct ls_tree_item {
    const char *name, *stored; /* stored: the type's name in the file; NULL: that of type.dtype */
    uint64_t bytes;            /* in the file; of a type of its own, `type` does not tell them */
    ls_type type;
    const char *note; /* printed at the end of the line; NULL: nothing */
} ls_tree_item;

/* Adds a line for each item, indented by module, and the number of elements of each module. Control
 * characters in names are made visible. Items of one module must stand together, as in a model or after
 * ls_tree_sort. */
void ls_module_tree_text(ls_str *out, const char *title, int64_t n, const ls_tree_item *items);
/* Sorts by name. Numbers in names are compared as numbers: layer_2 comes before layer_10. */
void ls_tree_sort(int64_t n, ls_tree_item *items);
