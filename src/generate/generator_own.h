/* generator_own.h - the struct of a generator: a model as two programs of one session. The first reads
 * prompts, the second takes one token of every row. A row is a beam of a prompt. */
#pragma once
#include "execute/session.h"
#include "lockstep/generate.h"

enum { LS_READ, LS_DECODE, LS_GENERATOR_PROGRAMS };

struct ls_generator {
    bool is_t5;
    ls_decoder_config decoder;    /* if not is_t5 */
    ls_t5_config t5;              /* if is_t5 */
    int64_t prompts, beams, rows; /* rows = prompts * beams */
    int64_t vocabulary, places;
    ls_plan *plans[LS_GENERATOR_PROGRAMS];
    ls_session *session;
    /* Inputs of the programs, and their output. A tensor that a program does not have has data NULL. */
    ls_tensor ids[LS_GENERATOR_PROGRAMS], positions[LS_GENERATOR_PROGRAMS], row, from, logits;
    int64_t position; /* number of tokens in the caches of the first row */
    bool has_read;    /* T5: it has read a source */
};

/* LS_E_ARG if an id is not in the vocabulary. */
ls_status ls_generator_check_ids(const ls_generator *g, const int32_t *ids, int64_t n);
/* Takes one token of each row. positions[r] -1: row r has ended and takes none. Row r continues the text of
 * row from[r]; from NULL: its own. */
ls_status ls_generator_decode(ls_generator *g, const int32_t *ids, const int32_t *positions,
                              const int32_t *from);
/* A language model takes n tokens of a prompt. */
ls_status ls_generator_continue(ls_generator *g, const int32_t *ids, int64_t n);
/* T5 reads n sources, at most g->prompts. */
ls_status ls_generator_read_all(ls_generator *g, int64_t n, const ls_tokens *sources);
