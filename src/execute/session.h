/* session.h - memory for a set of plans, and the loop that runs them. A step allocates nothing: everything is
 * resolved here.
 *
 * Several programs (micro, update, eval) share one session: STATE and IO by identity (graph/identity.h; an
 * output of one program that is what an input of another is has the same memory: how gradients go from
 * `micro` to `update`), and one arena as large as the largest needs. */
#pragma once
#include "plan/plan.h"

typedef struct ls_session ls_session;

/* plans must outlive the session */
ls_status ls_session_create(ls_session **out, int n_plans, ls_plan *const *plans);
void ls_session_destroy(ls_session **s);
/* The same for one rank of a group: windows, axes and collectives are made too. The plans were made with the
 * same `parallel`. Collective. */
ls_status ls_session_create_on(ls_session **out, int n_plans, ls_plan *const *plans, ls_group *group,
                               const ls_parallel *parallel);

/* State that peers read may be written from outside only between these two: enter returns when every rank has
 * finished its latest program or writing, leave says that this one has. Runs do it themselves. No more than a
 * branch with one rank. Every rank makes the same calls. */
ls_status ls_session_enter(ls_session *s, const char *what);
void ls_session_leave(ls_session *s);
/* What this rank is at ("step 12"), for the other ranks' messages. */
void ls_session_label(ls_session *s, const char *text);
/* Bytes that collectives brought in since the session was made, and seconds waited; zeros with one rank. */
ls_ledger ls_session_ledger(const ls_session *s);

/* STATE or IO memory by name, one that is known by its name alone before others (graph/identity.h); LS_E_ARG
 * if no plan has it. The tensor stays valid and in place for the
 * session's life. Local. */
ls_status ls_session_tensor(ls_session *s, const char *name, ls_tensor *out);

/* The same by what it is, whatever its name; `name` counts for LS_IS_NAMED, and in messages. */
ls_status ls_session_find(ls_session *s, ls_identity is, const char *name, ls_tensor *out);

/* An input that programs read where the caller has it, instead of in the session's memory. Made once:
 * LS_E_ARG if no plan has the name. Lives as long as the session. Local. */
typedef struct ls_binding ls_binding;
ls_status ls_session_binding(ls_session *s, const char *name, ls_binding **out);
/* The next runs read the input at `data`, dense and aligned to its elements, until another call; NULL: in the
 * session's own memory again. Where peers or outputs share that memory, `data` is copied there. Local. */
void ls_session_bind(ls_binding *b, const void *data);

/* Runs plan number `i` once. With check_finite, every float output of every op is looked at and the first op
 * with a NaN or infinity fails the run with LS_E_NUMERIC, its scope and op (slow: for explaining a bad loss).
 */
ls_status ls_session_run(ls_session *s, int i, bool check_finite);

/* Per-step seconds of plan i are recorded while on; steps[k] are seconds of the latest run. */
void ls_session_profile(ls_session *s, bool on);
/* start times then durations: 2 * n_steps, seconds since the run began */
const double *ls_session_times(const ls_session *s, int i);

/* all memory of this rank's: state + io + arena + its part of the window (+ guard pages in dev builds) */
size_t ls_session_bytes(const ls_session *s);
/* mapped units: once for the ranks of an axis on this host, so not in the above */
size_t ls_session_node_bytes(const ls_session *s);
