/* workers.h - how many ranks a recipe gets, and where: what it asks for, and what there is room for. */
#pragma once
#include "launch/controller.h"
#include "launch/hosts.h"
#include "launch/launch.h"
#include "lockstep/group.h"
#include "recipe/recipe_arg.h"
#include "setup/setup.h"
#include "bucket.h"

typedef struct ls_workers {
    const ls_recipe_arg *named;
    ls_recipe **recipe; /* read anew for each choice */
    ls_setup *setup;    /* made for it */
    ls_hosts *hosts;    /* NULL: this one */
    ls_remote **remote; /* opened before a run is looked for (bucket.h); NULL: the bucket is not asked */
    int64_t until;      /* the step after which this command stops; 0: the last one */
    char why[700];      /* why the last choice is not as many as there is room for; "": it is */
} ls_workers;

ls_status ls_workers_recipe(ls_workers *w);
/* Reads --hosts and the like, and asks all of them. *workers: the number of ranks that there is room for;
 * fewer if the mesh or the batch cannot have that many. */
ls_status ls_workers_begin(ls_workers *w, const ls_hosts_opts *o, int *workers);
/* The number of ranks after a failure, at most `most` (0: no limit): LS_E_PEER when too few hosts answer.
 * `context` is a ls_workers. */
ls_status ls_workers_choose_again(void *context, int most, int *workers);
/* workers_grow.c: whether hosts that were lost are back, and the run is to have more than `workers` ranks
 * with them: mesh and batch can have them, and enough of the run is left. A host that is back but makes no
 * difference is reported once, with the reason. Does not wait. */
bool ls_workers_more(void *context, int workers, ls_more *out);
/* After an attempt: true if it failed on hosts that had come back (ls_hosts_judge). They may be left out from
 * then on, so the run can go on as before. */
bool ls_workers_judge(void *context, const ls_attempt_end *end);
/* After a plan for hosts with per_host ranks each has failed with `s`: adds to its message how many ranks
 * `train --hosts` would use there, and which number would use all hosts. Returns `s`. */
ls_status ls_workers_would(const ls_recipe_arg *named, int64_t per_host, ls_status s);
/* The number and the hosts of ranks that do not train: fills ranks, hosts, threads and cores of *o. The
 * recipe has a number only if the command line gave one (ls_saved_model_open). The caller frees *hosts. */
ls_status ls_workers_told(ls_launch_opts *o, ls_hosts **hosts, const ls_hosts_opts *places,
                          const ls_recipe *r);
/* Refuses ranks that have fewer cores, or more neighbours on their host, than the recipe says. *threads: as
 * ls_ranks_compare found them; then cores_per_worker, if it is set. Collective. */
ls_status ls_workers_fit(int *threads, ls_group *g, const ls_recipe *r);
/* mpirun or srun may have started another number of ranks than the recipe allows. */
ls_status ls_workers_check(const ls_recipe *r, int ranks);
/* An existing run keeps the micro_batch that its first start resolved. Rank 0 sends it to the others, because
 * their hosts may not have the run's folder. Collective when there is a group. */
ls_status ls_workers_micro_batch(ls_recipe *r, ls_group *g);
