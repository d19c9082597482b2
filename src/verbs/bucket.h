/* bucket.h - the bucket of a run (run.storage: s3://...), from before the run is looked for until its end.
 */
#pragma once
#include "lockstep/recipe.h"
#include "record/remote_hosts.h"

/* Opens the bucket that the recipe names, if *r is NULL and it names one. The process that the user started
 * also fetches what the run has there; a rank that another of our processes started does not. Local. */
ls_status ls_bucket_begin(ls_remote **r, const ls_recipe *recipe);

/* The same for the ranks of a group, of which rank 0 does so. *apart: their hosts share no folder, so each
 * rank has the bucket (r NULL: a dry run, nobody has); that needs `checkpoint.files: per_rank`, which is the
 * default then. Collective. */
ls_status ls_bucket_join(ls_remote **r, bool *apart, const ls_recipe *recipe, ls_group *g);

/* Tells all ranks the checkpoint that rank 0 continues from ("": none), and fetches it where the run is in a
 * bucket (ls_remote_fetch; `sparse` where everything that is loaded is verified). LS_E_USAGE if a host does
 * not see it then. Collective. */
ls_status ls_bucket_share(ls_remote *r, bool apart, char path[4096], ls_group *g, const ls_recipe *recipe,
                          ls_sparse *sparse);

/* The end of the process that the user started: sends what the bucket has not got, and closes it. `s`: how
 * the run ended; a failure to send is reported only after LS_OK, where it says that the run is whole here.
 * Local. */
ls_status ls_bucket_end(ls_remote **r, ls_status s, const char *message);
