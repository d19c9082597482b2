/* host_calls.c - kernels that callers run on the host beside an apart device (ls_session_call). They are
 * host tasks of the queue. A task has only a pointer, so the arguments are kept here until a wait. */
#include <string.h>

#include "internal.h"

struct ls_host_call {
    const ls_kernel *kernel;
    ls_kernel_args args;
    ls_tensor in[LS_CALL_INPUTS], out;
    ls_host_call *next;
};

static ls_status call(void *context)
{
    const ls_host_call *c = context;
    c->kernel->run(&c->args);
    return LS_OK;
}

void ls_host_call_put(ls_session *s, const ls_kernel *k, const ls_kernel_args *a)
{
    ls_host_call *c = s->calls ? s->calls : LS_ARENA_NEW(&s->arena, ls_host_call);
    if (!c) {
        s->call_lost = true;
        return;
    }
    s->calls = s->calls ? c->next : NULL;
    *c = (ls_host_call){ .kernel = k, .args = *a, .out = *a->out, .next = s->called };
    memcpy(c->in, a->in, sizeof *c->in * (size_t)a->n_in);
    c->args.in = c->in;
    c->args.out = &c->out;
    c->args.queue = NULL;
    s->called = c;
    s->ops->host(s->queue, call, c);
}

ls_status ls_host_calls_wait(ls_session *s)
{
    const bool lost = s->call_lost;
    s->call_lost = false;
    while (s->called) {
        ls_host_call *c = s->called;
        s->called = c->next;
        c->next = s->calls;
        s->calls = c;
    }
    return lost ? ls_fail(LS_E_MEMORY, "session: out of memory for work of the host") : LS_OK;
}
