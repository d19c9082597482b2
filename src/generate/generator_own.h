/* generator_own.h - what the files of this folder share: a model in two programs of one session. The first
 * reads prompts, the second takes one token of every row. A row is a beam of a prompt. */
#pragma once
#include "execute/session.h"
#include "lockstep/generate.h"

enum { LS_READ, LS_DECODE, LS_GENERATOR_PROGRAMS };

struct ls_generator {
    bool is_t5;
    ls_decoder_config decoder; /* one of these two */
    ls_t5_config t5;
    int64_t prompts, beams, rows; /* rows = prompts * beams */
    int64_t vocabulary, places;
    ls_plan *plans[LS_GENERATOR_PROGRAMS];
    ls_session *session;
    /* inputs of programs, and their output; data NULL where a program has none of that name */
    ls_tensor ids[LS_GENERATOR_PROGRAMS], positions[LS_GENERATOR_PROGRAMS], row, from, logits;
    int64_t position; /* tokens in the caches of the first row */
    bool has_read;    /* T5: a source */
};

ls_status ls_generator_check_ids(const ls_generator *g, const int32_t *ids, int64_t n);
/* One token of each row: positions -1 for rows that are over; from[r] NULL: each goes on from itself. */
ls_status ls_generator_decode(ls_generator *g, const int32_t *ids, const int32_t *positions,
                              const int32_t *from);
/* A language model takes a prompt in; *apart: logits of the rows are so far apart, 0: they are one. */
ls_status ls_generator_continue(ls_generator *g, const int32_t *ids, int64_t n);
/* T5 reads up to g->prompts sources. */
ls_status ls_generator_read_all(ls_generator *g, int64_t n, const ls_tokens *sources);
