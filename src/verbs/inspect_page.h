/* inspect_page.h - `lockstep inspect --html`: tensors as a tree of modules, and of each tensor the ranks'
 * local shards, or the files' parts.
 *
 *     ls_inspect_page_begin(&j, "vit", "fsdp over 4 ranks", "rank");
 *     for each tensor:  ls_inspect_page_tensor(&j, name, "f32", &type, bytes, "unit root");
 *                       for each that has some of it:  ls_inspect_page_held(&j, 2, 160, "rows 2 to 3");
 *                       ls_inspect_page_tensor_end(&j);
 *     ls_inspect_page_write(path, "vit", &j, 4, names); */
#pragma once
#include "base/json.h"
#include "lockstep/types.h"

void ls_inspect_page_begin(ls_json *j, const char *title, const char *about, const char *holder);
/* `where`: what it is stored in; "": nothing to say */
void ls_inspect_page_tensor(ls_json *j, const char *name, const char *dtype, const ls_type *type,
                            uint64_t bytes, const char *where);
/* Holder number `holder` has `count` of its elements; `text` says which. */
void ls_inspect_page_held(ls_json *j, int holder, int64_t count, const char *text);
void ls_inspect_page_tensor_end(ls_json *j);
/* names: of the n holders. Takes ownership of the text of j. */
ls_status ls_inspect_page_write(const char *path, const char *title, ls_json *j, int n,
                                const char *const *names);
