/* inspect_page.h - `lockstep inspect --html`: tensors as a tree of modules, and who holds what of each:
 * ranks, or files.
 *
 *     ls_inspect_page_begin(&p, "vit", "fsdp over 4 ranks", "rank", 4);
 *     for each tensor:  ls_inspect_page_tensor(&p, name, "f32", &type, bytes, "unit root", false);
 *                       for each that has some of it:  ls_inspect_page_held(&p, 2, 160, "rows 2 to 3");
 *                       ls_inspect_page_tensor_end(&p);
 *     ls_inspect_page_write(&p, path, 4, names, printed, graph);
 *     ls_inspect_page_release(&p); */
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "graph/graph.h"
#include "lockstep/types.h"

/* What is written so far. */
typedef struct ls_inspect_page {
    ls_arena arena;
    const char *title, *about, *holder;
    ls_json j;
    ls_str rows, dtypes;                  /* of the table of tensors; the types that occur */
    int64_t tensors, parameters, buffers; /* the last two: elements */
    uint64_t bytes;
    uint64_t *held;   /* bytes of each holder */
    int64_t elements; /* of the present tensor */
    uint64_t tensor_bytes;
    bool several; /* somebody has held it already */
} ls_inspect_page;

/* `holders`: the most that there will be. */
void ls_inspect_page_begin(ls_inspect_page *p, const char *title, const char *about, const char *holder,
                           int holders);
/* `where`: what it is stored in; "": nothing to say. `buffer`: it is not trained, and no parameter. */
void ls_inspect_page_tensor(ls_inspect_page *p, const char *name, const char *dtype, const ls_type *type,
                            uint64_t bytes, const char *where, bool buffer);
/* Holder number `holder` has `count` of its elements; `text` says which. */
void ls_inspect_page_held(ls_inspect_page *p, int holder, int64_t count, const char *text);
void ls_inspect_page_tensor_end(ls_inspect_page *p);
/* names: of the n holders. printed: what the command prints without --html. graph: the model as it was built;
 * NULL: it is not known. */
ls_status ls_inspect_page_write(ls_inspect_page *p, const char *path, int n, const char *const *names,
                                const ls_str *printed, const ls_graph *graph);
void ls_inspect_page_release(ls_inspect_page *p);
