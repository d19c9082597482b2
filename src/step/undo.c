/* undo.c - puts back the states that a skipped step has changed. `micro` moves the running statistics of
 * batch norm before the loss is known, and `update` lowers the loss scale of f16. So each step begins with a
 * copy of these states in spares of the session. */
#include <stdlib.h>

#include "base/sys.h"
#include "graph/identity.h"
#include "plan/node.h"
#include "trainer.h"

ls_status ls_trainer_undo_bind(ls_trainer *t)
{
    ls_undo *k = &t->undo;
    const ls_spares *s = &t->compiled.spares;
    LS_TRY(ls_sys_have(k->now = ls_sys_calloc((size_t)s->n_undo + 1, sizeof *k->now)));
    for (k->n = 0; k->n < s->n_undo; k->n++) {
        const ls_node *source = s->changed[k->n];
        LS_TRY(ls_session_place_of(t->session, ls_source_is(source), ls_source_name(source), &k->now[k->n]));
    }
    return LS_OK;
}

void ls_trainer_undo_keep(ls_trainer *t)
{
    ls_undo *k = &t->undo;
    k->moved = t->buffers_moved;
    for (int i = 0; i < k->n; i++) {
        const ls_place before = ls_session_spare(t->session, t->compiled.spares.undo + i);
        ls_session_copy(&before, &k->now[i]);
    }
}

void ls_trainer_undo(ls_trainer *t)
{
    const ls_undo *k = &t->undo;
    t->buffers_moved = k->moved;
    for (int i = 0; i < k->n; i++) {
        const ls_place before = ls_session_spare(t->session, t->compiled.spares.undo + i);
        ls_session_copy(&k->now[i], &before);
    }
}

void ls_undo_release(ls_undo *k)
{
    free(k->now);
    *k = (ls_undo){ 0 };
}
