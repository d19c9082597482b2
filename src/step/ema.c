/* ema.c - swaps a trainer's parameters and their moving averages, so that all code that reads parameters
 * reads the averages. Both have the same layout, so each rank swaps its own local shards, and no bit is
 * lost. */
#include "base/argument.h"
#include "graph/identity.h"
#include "trainer.h"

static ls_status exchange_all(ls_trainer *t)
{
    const ls_units *u = &t->compiled.units;
    const ls_place scratch = ls_session_spare(t->session, t->compiled.spares.scratch);
    for (int i = 0; i < u->trained; i++) {
        ls_place ema;
        if (!ls_unit_is_here(u, i))
            continue;
        LS_TRY(ls_session_place_of(t->session,
                                   (ls_identity){ .what = LS_IS_MOMENT, .unit = i, .moment = LS_EMA },
                                   u->units[i].state, &ema));
        ls_session_exchange(&t->units[i], &ema, &scratch);
    }
    return LS_OK;
}

ls_status ls_trainer_exchange_ema(ls_trainer *t)
{
    LS_ARG(t);
    LS_TRAINER_USE(t);
    LS_TRY(ls_trainer_needs_weights(t, "ls_trainer_exchange_ema"));
    if (!t->compiled.averaging)
        return ls_fail(LS_E_ARG, "ls_trainer_exchange_ema: the trainer keeps no averages (ema_decay is 0)");
    int64_t steps;
    LS_TRY(ls_session_read(&t->step, &steps, sizeof steps));
    if (steps == 0) /* without any step the averages are the parameters themselves */
        return LS_OK;
    LS_TRY(ls_session_enter(t->session, "exchanging parameters and averages"));
    LS_TRY(exchange_all(t));
    LS_TRY(ls_session_leave(t->session));
    t->rounded = false;
    t->averaged = !t->averaged;
    return LS_OK;
}
