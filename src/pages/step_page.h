/* step_page.h - the page of a step as one rank runs it: forward, backward and update over time, every
 * collective over what it overlaps, and memory by category beneath. With several layouts they stand side by
 * side, on the same axes. */
#pragma once
#include "base/json.h"
#include "execute/trace.h"
#include "step/compile.h"

typedef struct ls_step_view {
    const char *name, *layout; /* of the recipe, or what distinguishes it; ls_layout_text, "" on one rank */
    const ls_compiled *compiled;
    /* [LS_MICRO], [LS_UPDATE]: measured times; NULL: estimates, where this machine is calibrated */
    const ls_step_times *times;
} ls_step_view;

/* Adds the view as an object to an open array of JSON. `a` is for scratch memory. */
ls_status ls_step_view_json(ls_json *j, ls_arena *a, const ls_step_view *v);
/* Replaces the file `path` by a page of the views in that array. Takes ownership of the text of j. Local. */
ls_status ls_step_page_write(const char *path, const char *title, ls_json *views);
/* Both, for one view. */
ls_status ls_step_page(const char *path, const ls_step_view *v);
