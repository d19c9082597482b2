/* run_profile.c - ls_run_profile: profiles of the steps of a program of one's own. */
#include "base/argument.h"
#include "run_own.h"
#include "step/trainer.h"

ls_run_profile_opts ls_run_profile_opts_default(void)
{
    return (ls_run_profile_opts){ LS_RUN_PROFILE_DEFAULTS };
}

ls_status ls_run_profile_with(ls_run *r, ls_trainer *t, const ls_run_profile_opts *o)
{
    LS_ARG(r);
    LS_ARG(t);
    const ls_run_profile_opts schedule = o ? *o : ls_run_profile_opts_default();
    if (schedule.skip < 0 || schedule.wait < 0 || schedule.warmup < 0 || schedule.active < 1 ||
        schedule.repeat < 0)
        return ls_fail(LS_E_ARG,
                       "a profile of %lld active steps after %lld, %lld and %lld others, %lld times: active "
                       "must be 1 or more, the others 0 or more",
                       (long long)schedule.active, (long long)schedule.skip, (long long)schedule.wait,
                       (long long)schedule.warmup, (long long)schedule.repeat);
    LS_TRY(ls_run_profile_end(r));
    r->profiler = (ls_profiler){ .schedule = { .skip = schedule.skip,
                                               .wait = schedule.wait,
                                               .warmup = schedule.warmup,
                                               .active = schedule.active,
                                               .repeat = schedule.repeat } };
    r->profiled = t;
    r->n_profiled = 0;
    return ls_profiler_before(&r->profiler, t, t->step_number + 1, 0);
}

ls_status ls_run_profile_step(ls_run *r)
{
    LS_ARG(r);
    if (!r->profiled)
        return ls_fail(LS_E_ARG, "a step of a profile that has not begun: call ls_run_profile before");
    const int64_t k = r->n_profiled++;
    LS_TRY(ls_profiler_after(&r->profiler, r->profiled, r->dir, NULL, NULL, r->profiled->step_number, k));
    return ls_profiler_before(&r->profiler, r->profiled, r->profiled->step_number + 1, k + 1);
}

ls_status ls_run_profile_end(ls_run *r)
{
    LS_ARG(r);
    ls_status s = LS_OK;
    if (r->profiled) {
        s = ls_profiler_end(&r->profiler, r->profiled, r->dir, NULL, NULL, r->profiled->step_number);
        ls_session_profile(r->profiled->session, false);
    }
    ls_profiler_release(&r->profiler);
    r->profiled = NULL;
    r->profiler = (ls_profiler){ 0 };
    return s;
}
