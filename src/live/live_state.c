/* live_state.c - the queue in a checkpoint: live.safetensors. The samples of all ranks are concatenated, rank
 * by rank and the oldest first, so that any number of ranks can read them. On as many ranks as wrote it every
 * rank gets its own back, and goes on with the same bits; on another number sample i goes to rank i mod
 * ranks, in a reservoir after they were shuffled, for it may have less room than there are samples.
 *
 *     live.options  i64 [OPTIONS]: what must be the same, and what all ranks share
 *     live.ranks    i64 [ranks, NUMBERS]
 *     live.seen     u8  [samples of all ranks]
 *     live.kept.NAME, live.held.NAME [samples of all ranks, ..], live.spare.NAME [ranks, ..] */
#include "live.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/sys.h"

enum { KEEP, HOLD_OUT, SEED, CAPACITY, RECORDS, FIT, RECORDED, FILLS, FITTED, OPTIONS };
enum { KEPT, HELD, PUSHED, TRAINED, DROPPED, SPARE, NUMBERS };

static void list_options(const ls_live *q, int64_t to[OPTIONS])
{
    to[KEEP] = (int64_t)q->o.keep;
    to[HOLD_OUT] = q->o.hold_out;
    to[SEED] = (int64_t)q->o.seed;
    to[CAPACITY] = q->o.capacity;
    to[RECORDS] = q->record.dir != NULL;
    to[RECORDED] = q->record.done;
    to[FILLS] = q->fills;
    to[FIT] = q->o.fit;
    to[FITTED] = q->fitted;
}

static void list_numbers(const ls_live *q, int64_t to[NUMBERS])
{
    to[KEPT] = q->kept;
    to[HELD] = q->held;
    to[PUSHED] = q->pushed;
    to[TRAINED] = q->trained;
    to[DROPPED] = q->dropped;
    to[SPARE] = q->has_spare;
}

/* The type of n samples of a field. */
static ls_type samples_type(const ls_live *q, int i, int64_t n)
{
    ls_type type = q->t->fields[i].own.type;
    type.dims[0] = n * (type.dims[0] / q->t->compiled.micro_batch);
    return type;
}

/* A list that is built up. Each tensor has `whole` samples or numbers of all ranks, of which this rank has n
 * from number `first` on. */
typedef struct building {
    ls_arena *arena;
    ls_named_tensor *tensors;
    ls_range *mine;
    int64_t n;
} building;

static building live_state_begin(ls_arena *arena, const ls_live *q)
{
    const int64_t most = 3 + 3 * q->n_fields;
    return (building){ arena, LS_ARENA_ARRAY(arena, ls_named_tensor, most),
                       LS_ARENA_ARRAY(arena, ls_range, most), 0 };
}

static void live_state_add(building *b, const char *name, const ls_type *whole, int64_t first, int64_t count,
                           void *data)
{
    if (!b->tensors || !b->mine)
        return; /* the arena remembers */
    b->tensors[b->n] = (ls_named_tensor){ name, ls_tensor_of(NULL, whole) };
    b->mine[b->n++] = (ls_range){ .first = first, .count = count, .data = data };
}

static void add_samples(building *b, const ls_live *q, const char *what, int i, int64_t whole, int64_t first,
                        int64_t n, void *data)
{
    const ls_type one = samples_type(q, i, 1), all = samples_type(q, i, whole);
    const int64_t each = ls_type_count(&one);
    live_state_add(b, ls_arena_printf(b->arena, "live.%s.%s", what, q->t->fields[i].name), &all, first * each,
                   n * each, data);
}

static ls_tensor_list list_of(const building *b)
{
    return (ls_tensor_list){ .n = b->n, .tensors = b->tensors, .mine = b->mine };
}

/* ---- saving */

