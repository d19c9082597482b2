/* block.c - the memory in which the ranks of one host meet: its layout, the first failure, what a rank is
 * doing. */
#include "internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static const uint64_t MAGIC = 0x6b636f6c62736cull; /* "lsblock" */

static size_t up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

static size_t lines_at(int ranks) { return offsetof(ls_block, rest) + sizeof(ls_seat) * (size_t)ranks; }

static size_t stage_at(int ranks)
{
    return up(lines_at(ranks) + sizeof(ls_line) * LS_BLOCK_AXES * (size_t)ranks, 4096);
}

size_t ls_block_bytes(int ranks) { return stage_at(ranks) + (size_t)LS_STAGE_BYTES * (size_t)ranks; }

void ls_block_init(ls_block *b, int ranks)
{
    b->ranks = ranks;
    b->magic = MAGIC;
    atomic_store(&b->end, ls_block_bytes(ranks));
}

bool ls_block_valid(const ls_block *b, size_t bytes)
{
    return bytes >= sizeof *b && b->magic == MAGIC && b->ranks > 0 && b->ranks <= LS_BLOCK_RANKS &&
           bytes >= ls_block_bytes(b->ranks);
}

ls_seat *ls_block_seat(ls_block *b, int seat) { return (ls_seat *)(void *)b->rest + seat; }

ls_line *ls_block_line(ls_block *b, int axis, int seat)
{
    return (ls_line *)(void *)((char *)b + lines_at(b->ranks)) + (size_t)axis * (size_t)b->ranks +
           (size_t)seat;
}

char *ls_block_stage(ls_block *b, int seat)
{
    return (char *)b + stage_at(b->ranks) + (size_t)seat * LS_STAGE_BYTES;
}

void ls_block_fail(ls_block *b, int rank, int teller, ls_status code, const char *text)
{
    ls_failure *f = &b->failure;
    int none = 0;
    if (!atomic_compare_exchange_strong(&f->state, &none, (int)getpid()))
        return;
    f->rank = rank;
    f->teller = teller;
    f->code = (int)code;
    snprintf(f->text, sizeof f->text, "%s", text);
    atomic_store(&f->state, LS_TOLD);
}

bool ls_block_failed(ls_block *b)
{
    return atomic_load_explicit(&b->failure.state, memory_order_acquire) == LS_TOLD;
}

/* Who says it may have lost its core in the middle of the sentence; only of the dead nothing more is heard,
 * and of the stopped not in time. */
bool ls_block_hear(ls_block *b)
{
    for (double until = ls_now() + 10; ls_now() < until;) {
        const int writer = atomic_load(&b->failure.state);
        if (writer == 0 || writer == LS_TOLD || !ls_process_born(writer, NULL))
            break;
        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    }
    return ls_block_failed(b);
}

/* Words, one after the other, while their rank may be writing: a text mixed of two is possible and harmless.
 */
void ls_block_doing(ls_block *b, int seat, char text[128])
{
    for (int i = 0; i < LS_DOING_WORDS; i++) {
        uint64_t word = atomic_load_explicit(&ls_block_seat(b, seat)->doing[i], memory_order_relaxed);
        memcpy(text + 8 * i, &word, 8);
    }
    text[127] = 0;
}

void ls_group_doing(ls_group *g, const char *what)
{
    uint64_t words[LS_DOING_WORDS] = { 0 };
    memcpy(words, what, strnlen(what, 120));
    ls_seat *s = ls_block_seat(g->block, ls_group_seat(g));
    for (int i = 0; i < LS_DOING_WORDS; i++)
        atomic_store_explicit(&s->doing[i], words[i], memory_order_relaxed);
}

void ls_group_planned(ls_group *g, uint64_t bytes)
{
    atomic_store(&ls_block_seat(g->block, ls_group_seat(g))->planned, bytes);
}
