/* compiled_recipe.h - a recipe's step as one rank would run it, on this machine or another: what `plan`,
 * `explain` and `inspect` look at. */
#pragma once
#include "plan/describe.h"
#include "plan/machine.h"
#include "recipe/recipe_arg.h"
#include "setup.h"

typedef struct ls_compiled_recipe {
    ls_recipe *recipe;
    ls_setup setup;
    ls_compiled step;
    ls_calibration store;
    const ls_calibration *calibration; /* NULL: not measured here */
    int ranks;
    ls_collective_speed network; /* between hosts, as it was given; zeros: as measured */
    const ls_machine *machine;   /* as in ls_elsewhere */
    int ranks_per_host;          /* 0: all ranks are on one host */
} ls_compiled_recipe;

/* Where ranks would run. */
typedef struct ls_elsewhere {
    int64_t ranks_per_host;      /* 0: as many as the machine's hosts have; without one, all on one host */
    ls_collective_speed network; /* between hosts; zeros: as the machine has it, or `doctor` measured it */
    const ls_machine *machine;   /* NULL: hosts like this one. It outlives what is compiled for it */
} ls_elsewhere;

/* Ranks of a host, of `ranks` in all; 0: all of them are on one. `where` may be NULL. */
int64_t ls_elsewhere_ranks(const ls_elsewhere *where, int64_t ranks);

/* Compiles the step as rank `rank` would run it. With `workers: {min, max}` there are max ranks.
 * `where` NULL: on one host. LS_E_USAGE if `rank` is out of range. Starts no rank and
 * reads no data. */
ls_status ls_compiled_recipe_make(ls_compiled_recipe *out, const ls_recipe_arg *arg, int64_t rank,
                                  const ls_elsewhere *where);
/* Measures the kernel calls of these programs that this machine's calibration does not know, keeps them, and
 * estimates again. LS_E_UNSUPPORTED if this machine cannot run them. */
ls_status ls_compiled_recipe_measure(ls_compiled_recipe *c);
/* The same, but the times are not kept for later, and there is no warning. */
ls_status ls_compiled_recipe_time(ls_compiled_recipe *c);
void ls_compiled_recipe_release(ls_compiled_recipe *c);

/* Where parameter `slot` is stored, on rank p->rank. */
ls_stored_at ls_stored_of(const ls_units *u, const ls_parallel *p, int slot);
/* Appends what a rank stores of a parameter: "elements 0 to 5120 of 16384: rows 0 to 39", "of block 1 all of
 * it", "nothing of it". */
void ls_local_shard_text(ls_str *out, const ls_local_shard *h);
/* Writes an array with what each rank stores of the parameter. */
void ls_stored_parts_json(ls_json *j, const char *key, const ls_units *u, const ls_parallel *p, int slot);

/* "dp=2 x shard=2, hybrid in 11 units (class:EncoderBlock), reshard_after_forward true, gather map" */
void ls_layout_text(ls_str *out, const ls_compiled *c);
