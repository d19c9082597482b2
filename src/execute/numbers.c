/* numbers.c - small inputs and outputs on a device whose memory is its own. A step has a dozen of them (the
 * divisors of its losses, the learning rate, losses, the norm), and a copy costs the same for 4 bytes and
 * for 4000. So they lie in two blocks, IN and OUT. A put writes to a copy of IN on the host, which is sent
 * before the next run; the first fetch after a run brings all of OUT. Each run has blocks of its own,
 * because the copies are still under way when the next run is prepared; a wait makes all blocks free
 * again. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/sys.h"
#include "internal.h"

static bool inside(const ls_place *p, size_t begin, size_t bytes)
{
    return p->region == LS_MEM_IO && p->offset >= begin &&
           p->offset + ls_type_bytes(&p->type) <= begin + bytes;
}

ls_status ls_numbers_create(ls_session *s, int runs)
{
    ls_numbers *x = &s->numbers;
    if (!s->ops->apart)
        return LS_OK;
    x->runs = runs > 4 ? runs : 4;
    const size_t n = (size_t)x->runs;
    x->bytes = n * (x->in_bytes + x->out_bytes);
    x->most_fetched = x->runs * (int)(x->out_bytes / LS_NUMBER_BYTES);
    x->now = ls_sys_calloc(x->in_bytes + 1, 1);
    x->fetched = ls_sys_calloc((size_t)x->most_fetched + 1, sizeof *x->fetched);
    LS_TRY(ls_sys_have(x->now ? (void *)x->fetched : NULL));
    if (!x->bytes)
        return LS_OK;
    LS_TRY(s->ops->pinned((void **)&x->pinned, &s->programs[0].plan->device, x->bytes));
    x->in = x->pinned;
    x->out = x->pinned + n * x->in_bytes;
    s->ops->fill(s->queue, s->region[LS_MEM_IO], 0, x->in_bytes); /* zeros, as `now` has */
    return LS_OK;
}

void ls_numbers_destroy(ls_session *s)
{
    ls_numbers *x = &s->numbers;
    if (x->pinned)
        s->ops->unpin(x->pinned, x->bytes);
    free(x->now);
    free(x->fetched);
}

bool ls_numbers_put(ls_session *s, const ls_place *p, const void *from)
{
    ls_numbers *x = &s->numbers;
    if (!inside(p, 0, x->in_bytes))
        return false;
    memcpy(x->now + p->offset, from, ls_type_bytes(&p->type));
    if (x->n_in == x->runs) /* no free block is left */
        return false;
    x->dirty = true;
    return true;
}

/* Sends the IN block if a put has changed it. */
static void send(ls_session *s)
{
    ls_numbers *x = &s->numbers;
    if (!x->dirty)
        return;
    char *block = x->in + (size_t)x->n_in++ * x->in_bytes;
    memcpy(block, x->now, x->in_bytes);
    s->ops->copy(s->queue, s->region[LS_MEM_IO], block, x->in_bytes);
    x->dirty = false;
}

void ls_numbers_run(ls_session *s)
{
    send(s);
    s->numbers.out_is_there = false;
}

void ls_numbers_touch(ls_session *s, const ls_place *p)
{
    LS_CHECK(!inside(p, 0, s->numbers.in_bytes), "an input of a few bytes is put, not computed");
    s->numbers.out_is_there = false;
}

bool ls_numbers_fetch(ls_session *s, const ls_place *p, void *to)
{
    ls_numbers *x = &s->numbers;
    if (inside(p, 0, x->in_bytes))
        send(s);
    if (!inside(p, x->in_bytes, x->out_bytes) || x->n_fetched == x->most_fetched)
        return false;
    if (!x->out_is_there) {
        if (x->n_out == x->runs)
            return false;
        s->ops->copy(s->queue, x->out + (size_t)x->n_out++ * x->out_bytes, s->region[LS_MEM_IO] + x->in_bytes,
                     x->out_bytes);
        x->out_is_there = true;
    }
    const char *block = x->out + (size_t)(x->n_out - 1) * x->out_bytes;
    x->fetched[x->n_fetched++] = (struct ls_fetched){ to, block + (p->offset - x->in_bytes),
                                                      ls_type_bytes(&p->type) };
    return true;
}

void ls_numbers_wait(ls_session *s, bool done)
{
    ls_numbers *x = &s->numbers;
    for (int i = 0; i < x->n_fetched && done; i++)
        memcpy(x->fetched[i].to, x->fetched[i].from, x->fetched[i].bytes);
    x->n_fetched = x->n_in = x->n_out = 0;
    x->out_is_there = false;
    /* after a failure the block that was sent may not have arrived */
    x->dirty = x->dirty || (!done && x->in_bytes);
}
