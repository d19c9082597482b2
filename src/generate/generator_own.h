/* generator_own.h - the struct of a generator: a model as programs of one session. `decode` takes one token
 * of every row; the others read prompts. A row is a beam of a prompt. */
#pragma once
#include "execute/session.h"
#include "lockstep/generate.h"
#include "models/generation.h"

enum { LS_DECODE, LS_ENCODE, LS_GENERATOR_PROGRAMS = 4 }; /* LS_ENCODE: of a model that reads sources */
enum { LS_SOURCES = 0 };                                  /* the input of `encode` */
enum { LS_GENERATOR_RUNS = 8 };                           /* runs that may be in the queue at once */

struct ls_generator {
    ls_generation model;          /* its config is NULL once the programs are built */
    int64_t prompts, beams, rows; /* rows = prompts * beams */
    ls_group *group;              /* whose ranks split the layers; NULL: one rank */
    ls_parallel parallel;
    int programs, threads;
    ls_plan *plans[LS_GENERATOR_PROGRAMS];
    int64_t takes[LS_GENERATOR_PROGRAMS]; /* tokens of each prompt (decode: of each row) in a run */
    ls_session *session;
    /* Inputs of the programs, and their output. An input that a program does not have has no place. */
    ls_place ids[LS_GENERATOR_PROGRAMS], positions[LS_GENERATOR_PROGRAMS], row, from, logits;
    /* The inputs of the next run, as in the places, and the logits of the last one [rows, vocabulary]. Runs
     * that are in the queue have their own part of `inputs`, which has LS_GENERATOR_RUNS parts. */
    int32_t *inputs, *id, *of_position, *of_row, *of_from;
    int queued; /* runs since the last wait */
    float *scores;
    int64_t position; /* number of tokens in the caches of the first row */
    bool has_read;    /* has read a source */
};

static inline bool ls_generator_has_sources(const ls_generator *g) { return g->model.source > 0; }
/* Elements of the largest input of tokens. */
size_t ls_generator_most_tokens(const ls_generator *g);
/* Takes one token of each row. positions[r] -1: row r has ended and takes none. Row r continues the text of
 * row from[r]. */
ls_status ls_generator_decode(ls_generator *g, const int32_t *ids, const int32_t *positions,
                              const int32_t *from);
/* Continues with tokens: a language model reads n prompts, at most g->prompts, after the g->position tokens
 * in its caches; a model that reads sources takes tokens of the target. The logits of row p * beams follow
 * prompt p. */
ls_status ls_generator_continue(ls_generator *g, int64_t n, const ls_tokens *prompts);
/* Reads n sources, at most g->prompts. */
ls_status ls_generator_read_all(ls_generator *g, int64_t n, const ls_tokens *sources);
