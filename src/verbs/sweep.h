/* sweep.h - `lockstep sweep`: the runs of one recipe under several settings. Every run is a run directory
 * like those of `lockstep train`, in a folder of the sweep. Private to the files sweep*.c.
 *
 * The name of a run says its values, so a run is the same one whichever values stand beside it: a sweep that
 * is started again with more values adds runs. */
#pragma once
#include "base/affinity.h"
#include "base/arena.h"
#include "commands.h"
#include "pages/sweep_page.h"

enum { LS_SWEEP_KEYS = 16, LS_SWEEP_RUNS = 10000 };

typedef struct ls_sweep_key {
    const char *key, *label; /* label: the end of the key that no other key of the sweep has */
    int n;
    const char **values; /* one after the other; in a range: none */
    bool range, linear, whole;
    double low, high;
} ls_sweep_key;

typedef struct ls_sweep_run {
    const char *name, *dir; /* dir: the run directory */
    const char **values;    /* of each key */
    const char **sets;      /* the settings of `lockstep train`: all n_fixed, then n_keys, then two */
    const char *refused;    /* why this combination cannot be trained; NULL: it can */
    int64_t steps;          /* of the run, as far as it is known; 0: not yet */
    int64_t before;         /* steps that were finished when this command began */
    int64_t bytes;          /* of memory, as planned, of all ranks; 0: as the first run */
    int status;             /* of its process; -1: this command has not started it */
    double seconds;         /* that its process took */
    pid_t pid;              /* 0: it does not run */
    int slot;               /* which part of the cores it has */
    bool finished;          /* with the same recipe and as many epochs: there is nothing to train */
} ls_sweep_run;

typedef struct ls_sweep {
    ls_arena arena;
    const ls_sweep_opts *o;
    const char *recipe_name, *dir; /* name of the recipe's runs; the folder of the sweep */
    int n_keys;
    ls_sweep_key keys[LS_SWEEP_KEYS];
    int n_fixed;
    const char **fixed; /* settings that all runs have */
    int n;
    ls_sweep_run *runs;
    char metric[64];   /* by which the runs are sorted */
    bool highest;      /* the largest value is the best */
    int ranks, cores;  /* of a run: of the first that is not refused; cores: that it needs at least */
    bool apart;        /* the device has memory of its own: its runs come one after the other */
    int parallel;      /* runs at a time */
    ls_cpu_set *parts; /* the cores of each; NULL: they are not divided */
} ls_sweep;

/* sweep_settings.c. Reads the settings and makes the list of runs. LS_E_USAGE. */
ls_status ls_sweep_make(ls_sweep *s);

/* sweep_fit.c. Checks every run's recipe, plans its memory, looks which runs are finished, and finds how many
 * fit beside each other. A combination that cannot be trained is refused, not an error unless all are.
 * Collective: no. */
ls_status ls_sweep_fit(ls_sweep *s);

/* sweep_run.c. Trains all runs that are not finished, or only number `only` (-1: all). LS_OK also if some
 * failed; LS_E_STOPPED on request, when every run has saved. */
ls_status ls_sweep_train(ls_sweep *s, int only, const ls_ui *ui);

/* sweep_report.c. Reads how the runs stand, and orders them by the metric. Release the list with free. */
ls_status ls_sweep_view_make(ls_sweep_view *v, ls_sweep *s);
/* sweep_seeds.c. The groups of a view with lines. */
ls_status ls_sweep_view_seeds(ls_sweep_view *v, ls_sweep *s);
ls_status ls_sweep_print(const ls_sweep *s, const ls_sweep_view *v, const ls_ui *ui);
/* Why run r failed: what it recorded, or the last line of its log. In s->arena. */
const char *ls_sweep_failure(ls_sweep *s, const ls_sweep_run *r);
