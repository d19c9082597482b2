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

static double polynomial(const ls_schedule *s, double base, int64_t step)
{
    return s->min_lr + (base - s->min_lr) * pow(1.0 - done(s, step), s->power);
}

static double wsd(const ls_schedule *s, double base, int64_t step)
{
    const int64_t length = s->total_steps - s->warmup_steps,
                  decay = s->decay_steps > 0 ? s->decay_steps : (length + 9) / 10,
                  past = step - (length - decay);
    if (past <= 0)
        return base;
    return past < decay ? base + (s->min_lr - base) * (double)past / (double)decay : s->min_lr;
}

static double between(double from, double to, double part)
{
    return to + (from - to) * 0.5 * (1.0 + cos(M_PI * part));
}

/* The highest rate is reached at a step that need not be whole: PyTorch counts so. */
static double one_cycle(const ls_schedule *s, double base, int64_t step)
{
    const double first = base / s->div_factor, end = (double)(s->total_steps - 1),
                 top = s->pct_start * (double)s->total_steps - 1.0, at = (double)step;
    if (at <= top)
        return top > 0 ? between(first, base, at / top) : first;
    return at < end ? between(base, first / s->final_div_factor, (at - top) / (end - top))
                    : first / s->final_div_factor;
}

static double restarts(const ls_schedule *s, double base, int64_t step)
{
    int64_t period = s->period > 0 ? s->period : 1;
    if (s->period_factor <= 1)
        return between(base, s->min_lr, (double)(step % period) / (double)period);
    for (; step >= period && period <= INT64_MAX / s->period_factor; period *= s->period_factor)
        step -= period;
    return between(base, s->min_lr, (double)step / (double)period);
}

static double plateau(const ls_schedule *s, double base, int64_t step)
{
    (void)step;
    const double rate = base * pow(s->gamma, (double)s->cuts);
    return rate > s->min_lr ? rate : s->min_lr;
}

/* The rate `step` steps after the warm-up. To add a schedule: a function, a value of ls_schedule_kind and a
 * line here; recipes name it in recipe/optim_row.c. */
static double (*const RATE[])(const ls_schedule *s, double base, int64_t step) = {
    [LS_SCHED_CONSTANT] = constant,     [LS_SCHED_STEP] = cut,
    [LS_SCHED_COSINE] = cosine,         [LS_SCHED_LINEAR] = linear,
    [LS_SCHED_POLYNOMIAL] = polynomial, [LS_SCHED_WSD] = wsd,
    [LS_SCHED_ONE_CYCLE] = one_cycle,   [LS_SCHED_RESTARTS] = restarts,
    [LS_SCHED_PLATEAU] = plateau,
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
