/* split_choice.h - which samples of a split `lockstep predict` takes: those from --first on, or --random. */
#pragma once
#include "commands.h"

typedef struct ls_split_choice {
    int64_t first, n;  /* samples taken, in this order */
    int64_t random_of; /* drawn from so many; 0: consecutive */
    uint64_t seed;
    const int64_t *list; /* [n]: these samples; NULL: as above */
} ls_split_choice;

/* Of a split of `samples`; fewer than were asked for where it ends. LS_E_USAGE: --first is behind its end. */
ls_status ls_split_choose(ls_split_choice *out, const ls_predict_opts *o, int64_t samples);
/* The number in the split of sample i of those taken. */
int64_t ls_split_sample(const ls_split_choice *c, int64_t i);
