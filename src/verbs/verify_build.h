/* verify_build.h - what trained the steps of a run, for `lockstep verify`: the program, the ISA level, the
 * layout of the ranks (`builds` of result.json) and the data (trainer.json of a checkpoint). Private to the
 * verify files. */
#pragma once
#include "base/json.h"
#include "base/str.h"

typedef struct ls_verify_build {
    json_t *builds;         /* of result.json, see record/rundir.h; NULL: an older version wrote it */
    json_t *trainer;        /* trainer.json of the newest checkpoint; NULL: there is none */
    int64_t step;           /* the last step that result.json or a checkpoint has */
    int64_t oldest, newest; /* steps of the checkpoints; 0: there is none */
} ls_verify_build;

/* What is not there is left out. Release it also after a failure. Local. */
ls_status ls_verify_build_read(ls_verify_build *out, const char *run_dir);
void ls_verify_build_release(ls_verify_build *b);

/* What trained this step, an entry of `builds`; NULL: nothing says so. */
const json_t *ls_verify_build_of(const ls_verify_build *b, int64_t step);

/* LS_E_USAGE where steps from + 1 to `to` were trained on layouts of ranks whose bits differ. */
ls_status ls_verify_build_check(const ls_verify_build *b, const char *run_dir, int64_t from, int64_t to);

/* Names the last of these steps that another program trained than this one; false: there are none. */
bool ls_verify_build_other(const ls_verify_build *b, int64_t from, int64_t to, char text[200]);

/* Appends why step `to` need not have the same bits in both: another device, ISA level or layout of ranks. */
void ls_verify_build_bits(ls_str *out, const ls_verify_build *run, const ls_verify_build *again, int64_t to);
