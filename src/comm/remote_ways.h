/* remote_ways.h - how slices and sums move between machines, by their size. Arithmetic only, so that `plan`
 * counts the messages that a step will send. */
#pragma once
#include "collective.h"

enum {
    LS_REMOTE_REGION = 2 << 20,  /* bytes of two halves for passes of doubling messages */
    LS_REMOTE_PIECE = 512 << 10, /* most bytes of a message with one slice */
    LS_REMOTE_SMALL = 256 << 10, /* bytes from which on a message costs little beside its bytes; for people */
    LS_REMOTE_WHOLE = 64 << 10   /* most bytes of all machines' parts of a sum that goes whole to all */
};

/* A movement goes through the slices in passes. In each pass every slice advances by `step` elements.
 *
 *   turns      Each two machines exchange one message a pass: M - 1 messages. For large slices.
 *   doubling   Each of log2 M messages carries twice as many slices as the one before, or, of sums, half as
 *              many. For small slices: the first message carries one slice.
 *
 * What needs fewer messages is taken. Sums double only if M is a power of two; then the exchange of pairs,
 * nearest first, adds in the balanced tree. */
typedef struct ls_way {
    bool doubling;
    int64_t passes, step;
    int messages; /* that a rank sends in a pass */
} ls_way;

int ls_way_rounds(int machines); /* log2 M, rounded up */
/* part: elements of a slice; size: of an element as it travels; `wide`: as it is added. */
ls_way ls_way_to_share(int machines, int64_t part, size_t size);
ls_way ls_way_to_reduce(int machines, int64_t part, size_t size, size_t wide);
/* Whether an all_reduce is so small that each machine's sum goes to all, which then add by themselves. */
bool ls_way_is_whole(int machines, int64_t count, size_t wide);
/* Elements of a slice of an all_reduce over `n` positions: whole cache lines. */
int64_t ls_way_part(int64_t count, int n);
/* The type in which a machine's part of a sum travels in turns: a single operand goes as it is, if it is the
 * smaller one. */
ls_dtype ls_way_travels(int each, ls_dtype from, ls_dtype via);

/* What a rank sends to other machines. */
typedef struct ls_message_count {
    int64_t messages, least, most; /* bytes of the smallest and of the largest one */
    int64_t small;                 /* messages of less than LS_REMOTE_SMALL bytes */
    double small_bytes;            /* of these */
    int64_t waits;                 /* how often it waits for a message before it sends the next */
    double bytes;
} ls_message_count;
void ls_message_count_add(ls_message_count *to, const ls_message_count *more, int64_t times);
/* Of a collective over `machines` with `each` members on each of them. The last slices of an all_reduce may
 * be shorter, so it may send less. Of an all_to_all it is what is sent if rows are spread evenly, `count`
 * being the elements of the rows of a member's tokens. */
ls_message_count ls_collective_messages(ls_collective_kind k, int machines, int each, int64_t count,
                                        ls_dtype from, ls_dtype via, ls_dtype to);
