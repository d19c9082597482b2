/* replicas.h - digests of the state that a trainer keeps between steps: one of all values, the same for every
 * layout; and a comparison of the ranks that have equal copies of a parameter. */
#pragma once
#include "compile.h"
#include "lockstep/trainer.h"

typedef struct ls_replicas {
    uint64_t model, optimizer; /* digests of all values, as in element_digest.h */
    bool differ;               /* ranks that must have equal copies have not */
    int reporter;              /* then: the rank that reports it, the first that stands alone */
    char what[1024]; /* "the copy of fc.weight on rank 1 (host b) is not that of ranks 0, 2 and 3" */
} ls_replicas;

/* Makes the digests and compares the copies. Buffers count as rank 0 has them. Collective. */
ls_status ls_trainer_compare_replicas(ls_trainer *t, ls_replicas *out);

/* What this costs a rank of a compiled step: the bytes that it reads; *copies: how many ranks have the same
 * parameters, of the parameter that most have. Local. */
ls_status ls_replicas_cost(int64_t *bytes, int *copies, const ls_compiled *c);
double ls_replicas_speed(void); /* bytes a second, measured now in a few milliseconds. Local. */

/* Flips a bit of a weight of this rank (LOCKSTEP_FAULT=flip@...). Local. */
ls_status ls_trainer_flip(ls_trainer *t, uint64_t which);
