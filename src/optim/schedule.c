/* schedule.c - the learning rate as a pure function of the step, so that a resumed run needs no state for
 * it. */
#include <math.h>

#include "lockstep/optim.h"
#include "base/argument.h"

static double constant(const ls_schedule *s, double base, int64_t step)
{
    (void)s, (void)step;
    return base;
}

static double cut(const ls_schedule *s, double base, int64_t step)
{
    return base * pow(s->gamma, (double)((step + s->step_offset) / (s->step_size > 0 ? s->step_size : 1)));
}

/* The part of the decay that is over, from 0 to 1. */
static double done(const ls_schedule *s, int64_t step)
{
    const int64_t length = s->total_steps - s->warmup_steps;
    return length > 0 && step < length ? (double)step / (double)length : 1.0;
}

static double cosine(const ls_schedule *s, double base, int64_t step)
{
    return s->min_lr + (base - s->min_lr) * 0.5 * (1.0 + cos(M_PI * done(s, step)));
}

static double linear(const ls_schedule *s, double base, int64_t step)
{
    return base + (s->min_lr - base) * done(s, step);
}

/* The rate `step` steps after the warm-up. To add a schedule: a function, a value of ls_schedule_kind and a
 * line here; recipes name it in recipe/optim_row.c. */
static double (*const RATE[])(const ls_schedule *s, double base, int64_t step) = {
    [LS_SCHED_CONSTANT] = constant,
    [LS_SCHED_STEP] = cut,
    [LS_SCHED_COSINE] = cosine,
    [LS_SCHED_LINEAR] = linear,
};

double ls_schedule_rate(const ls_schedule *s, double base, int64_t step)
{
    LS_ARG_OR(s, 0);
    if (step < s->warmup_steps)
        return base * (double)(step + 1) / (double)s->warmup_steps;
    if ((size_t)s->kind >= sizeof RATE / sizeof RATE[0])
        return base;
    return RATE[s->kind](s, base, step - s->warmup_steps);
}
