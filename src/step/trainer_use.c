/* trainer_use.c - the beginning of every call on a trainer: it checks that only one thread uses the trainer
 * and that the trainer has weights, and makes its buffers the same on all ranks. */
#include "trainer.h"

ls_status ls_trainer_enter(ls_trainer **entered, ls_trainer *t, const char *function)
{
    static _Thread_local char me; /* its address identifies the thread */
    const void *user = NULL;
    if (atomic_compare_exchange_strong(&t->user, &user, &me))
        *entered = t;
    else if (user != &me) /* a public function may call another one */
        return ls_fail(LS_E_ARG,
                       "%s: another thread is in a call on the same object; one thread at a time may use it",
                       function);
    return LS_OK;
}

void ls_trainer_leave(ls_trainer **entered)
{
    if (*entered)
        atomic_store(&(*entered)->user, NULL);
}

ls_status ls_trainer_needs_weights(const ls_trainer *t, const char *call)
{
    return t->ready ? LS_OK
                    : ls_fail(LS_E_ARG,
                              "%s before the trainer has weights: call ls_trainer_init, ls_trainer_load or "
                              "ls_trainer_load_checkpoint first",
                              call);
}

size_t ls_trainer_buffer_bytes(const ls_trainer *t)
{
    size_t bytes = 0;
    for (int i = 0; i < t->n_buffers; i++)
        bytes += ls_type_bytes(&t->buffers[i].place.type);
    return bytes;
}

/* Puts copies between the buffers and t->shared_buffers into the queue. */
static ls_status copy_buffers(ls_trainer *t, bool put)
{
    char *at = t->shared_buffers;
    for (int i = 0; i < t->n_buffers; i++) {
        const ls_place *p = &t->buffers[i].place;
        const size_t bytes = ls_type_bytes(&p->type);
        LS_TRY(put ? ls_session_put(p, at, bytes) : ls_session_fetch(p, at, bytes));
        at += bytes;
    }
    return LS_OK;
}

ls_status ls_trainer_share_buffers(ls_trainer *t)
{
    if (t->group && t->buffers_moved) {
        LS_TRY(copy_buffers(t, false));
        LS_TRY(ls_session_wait(t->session));
        LS_TRY(ls_group_broadcast(t->group, t->shared_buffers, ls_trainer_buffer_bytes(t), 0));
        LS_TRY(copy_buffers(t, true));
    }
    t->buffers_moved = false;
    return LS_OK;
}

ls_status ls_trainer_needs_parameters(const ls_trainer *t, const char *call)
{
    return t->averaged
               ? ls_fail(LS_E_ARG,
                         "%s: the parameters are their averages: call ls_trainer_exchange_ema again", call)
               : LS_OK;
}
