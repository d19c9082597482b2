/* watch_frame.h - what `lockstep watch` shows of a run, read from its folder alone. */
#pragma once
#include "record/heartbeat.h"
#include "record/history.h"
#include "screen.h"

enum { LS_WATCH_WARNINGS = 3 };
typedef struct ls_watch_rank {
    ls_heartbeat now, before; /* before: an earlier one; `share` is measured between the two */
    bool known;
    double share; /* of its time for which it lately waited for other ranks */
} ls_watch_rank;

typedef struct ls_watch {
    const char *dir; /* not owned */
    ls_run_info info;
    char broken[512]; /* why result.json cannot be read; "": it can, or there is none yet */
    bool begun;       /* there is a result.json */
    ls_history history;
    int n_ranks, cap_ranks;
    ls_watch_rank *ranks;
    char *warnings[LS_WATCH_WARNINGS]; /* the last lines of logs that warn; the oldest first */
} ls_watch;

/* Reads what has changed; at first w is zeroed but for `dir`. Errors: the folder is gone, or no memory. */
ls_status ls_watch_read(ls_watch *w);
void ls_watch_release(ls_watch *w);

typedef struct ls_watch_look {
    int width, height; /* in characters; height 0: as high as needed, and without charts */
    bool utf8, log;    /* log: logarithmic axes of losses */
    const char *foot;  /* in the last row; NULL: none */
} ls_watch_look;
/* *rows: how many rows of the screen are in use. */
ls_status ls_watch_draw(ls_screen *out, int *rows, const ls_watch *w, const ls_watch_look *look);
