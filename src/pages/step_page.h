/* step_page.h - the page of a step as one rank runs it: forward, backward and update over time, every
 * collective over what it overlaps, and memory by category beneath. With several layouts they stand side by
 * side, on the same axes.
 *
 *     ls_step_page p;
 *     ls_step_page_begin(&p, title);
 *     for each layout:  ls_step_page_add(&p, &view);  or  ls_step_page_refuse(&p, name, why);
 *     ls_step_page_write(&p, path);
 *     ls_step_page_release(&p); */
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "execute/trace.h"
#include "step/compile.h"

enum { LS_STEP_VIEWS = 16 }; /* most layouts of a page */

typedef struct ls_step_view {
    const char *name, *layout; /* of the recipe, or what distinguishes it; ls_layout_text, "" on one rank */
    const ls_compiled *compiled;
    /* [LS_MICRO], [LS_UPDATE]: measured times; NULL: estimates, where this machine is calibrated */
    const ls_step_times *times;
} ls_step_view;

/* What is written so far. */
typedef struct ls_step_page {
    ls_arena arena;
    const char *title;
    ls_json views;                        /* the data of the drawings */
    ls_str head, refused, panels, tables; /* head and tables: of a page with one layout */
    int n, n_refused;
    size_t first;                    /* of panels: where the first begins behind its heading */
    struct ls_step_numbers *numbers; /* [n] */
} ls_step_page;

void ls_step_page_begin(ls_step_page *p, const char *title); /* title: of a page with several layouts */
ls_status ls_step_page_add(ls_step_page *p, const ls_step_view *v);
void ls_step_page_refuse(ls_step_page *p, const char *name, const char *why);
/* Replaces the file. LS_E_MEMORY also if an earlier call had none. Local. */
ls_status ls_step_page_write(ls_step_page *p, const char *path);
void ls_step_page_release(ls_step_page *p);
/* All of it, for one view. */
ls_status ls_step_page_one(const char *path, const ls_step_view *v);
