/* pipeline_order.c - see pipeline_order.h.
 *
 * All schedules are one: a rank runs some forward passes ahead, then a forward and a backward pass in turn,
 * then the backward passes that are left. With several stages a rank, it goes through them with as many
 * micro-batches as there are ranks, and then with the next ones: so every rank has the next micro-batch when
 * the one before it needs none. */
#include "pipeline_order.h"

#include "base/arena.h"
#include "base/field.h"
#include "stages.h"

ls_pipeline_shape ls_parallel_pipeline(const ls_parallel *p, int64_t micro_batches)
{
    return (ls_pipeline_shape){ .schedule = p->schedule,
                                .ranks = ls_parallel_stages(p),
                                .chunks = ls_parallel_chunks(p),
                                .micro_batches = micro_batches };
}

/* The k-th forward pass of a rank. Of a backward pass: counted from the last stage. */
static ls_stage_pass kth(const ls_pipeline_shape *s, int rank, int64_t k, ls_stage_work work)
{
    const int64_t p = s->ranks, round = k / (p * s->chunks), left = s->micro_batches - round * p,
                  group = left < p ? left : p, at = k % (p * s->chunks),
                  chunk = work == LS_WORK_FORWARD ? at / group : s->chunks - 1 - at / group;
    return (ls_stage_pass){ work, (int)(chunk * p) + rank, round * p + at % group };
}

/* A rank's forward passes before the one that its first backward pass follows. With several stages there are
 * more than stages that take equally long need: messages take time, and each goes round all ranks. */
static int64_t ahead(const ls_pipeline_shape *s, int rank)
{
    if (s->schedule == LS_SCHEDULE_GPIPE)
        return s->micro_batches * s->chunks;
    const int64_t behind = s->ranks - 1 - rank;
    return s->schedule == LS_SCHEDULE_INTERLEAVED ? 2 * behind + (s->chunks - 1) * s->ranks : behind;
}

ls_status ls_pipeline_check(const ls_pipeline_shape *s)
{
    if (s->chunks < 2 || s->micro_batches % s->ranks == 0)
        return LS_OK;
    return ls_fail_field(LS_E_USAGE, "schedule",
                         "interleaved needs a number of micro-batches that %d ranks of the pipeline divide, "
                         "and each rank has %lld: another number would do, or schedule 1f1b or zero_bubble",
                         s->ranks, (long long)s->micro_batches);
}

int64_t ls_pipeline_passes(const ls_pipeline_shape *s)
{
    return (s->schedule == LS_SCHEDULE_ZERO_BUBBLE ? 3 : 2) * s->micro_batches * s->chunks;
}

void ls_pipeline_order(ls_stage_pass *out, const ls_pipeline_shape *s, int rank)
{
    const bool split = s->schedule == LS_SCHEDULE_ZERO_BUBBLE;
    const int64_t n = s->micro_batches * s->chunks, first = ahead(s, rank);
    int64_t back = 0, weights = 0;
    for (int64_t k = 0; back < n; k++) {
        if (k < n)
            *out++ = kth(s, rank, k, LS_WORK_FORWARD);
        if (k >= first || k >= n)
            *out++ = kth(s, rank, back++, split ? LS_WORK_INPUTS : LS_WORK_BACKWARD);
        /* Rank r leaves the weights of r micro-batches for its last waits. So it keeps something of as many
         * micro-batches as rank 0, and of no more. */
        if (split && back > rank)
            *out++ = kth(s, rank, weights++, LS_WORK_WEIGHTS);
    }
    while (split && weights < n)
        *out++ = kth(s, rank, weights++, LS_WORK_WEIGHTS);
}

/* ---- playing it */

typedef struct player {
    const ls_pipeline_shape *s;
    int stages;
    int64_t *time, *next;  /* [ranks]: when it is done with its last pass; the number of its next one */
    ls_stage_pass **order; /* [ranks] */
    int64_t *done;         /* [forward, backward][stages][micro-batches]: when a pass is done; 0: it is not */
} player;

static int64_t *done(const player *p, bool backward, int stage, int64_t micro)
{
    return &p->done[((backward ? p->stages : 0) + stage) * p->s->micro_batches + micro];
}

/* Runs the next pass of a rank, if what it reads is there. */
static bool run(player *p, int rank)
{
    static const int64_t TIME[] = {
        [LS_WORK_FORWARD] = 1, [LS_WORK_BACKWARD] = 2, [LS_WORK_INPUTS] = 1, [LS_WORK_WEIGHTS] = 1
    };
    const ls_stage_pass *x = &p->order[rank][p->next[rank]];
    const bool backward = x->work != LS_WORK_FORWARD, alone = x->work == LS_WORK_WEIGHTS;
    const int before = x->stage + (backward ? 1 : -1);
    const bool reads = !alone && before >= 0 && before < p->stages;
    const int64_t from = reads ? *done(p, backward, before, x->micro) : 0;
    if (reads && !from)
        return false;
    p->time[rank] = (from > p->time[rank] ? from : p->time[rank]) + TIME[x->work];
    if (!alone)
        *done(p, backward, x->stage, x->micro) = p->time[rank];
    p->next[rank]++;
    return true;
}

static ls_status play(double *idle, player *p, ls_arena *arena)
{
    const ls_pipeline_shape *s = p->s;
    const int64_t passes = ls_pipeline_passes(s), busy = 3 * s->micro_batches * s->chunks;
    p->time = LS_ARENA_ARRAY(arena, int64_t, s->ranks);
    p->next = LS_ARENA_ARRAY(arena, int64_t, s->ranks);
    p->order = LS_ARENA_ARRAY(arena, ls_stage_pass *, s->ranks);
    p->done = LS_ARENA_ARRAY(arena, int64_t, 2 * p->stages * s->micro_batches);
    LS_TRY(ls_arena_status(arena));
    for (int r = 0; r < s->ranks; r++) {
        p->order[r] = LS_ARENA_ARRAY(arena, ls_stage_pass, passes);
        LS_TRY(ls_arena_status(arena));
        ls_pipeline_order(p->order[r], s, r);
    }
    int64_t end = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < s->ranks; r++) {
            while (p->next[r] < passes && run(p, r))
                moved = true;
            end = p->time[r] > end ? p->time[r] : end;
        }
    }
    for (int r = 0; r < s->ranks; r++)
        if (p->next[r] < passes)
            return ls_fail(LS_E_INTERNAL, "pipeline: rank %d waits for ever before its pass %lld of %lld", r,
                           (long long)p->next[r], (long long)passes);
    *idle = end ? (double)(end - busy) / (double)end : 0;
    return LS_OK;
}

ls_status ls_pipeline_idle(double *idle, const ls_pipeline_shape *s)
{
    *idle = 0;
    if (s->ranks < 2)
        return LS_OK;
    ls_arena arena;
    ls_arena_init(&arena);
    player p = { .s = s, .stages = s->ranks * s->chunks };
    const ls_status status = play(idle, &p, &arena);
    ls_arena_release(&arena);
    return status;
}