/* The ring's samples in their order. */
static void *in_order(const ls_live *q, ls_arena *arena, const void *ring, size_t bytes)
{
    const int64_t capacity = q->o.capacity,
                  head = q->kept < capacity - q->first ? q->kept : capacity - q->first;
    char *to = ls_arena_alloc(arena, (size_t)(q->kept + 1) * bytes);
    if (!to)
        return NULL;
    memcpy(to, (const char *)ring + (size_t)q->first * bytes, (size_t)head * bytes);
    memcpy(to + (size_t)head * bytes, ring, (size_t)(q->kept - head) * bytes);
    return to;
}

ls_status ls_live_save(void *live, ls_arena *arena, ls_tensor_list *out)
{
    ls_live *q = live;
    int64_t *all = ls_arena_alloc(arena, sizeof *all * NUMBERS * (size_t)q->ranks),
            *options = ls_arena_alloc(arena, sizeof *options * OPTIONS), mine[NUMBERS];
    int64_t kept[2] = { 0 }, held[2] = { 0 }; /* of the ranks before this one, and of all */
    /* (a rank without memory still answers the others) */
    int64_t *to = all ? all : ls_sys_malloc(sizeof *all * NUMBERS * (size_t)q->ranks);
    list_numbers(q, mine);
    if (to)
        memcpy(to, mine, sizeof mine);
    if (q->t->group)
        LS_TRY(ls_group_all_gather(q->t->group, mine, sizeof mine, to));
    if (!all || !options) {
        free(all ? NULL : to);
        return ls_arena_status(arena);
    }
    for (int r = 0; r < q->ranks; r++) {
        kept[0] += r < q->rank ? all[r * NUMBERS + KEPT] : 0;
        held[0] += r < q->rank ? all[r * NUMBERS + HELD] : 0;
        kept[1] += all[r * NUMBERS + KEPT];
        held[1] += all[r * NUMBERS + HELD];
    }
    building b = live_state_begin(arena, q);
    list_options(q, options);
    live_state_add(&b, "live.options", &LS_TYPE(LS_I64, OPTIONS), 0, q->rank ? 0 : OPTIONS, options);
    live_state_add(&b, "live.ranks", &LS_TYPE(LS_I64, q->ranks, NUMBERS), 0, q->rank ? 0 : q->ranks * NUMBERS,
                   all);
    live_state_add(&b, "live.seen", &LS_TYPE(LS_U8, kept[1]), kept[0], q->kept,
                   in_order(q, arena, q->seen, 1));
    for (int i = 0; i < q->n_fields; i++) {
        ls_live_field *f = &q->fields[i];
        add_samples(&b, q, "kept", i, kept[1], kept[0], q->kept, in_order(q, arena, f->kept, f->bytes));
        add_samples(&b, q, "held", i, held[1], held[0], q->held, f->held);
        add_samples(&b, q, "spare", i, q->ranks, q->rank, 1, f->spare);
    }
    *out = list_of(&b);
    LS_TRY(ls_arena_status(arena));
    return ls_live_record_sync(q);
}

/* ---- loading */

typedef struct loading {
    ls_live *q;
    const ls_weights *w;
    const char *dir;
    ls_arena arena;
    int64_t ranks; /* that wrote it */
    int64_t *all;  /* [ranks][NUMBERS] */
    int64_t options[OPTIONS];
    int64_t kept, held; /* samples of all ranks */
} loading;

static ls_status live_state_load(loading *l, const building *b)
{
    const ls_tensor_list list = list_of(b);
    LS_TRY(ls_arena_status(&l->arena));
    return ls_ranges_load(l->w, &list,
                          &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS, .allow_unexpected = true });
}

static int64_t sum_of(const loading *l, int what)
{
    int64_t sum = 0;
    for (int64_t r = 0; r < l->ranks; r++)
        sum += l->all[r * NUMBERS + what];
    return sum;
}

/* Samples that a file may count; so no product with their sizes overflows. */
static const int64_t MOST = (int64_t)1 << 40;
static const int64_t LARGEST = (int64_t)1 << 60; /* bytes of a recorded file */

