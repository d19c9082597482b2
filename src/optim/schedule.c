/* schedule.c - learning rate as a pure function of the step, so that a resumed run needs no state for it. */
#include <math.h>

#include "lockstep/optim.h"
#include "base/argument.h"

double ls_schedule_rate(const ls_schedule *s, double base, int64_t step)
{
    LS_ARG_OR(s, 0);
    if (step < s->warmup_steps)
        return base * (double)(step + 1) / (double)s->warmup_steps;
    step -= s->warmup_steps;
    int64_t length = s->total_steps - s->warmup_steps;
    double done = length > 0 && step < length ? (double)step / (double)length : 1.0;
    switch (s->kind) {
    case LS_SCHED_CONSTANT: return base;
    case LS_SCHED_STEP: return base * pow(s->gamma, (double)(step / (s->step_size > 0 ? s->step_size : 1)));
    case LS_SCHED_COSINE: return s->min_lr + (base - s->min_lr) * 0.5 * (1.0 + cos(M_PI * done));
    case LS_SCHED_LINEAR: return base + (s->min_lr - base) * done;
    }
    return base;
}
