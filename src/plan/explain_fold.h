/* explain_fold.h - the schedule as lines, and which lines are repetitions: the blocks of a deep model are
 * alike. Private to explain*.c. */
#pragma once
#include "base/str.h"
#include "internal.h"

/* step -1: nothing runs (a source or a view) */
typedef struct ls_explain_line {
    int node, step;
} ls_explain_line;

/* Consecutive lines of one phase, inside one block of the model or between two blocks. */
typedef struct ls_explain_span {
    int first, end;        /* lines */
    const ls_scope *block; /* NULL: between blocks */
    ls_phase phase;
    bool hidden; /* a repetition of an earlier span */
    /* After this span, `more` repetitions are hidden, which end with span `until`; 0: none. */
    int more, until;
} ls_explain_span;

/* Each node once, before the first step that needs it; a collective twice. */
/* Both: 0 without memory, which the arena remembers. */
int ls_explain_lines(ls_arena *a, const ls_plan *p, ls_explain_line **out);
int ls_explain_spans(ls_arena *a, const ls_plan *p, int n, const ls_explain_line *lines,
                     ls_explain_span **out);