/* Reads the numbers. They are from outside, so they are checked before anything follows from them. */
static ls_status read_numbers(loading *l)
{
    const ls_weight *ranks = ls_weights_find(l->w, "live.ranks");
    if (!ranks || ranks->type.ndim != 2 || ranks->type.dims[0] < 1 || ranks->type.dims[1] != NUMBERS)
        return ls_fail(LS_E_FORMAT, "%s: live.safetensors has no live.ranks [ranks, %d]", l->dir, NUMBERS);
    l->ranks = ranks->type.dims[0];
    l->all = ls_arena_alloc(&l->arena, sizeof *l->all * NUMBERS * (size_t)l->ranks);
    LS_TRY(ls_arena_status(&l->arena));
    building b = live_state_begin(&l->arena, l->q);
    live_state_add(&b, "live.options", &LS_TYPE(LS_I64, OPTIONS), 0, OPTIONS, l->options);
    live_state_add(&b, "live.ranks", &LS_TYPE(LS_I64, l->ranks, NUMBERS), 0, l->ranks * NUMBERS, l->all);
    LS_TRY(live_state_load(l, &b));
    for (int64_t i = 0; i < l->ranks * NUMBERS; i++)
        if (l->all[i] < 0 || l->all[i] > MOST / l->ranks)
            return ls_fail(LS_E_FORMAT, "%s: live.safetensors: number %lld of live.ranks is %lld", l->dir,
                           (long long)i, (long long)l->all[i]);
    l->kept = sum_of(l, KEPT);
    l->held = sum_of(l, HELD);
    return LS_OK;
}

static ls_status check_options(const loading *l)
{
    static const char *const NAMES[OPTIONS] = { "keep", "hold_out", "seed", "capacity", "record", "fit" };
    int64_t own[OPTIONS], most = MOST;
    list_options(l->q, own);
    for (int i = 0; i < l->q->n_fields; i++) /* the files are cut to what RECORDED says */
        most = most < LARGEST / (int64_t)l->q->fields[i].bytes ? most
                                                               : LARGEST / (int64_t)l->q->fields[i].bytes;
    for (int k = KEEP; k <= FIT; k++)
        /* a queue may have more room than it had; which samples a reservoir keeps depends on its room */
        if (l->options[k] != own[k] &&
            (k != CAPACITY || (l->q->o.keep == LS_LIVE_RESERVOIR && l->ranks == l->q->ranks)))
            return ls_fail(LS_E_SHAPE, "%s: its queue was opened with %s %s%lld, this one with %lld", l->dir,
                           NAMES[k], k == RECORDS ? "(0: no, 1: yes) " : "", (long long)l->options[k],
                           (long long)own[k]);
    if (l->options[RECORDED] < 0 || l->options[RECORDED] > most || l->options[FILLS] < 0 ||
        l->options[FILLS] > MOST)
        return ls_fail(LS_E_FORMAT, "%s: live.safetensors: live.options is damaged", l->dir);
    return LS_OK;
}

/* This rank's part of n things that are dealt to the ranks. */
static int64_t dealt(const ls_live *q, int64_t n) { return n / q->ranks + (q->rank < n % q->ranks); }

/* What this rank will have. On as many ranks the same, else a part of all. */
static void new_numbers(const loading *l, int64_t to[NUMBERS])
{
    const ls_live *q = l->q;
    const bool same = l->ranks == q->ranks;
    for (int k = 0; k < NUMBERS; k++)
        to[k] = same ? l->all[q->rank * NUMBERS + k] : dealt(q, sum_of(l, k));
    to[SPARE] = l->all[q->rank % l->ranks * NUMBERS + SPARE] > 0;
    if (!same && q->o.keep == LS_LIVE_RESERVOIR && to[KEPT] > q->o.capacity)
        to[KEPT] = q->o.capacity;
    if (!same && to[HELD] > q->held_room)
        to[HELD] = q->held_room;
}

static ls_status check_room(const loading *l, const int64_t numbers[NUMBERS])
{
    const ls_live *q = l->q;
    if (numbers[KEPT] <= q->o.capacity && numbers[HELD] <= q->held_room)
        return LS_OK;
    return ls_fail(
        LS_E_ARG,
        "%s: its queue has %lld samples to train and %lld held out, which %d ranks with a capacity of "
        "%lld (%lld held out) cannot take: open the queue with a larger capacity",
        l->dir, (long long)l->kept, (long long)l->held, q->ranks, (long long)q->o.capacity,
        (long long)q->held_room);
}

