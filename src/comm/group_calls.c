/* group_calls.c - the collective calls of lockstep/group.h, on memory of the caller. The data passes through
 * the staging memory in pieces of its size. */
#include "group_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/sys.h"
#include "exchange.h"
#include "group_own.h"
#include "reduce.h"

ls_status ls_group_barrier(ls_group *g)
{
    LS_ARG(g);
    return ls_axis_exchange(g->world, NULL, 0, NULL, &(ls_rank_call){ .kind = LS_CALL_BARRIER }, "a barrier");
}

/* Refuses a call that this rank cannot make. The other ranks learn it when they compare calls, so they do
 * not wait for the deadline. Returns s with its message. */
static ls_status group_calls_refuse(ls_group *g, ls_call_kind kind, ls_status s, const char *what)
{
    char message[512];
    snprintf(message, sizeof message, "%s", ls_error_message());
    (void)ls_axis_exchange(g->world, NULL, 0, NULL,
                           &(ls_rank_call){ .kind = (uint16_t)kind, .count = LS_CALL_REFUSED }, what);
    return ls_fail(s, "%s", message);
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* call NULL: the calls are not compared. */
static ls_status group_calls_gather(ls_group *g, const void *mine, size_t bytes, void *all,
                                    const ls_rank_call *call, const char *what)
{
    if (bytes <= LS_STAGING_BYTES)
        return ls_axis_exchange(g->world, mine, bytes, all, call, what);
    char *pieces = ls_sys_malloc((size_t)LS_STAGING_BYTES * (size_t)g->size);
    if (!pieces)
        return group_calls_refuse(
            g, LS_CALL_ALL_GATHER,
            ls_fail(LS_E_MEMORY, "all_gather of %zu bytes: no memory for pieces of %d ranks", bytes, g->size),
            what);
    ls_status s = LS_OK;
    for (size_t at = 0; s == LS_OK && at < bytes; at += LS_STAGING_BYTES) {
        size_t n = least(bytes - at, LS_STAGING_BYTES);
        s = ls_axis_exchange(g->world, (const char *)mine + at, n, pieces, at ? NULL : call, what);
        for (int r = 0; s == LS_OK && r < g->size; r++)
            memcpy((char *)all + (size_t)r * bytes + at, pieces + (size_t)r * n, n);
    }
    free(pieces);
    return s;
}

ls_status ls_group_all_gather_same(ls_group *g, const void *mine, size_t bytes, void *all)
{
    return group_calls_gather(g, mine, bytes, all, NULL, "an all_gather");
}

ls_status ls_group_all_gather(ls_group *g, const void *mine, size_t bytes, void *all)
{
    static const char WHAT[] = "an all_gather";
    LS_ARG(g);
    if (bytes && (!mine || !all))
        return group_calls_refuse(g, LS_CALL_ALL_GATHER, ls_argument_missing(__func__, mine ? "all" : "mine"),
                                  WHAT);
    return group_calls_gather(g, mine, bytes, all,
                              &(ls_rank_call){ .kind = LS_CALL_ALL_GATHER, .count = (int64_t)bytes }, WHAT);
}

ls_status ls_group_all_gather_new(ls_group *g, const void *mine, size_t bytes, void **all)
{
    static const char WHAT[] = "an all_gather";
    *all = ls_sys_malloc(bytes * (size_t)g->size);
    if (!*all)
        return group_calls_refuse(
            g, LS_CALL_ALL_GATHER,
            ls_fail(LS_E_MEMORY, "all_gather of %zu bytes: no memory for %d ranks", bytes, g->size), WHAT);
    ls_status s = ls_group_all_gather(g, mine, bytes, *all);
    if (s != LS_OK) {
        free(*all);
        *all = NULL;
    }
    return s;
}

/* Computes a call's result in `data` from n bytes of each rank: in[r] are those of rank r. */
typedef void (*use_fn)(const char *const *in, size_t n, int ranks, void *data, const void *context);

static ls_status in_pieces(ls_group *g, void *data, size_t bytes, use_fn use, const void *context,
                           const ls_rank_call *call, const char *what)
{
    const size_t each = least(bytes, LS_STAGING_BYTES);
    char *pieces = ls_sys_malloc(each * (size_t)g->size + 1);
    const char **in = pieces ? ls_sys_malloc(sizeof *in * (size_t)g->size) : NULL;
    if (!in) {
        free(pieces);
        return group_calls_refuse(
            g, (ls_call_kind)call->kind,
            ls_fail(LS_E_MEMORY, "%s of %zu bytes: no memory for pieces of %d ranks", what, bytes, g->size),
            what);
    }
    ls_status s = LS_OK;
    size_t at = 0;
    do { /* also without bytes here, because other ranks may have some */
        const size_t n = least(bytes - at, LS_STAGING_BYTES);
        s = ls_axis_exchange(g->world, n ? (char *)data + at : NULL, n, pieces, at ? NULL : call, what);
        for (int r = 0; r < g->size; r++)
            in[r] = pieces + (size_t)r * n;
        if (s == LS_OK && n)
            use(in, n, g->size, (char *)data + at, context);
        at += n;
    } while (s == LS_OK && at < bytes);
    free(in);
    free(pieces);
    return s;
}

struct sum {
    ls_dtype dtype;
    ls_reduction how;
};

static void group_calls_reduce(const char *const *in, size_t n, int ranks, void *data, const void *context)
{
    const struct sum *c = context;
    ls_reduce_run(&(ls_reduce){ .by = c->how == LS_REDUCE_MAX ? LS_BY_MAX : LS_BY_SUM,
                                .from = c->dtype,
                                .via = c->dtype,
                                .to = c->dtype,
                                .n = ranks,
                                .in = in,
                                .out = data,
                                .count = (int64_t)(n / ls_dtype_size(c->dtype)),
                                .threads = 1 });
}

ls_status ls_group_all_reduce(ls_group *g, void *data, int64_t count, ls_dtype dtype, ls_reduction how)
{
    static const char WHAT[] = "an all_reduce";
    size_t bytes = 0;
    LS_ARG(g);
    ls_status s = LS_OK;
    if (dtype != LS_F32 && dtype != LS_F64 && dtype != LS_I32 && dtype != LS_I64)
        s = ls_fail(LS_E_ARG, "all_reduce of a group takes dtype f32, f64, i32 or i64, not %s",
                    ls_dtype_name(dtype));
    else if (how != LS_REDUCE_SUM && how != LS_REDUCE_MAX)
        s = ls_fail(LS_E_ARG, "ls_group_all_reduce: how is %d, which is not a value of ls_reduction",
                    (int)how);
    else if (count < 0 || __builtin_mul_overflow((size_t)count, ls_dtype_size(dtype), &bytes))
        s = ls_fail(LS_E_ARG,
                    "ls_group_all_reduce: count is %lld: a number of elements from 0 up, whose bytes fit "
                    "into size_t, is needed",
                    (long long)count);
    else if (count && !data)
        s = ls_argument_missing(__func__, "data");
    if (s != LS_OK)
        return group_calls_refuse(g, LS_CALL_ALL_REDUCE, s, WHAT);
    const ls_rank_call call = {
        .kind = LS_CALL_ALL_REDUCE, .dtype = (uint16_t)dtype, .how = (uint16_t)how, .count = count
    };
    return in_pieces(g, data, bytes, group_calls_reduce, &(struct sum){ dtype, how }, &call, WHAT);
}

static void group_calls_take(const char *const *in, size_t n, int ranks, void *data, const void *root)
{
    (void)ranks;
    memcpy(data, in[*(const int *)root], n);
}

ls_status ls_group_broadcast(ls_group *g, void *data, size_t bytes, int root)
{
    static const char WHAT[] = "a broadcast";
    LS_ARG(g);
    ls_status s = LS_OK;
    if (bytes && !data)
        s = ls_argument_missing(__func__, "data");
    else if (root < 0 || root >= g->size)
        s = ls_fail(LS_E_ARG, "ls_group_broadcast: root is %d: the group has ranks 0 to %d", root,
                    g->size - 1);
    if (s != LS_OK)
        return group_calls_refuse(g, LS_CALL_BROADCAST, s, WHAT);
    const ls_rank_call call = { .kind = LS_CALL_BROADCAST, .root = (uint16_t)root, .count = (int64_t)bytes };
    return in_pieces(g, data, bytes, group_calls_take, &root, &call, WHAT);
}
