/* pieces.c - see pieces.h. */
#include "ckpt/pieces.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cpu_limits.h"
#include "base/sys.h"

ls_status ls_pieces_open(ls_pieces *p, const ls_tensor_list *l)
{
    bool needed = !l;
    for (int64_t i = 0; l && i < l->n && !needed; i++)
        needed = ls_place_present(&l->mine[i].place);
    *p = (ls_pieces){ .threads = ls_default_threads(1, NULL) };
    const int some = p->threads < 2 ? 2 : p->threads > 64 ? 64 : p->threads;
    p->bytes = (size_t)some << 20;
    p->room = needed ? ls_sys_malloc(p->bytes) : NULL;
    return !needed || p->room ? LS_OK
                              : ls_fail(LS_E_MEMORY, "out of memory for copies of tensors, piece by piece");
}

/* The room is free again. */
static ls_status settle(ls_pieces *p)
{
    ls_session *s = p->session;
    p->session = NULL;
    p->used = 0;
    return s ? ls_session_wait(s) : LS_OK;
}

ls_status ls_pieces_close(ls_pieces *p, ls_status s)
{
    char message[4096] = "";      /* as long as ls_fail makes it */
    if (s != LS_OK && p->session) /* the wait must not hide it */
        snprintf(message, sizeof message, "%s", ls_error_message());
    const ls_status waited = settle(p);
    free(p->room);
    *p = (ls_pieces){ 0 };
    return s == LS_OK ? waited : *message ? ls_fail(s, "%s", message) : s;
}

int64_t ls_range_piece(const ls_range *r, int64_t at, int64_t *count)
{
    const int64_t left = r->count - at;
    int64_t run = left;
    const int64_t first = r->box ? ls_box_run(r->box, r->first + at, &run) : r->first + at;
    *count = run < left ? run : left;
    return first;
}

int64_t ls_piece_length(const ls_pieces *p, const ls_range *r, ls_dtype d, int64_t at)
{
    const int64_t most = (int64_t)(p->bytes / ls_dtype_size(d)), left = r->count - at;
    return left < most ? left : most;
}

static char *address(const ls_range *r, ls_dtype d, int64_t at)
{
    return (char *)r->data + (size_t)at * ls_dtype_size(d);
}

static ls_place place(const ls_range *r, ls_dtype d, int64_t at, int64_t n)
{
    return ls_place_part(&r->place, at, &LS_TYPE(d, n));
}

ls_status ls_piece_get(ls_pieces *p, const ls_range *r, ls_dtype d, int64_t at, int64_t *n, const void **out)
{
    const size_t size = ls_dtype_size(d);
    const int64_t most = (int64_t)(LS_PIECES_READ / size), left = r->count - at;
    if (!ls_place_present(&r->place)) {
        *n = *n < most ? *n : most;
        *out = address(r, d, at);
        return LS_OK;
    }
    if (p->range != r || at < p->from || at >= p->end) {
        const int64_t fetched = left < most ? left : most;
        const ls_place from = place(r, d, at, fetched);
        p->range = NULL;
        LS_TRY(ls_session_read(&from, p->room, (size_t)fetched * size));
        p->range = r;
        p->from = at;
        p->end = at + fetched;
    }
    *n = *n < p->end - at ? *n : p->end - at;
    *out = p->room + (size_t)(at - p->from) * size;
    return LS_OK;
}

ls_status ls_piece_begin(ls_pieces *p, const ls_range *r, ls_dtype d, int64_t at, int64_t n, void **out)
{
    if (!ls_place_present(&r->place)) {
        *out = address(r, d, at);
        return LS_OK;
    }
    if (p->used + (size_t)n * ls_dtype_size(d) > p->bytes || p->session != r->place.session)
        LS_TRY(settle(p));
    *out = p->room + p->used;
    return LS_OK;
}

ls_status ls_piece_put(ls_pieces *p, const ls_range *r, ls_dtype d, int64_t at, int64_t n, const void *piece)
{
    const size_t bytes = (size_t)n * ls_dtype_size(d);
    if (!ls_place_present(&r->place))
        return LS_OK;
    const ls_place to = place(r, d, at, n);
    p->session = to.session;
    p->used += (bytes + 63) / 64 * 64; /* the next piece is aligned to its elements */
    return ls_session_put(&to, piece, bytes);
}
