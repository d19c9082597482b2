/* module_tree.h - parameters as the tree of modules that their dotted names describe, with counts. */
#pragma once
#include <stdio.h>
#include "lockstep/types.h"

typedef struct ls_tree_item {
    const char *name, *stored; /* stored: the file's type word, NULL: type.dtype's name */
    ls_type type;
    const char *note; /* printed behind it; NULL: nothing */
} ls_tree_item;

/* Prints items (of one module together: in a model's order, or sorted by ls_tree_sort) indented, each module
 * with its number of elements. */
void ls_module_tree_print(FILE *out, const char *title, int64_t n, const ls_tree_item *items);
/* By name, with numbers in names compared as numbers (layer_2 before layer_10). */
void ls_tree_sort(int64_t n, ls_tree_item *items);