/* Reads samples [first, first + n) of all ranks' to number `to` of this rank's. */
static ls_status read_samples(loading *l, const char *what, bool held, int64_t first, int64_t n, int64_t to)
{
    ls_live *q = l->q;
    building b = live_state_begin(&l->arena, q);
    if (!n)
        return LS_OK;
    if (!held)
        live_state_add(&b, "live.seen", &LS_TYPE(LS_U8, l->kept), first, n, q->seen + to);
    for (int i = 0; i < q->n_fields; i++) {
        ls_live_field *f = &q->fields[i];
        add_samples(&b, q, what, i, held ? l->held : l->kept, first, n,
                    (held ? f->held : f->kept) + (size_t)to * f->bytes);
    }
    return live_state_load(l, &b);
}

static ls_status read_all(loading *l, const char *what, bool held, int64_t n)
{
    const ls_live *q = l->q;
    int64_t first = 0;
    if (l->ranks != q->ranks) {
        const ls_rng_key key = ls_rng_key_of(q->o.seed, ls_hash_text("deal"));
        const bool shuffled = held || q->o.keep == LS_LIVE_RESERVOIR;
        for (int64_t k = 0; k < n; k++) {
            const int64_t at = q->rank + k * q->ranks;
            const uint64_t all = (uint64_t)(held ? l->held : l->kept);
            LS_TRY(read_samples(l, what, held,
                                shuffled ? (int64_t)ls_permute_index(key, (uint64_t)at, all) : at, 1, k));
        }
        return LS_OK;
    }
    for (int r = 0; r < q->rank; r++)
        first += l->all[r * NUMBERS + (held ? HELD : KEPT)];
    return read_samples(l, what, held, first, n, 0);
}

static ls_status read_spare(loading *l)
{
    ls_live *q = l->q;
    building b = live_state_begin(&l->arena, q);
    for (int i = 0; i < q->n_fields; i++)
        add_samples(&b, q, "spare", i, l->ranks, q->rank % l->ranks, 1, q->fields[i].spare);
    return live_state_load(l, &b);
}

static ls_status load_queue(loading *l)
{
    ls_live *q = l->q;
    int64_t mine[NUMBERS];
    LS_TRY(read_numbers(l));
    LS_TRY(check_options(l));
    new_numbers(l, mine);
    LS_TRY(check_room(l, mine));
    LS_TRY(read_all(l, "kept", false, mine[KEPT]));
    LS_TRY(read_all(l, "held", true, mine[HELD]));
    LS_TRY(read_spare(l));
    q->first = 0;
    q->kept = mine[KEPT];
    q->held = mine[HELD];
    q->pushed = mine[PUSHED];
    q->trained = mine[TRAINED];
    q->dropped = mine[DROPPED];
    q->has_spare = mine[SPARE] > 0;
    q->fills = l->options[FILLS];
    q->fitted = l->options[FITTED] > 0;
    ls_live_record_shut(q);
    q->record.done = l->options[RECORDED];
    q->finished = q->refused = q->t->taken = false;
    q->dealt_from = l->ranks != q->ranks ? l->ranks : 0;
    for (int i = 0; i < q->n_fields; i++)
        q->fields[i].put = 0;
    if (q->dealt_from)
        ls_log_info(
            "%s: the samples of %lld ranks are dealt to %d; training goes on with other bits than there",
            l->dir, (long long)l->ranks, q->ranks);
    return LS_OK;
}

ls_status ls_live_load(void *live, const ls_weights *w, const char *dir)
{
    loading l = { .q = live, .w = w, .dir = dir };
    if (!w)
        return ls_fail(
            LS_E_ARG, "%s has no samples of a queue: load it before ls_live_open, and the queue begins empty",
            dir);
    ls_arena_init(&l.arena);
    const ls_status s = load_queue(&l);
    ls_arena_release(&l.arena);
    return s;
}
