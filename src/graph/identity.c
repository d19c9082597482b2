/* identity.c - makes the names of identities, and compares identities. */
#include "identity.h"

#include <string.h>

const char *ls_moment_name(ls_moment m)
{
    static const char *const NAMES[LS_STORED_MOMENTS] = { [LS_EXP_AVG] = "exp_avg",
                                                          [LS_EXP_AVG_SQ] = "exp_avg_sq",
                                                          [LS_MOMENTUM_BUFFER] = "momentum_buffer",
                                                          [LS_EMA] = "ema" };
    return NAMES[(int)m];
}

const char *ls_identity_name(ls_arena *arena, ls_identity is, const char *unit)
{
    switch ((ls_what)is.what) {
    case LS_IS_NAMED:
    case LS_IS_UNIT:
    case LS_IS_LOSS:
    case LS_IS_EVAL_INPUT: break;
    case LS_IS_WEIGHTS: return ls_arena_printf(arena, "weights.%s", unit);
    case LS_IS_MOMENT: return ls_arena_printf(arena, "%s.%s", ls_moment_name((ls_moment)is.moment), unit);
    case LS_IS_GRADIENT: return ls_arena_printf(arena, "grad.%s", unit);
    case LS_IS_GATHERED: return ls_arena_printf(arena, "%s, gathered", unit);
    case LS_IS_STEP: return "step";
    case LS_IS_RATE: return "lr";
    case LS_IS_LOSS_SCALE: return "loss_scale";
    case LS_IS_GOOD_STEPS: return "loss_scale_good_steps";
    case LS_IS_GRAD_NORM: return "grad_norm";
    case LS_IS_APPLIED: return "applied";
    case LS_IS_LARGEST_LOSS: return "largest_loss";
    case LS_IS_DIVISOR: return ls_arena_printf(arena, "%s, divisor", unit);
    case LS_IS_ROWS: return ls_arena_printf(arena, "%s, rows", unit);
    case LS_IS_TARGETS: return ls_arena_printf(arena, "%s, targets", unit);
    case LS_IS_PREDICTED: return "predicted";
    case LS_IS_PROBABILITY: return "probability";
    case LS_IS_REAL: return "real samples";
    case LS_IS_TRACK: return "track";
    case LS_IS_PLACES: return "sample_places";
    case LS_IS_SEED: return "random_seed";
    }
    return ls_arena_strdup(arena, unit);
}

int ls_identity_order(ls_identity a, const char *name_a, ls_identity b, const char *name_b)
{
    if (a.what != b.what)
        return a.what < b.what ? -1 : 1;
    if (a.what == LS_IS_NAMED)
        return strcmp(name_a, name_b);
    if (a.unit != b.unit)
        return a.unit < b.unit ? -1 : 1;
    return a.moment < b.moment ? -1 : a.moment > b.moment;
}
