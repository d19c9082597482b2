/* pieces.h - the elements of ranges as pieces of host memory. A range in a session's memory has no address,
 * so its elements go through a room, which is made before anything is written or read. A range in host memory
 * needs no copy: its pieces are where it is. */
#pragma once
#include "ckpt/checkpoint.h"

/* Bytes that are read at a time: so few that they are still in a core's cache for everything that is done
 * with them. */
#define LS_PIECES_READ ((size_t)256 << 10)

typedef struct ls_pieces {
    char *room; /* NULL: every range lies in host memory */
    int threads;
    size_t bytes; /* of the room, and of the largest piece that is put: some for each thread */
    /* Of reading: the room has elements `from` .. `end` - 1 of this range. */
    const ls_range *range;
    int64_t from, end;
    /* Of writing: so many bytes of the room wait to be copied to this session's memory. */
    size_t used;
    ls_session *session;
} ls_pieces;

/* Makes the room, if a range of `l` needs one. NULL: it is needed. LS_E_MEMORY. */
ls_status ls_pieces_open(ls_pieces *p, const ls_tensor_list *l);
/* Waits until what was put is in its place. Returns `s`, or if that is LS_OK whether the wait succeeded. */
ls_status ls_pieces_close(ls_pieces *p, ls_status s);

/* *out: elements from number `at` of a range on, which are of type d. *n: how many are wanted, at least one;
 * it receives how many there are, at most LS_PIECES_READ bytes. They stay until the next call. */
ls_status ls_piece_get(ls_pieces *p, const ls_range *r, ls_dtype d, int64_t at, int64_t *n, const void **out);
/* How many elements to put together, from number `at` on: as many as fit, or are left. */
int64_t ls_piece_length(const ls_pieces *p, const ls_range *r, ls_dtype d, int64_t at);
/* *out: memory for elements at .. at + n - 1 of the range. When they are there, ls_piece_put copies them to
 * their place. */
ls_status ls_piece_begin(ls_pieces *p, const ls_range *r, ls_dtype d, int64_t at, int64_t n, void **out);
ls_status ls_piece_put(ls_pieces *p, const ls_range *r, ls_dtype d, int64_t at, int64_t n, const void *piece);

/* ls_ranges_load, not as a check, by pieces that the caller has opened, so that no list is loaded without
 * memory for the next one. What it loads is there when they are closed. Local. */
ls_status ls_ranges_load_by(ls_pieces *p, const ls_weights *w, const ls_tensor_list *l,
                            const ls_weights_load_opts *o);
