/* digests.h - failure.digest_every: digests of weights and optimizer state in metrics.jsonl, and a comparison
 * of the ranks that have the same parameters. */
#pragma once
#include "loop.h"

/* After a step, and before a save: makes the digests if it is time, and compares the copies of all ranks.
 * LS_E_DEVICE on one rank, LS_E_PEER on the others: a rank's memory or arithmetic is wrong. Collective. */
ls_status ls_loop_digests(ls_loop *l, int64_t epoch, bool saves);
