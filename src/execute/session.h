/* session.h - a session: memory for several plans, and the loop that runs them. All addresses are computed
 * when it is made, so a step allocates nothing.
 *
 * Programs (micro, update, eval) share STATE and IO by identity (graph/identity.h): an output of one program
 * and an input of another with the same identity are the same memory, which is how gradients get from `micro`
 * to `update`. The arena is as large as the program with the largest arena needs. */
#pragma once
#include "plan/plan.h"

typedef struct ls_session ls_session;

typedef struct ls_session_opts {
    ls_group *group;             /* the session also makes windows, axes and collectives; NULL: one rank */
    const ls_parallel *parallel; /* the one that the plans were made with */
    int n_spares;                /* values that no program knows, for the caller's own copies and sums */
    const ls_type *spares;
    /* [n_spares]: beside a device that is apart, it is in host memory; NULL: none is. */
    const bool *on_host;
    int runs; /* of programs between two waits, at most; more only cost more copies */
} ls_session_opts;
/* The plans must live longer than the session. All are for one device, that of the first, but for programs
 * that run on the host beside a device whose memory is its own (ls_plan_opts.on_host). o NULL: one rank, no
 * spares. Collective. */
ls_status ls_session_create(ls_session **out, int n_plans, ls_plan *const *plans, const ls_session_opts *o);
void ls_session_destroy(ls_session **s);

/* State that other ranks read may be written from outside only between these two calls. enter returns when
 * every rank has finished its latest program or writing; leave reports that this rank has. Runs make both
 * calls themselves. With one rank the calls do nothing. All ranks must make the same calls. */
ls_status ls_session_enter(ls_session *s, const char *what);
ls_status ls_session_leave(ls_session *s);
/* What this rank is doing ("step 12"), for messages of other ranks. */
void ls_session_label(ls_session *s, const char *text);
/* Bytes received by collectives since the session was made, and seconds waited; zeros with one rank. */
ls_ledger ls_session_ledger(const ls_session *s);

/* A place: where a value lies in a session's memory. It has no address, because that memory may be a
 * device's: ls_session_read and ls_session_write copy bytes. A place is valid as long as the session.
 * session NULL: there is no such value. */
typedef struct ls_place {
    ls_session *session;
    ls_type type;
    int64_t strides[LS_MAX_DIMS]; /* in elements; an output may be a view */
    int region;                   /* which memory of the session */
    size_t offset;                /* bytes from the region's start */
} ls_place;
static inline bool ls_place_present(const ls_place *p) { return p->session != NULL; }

/* The place of a STATE or IO value by name. A value that is known by its name alone is found before others
 * with that name (graph/identity.h). LS_E_ARG if no plan has it. Local. */
ls_status ls_session_place(ls_session *s, const char *name, ls_place *out);
/* The same by identity, whatever the name. `name` counts for LS_IS_NAMED, and appears in messages. Local. */
ls_status ls_session_place_of(ls_session *s, ls_identity is, const char *name, ls_place *out);
/* The i-th of ls_session_opts.spares. */
ls_place ls_session_spare(ls_session *s, int i);
/* Part of a contiguous place: a tensor of `type`, which has the place's element type, from its element number
 * `first` on. */
ls_place ls_place_part(const ls_place *p, int64_t first, const ls_type *type);

/* Copies go through the session's queue, in the order of the calls, together with the runs of
 * ls_session_run. fetch and put copy a value between a place and contiguous host memory of `bytes` bytes,
 * the size of the place's type; another size is LS_E_INTERNAL. The place may have any strides. The host
 * memory must stay until ls_session_wait; fetched bytes are there only after it. Values that other ranks
 * read are written between ls_session_enter and ls_session_leave. These calls allocate nothing. Local. */
ls_status ls_session_fetch(const ls_place *p, void *to, size_t bytes);
ls_status ls_session_put(const ls_place *p, const void *from, size_t bytes);
void ls_session_clear(const ls_place *p); /* puts zeros */
/* Copies, and exchanges, contiguous values of one type. `scratch`, a spare, may be smaller: the exchange goes
 * through it piece by piece. */
void ls_session_copy(const ls_place *to, const ls_place *from);
void ls_session_exchange(const ls_place *a, const ls_place *b, const ls_place *scratch);
/* Runs a kernel that has one output and no workspace, on the session's device; or on the host, if the output
 * is in host memory beside a device that is apart. */
enum { LS_CALL_INPUTS = 2 };
void ls_session_call(const ls_kernel *k, int n_in, const ls_place *const *in, const ls_place *out,
                     const void *attrs);
/* Waits until all copies and all runs are complete: the only call that may block for long. It returns the
 * first failure, which names program, step and op. Local. */
ls_status ls_session_wait(ls_session *s);
/* How often this session waited for its device. */
int64_t ls_session_waits(const ls_session *s);
/* fetch or put, and then wait. */
ls_status ls_session_read(const ls_place *p, void *to, size_t bytes);
ls_status ls_session_write(const ls_place *p, const void *from, size_t bytes);

/* An input that programs read where the caller has it, instead of in the session's memory. It is made once
 * and lives as long as the session. LS_E_INTERNAL if no plan has it. Local. */
typedef struct ls_binding ls_binding;
ls_status ls_session_binding(ls_session *s, ls_identity is, const char *name, ls_binding **out);
/* From the next run on, the input is read at `data` (contiguous, aligned to its elements); NULL: in the
 * session's memory again. If other ranks or outputs share that memory, or the device has memory of its own,
 * `data` is put there instead; it must stay until ls_session_wait in any case. Local. */
ls_status ls_session_bind(ls_binding *b, const void *data);

/* Runs plan number `i` once: it puts its calls into the queue. check_finite: every float output of every op
 * is checked. The run goes on to its end, since other ranks wait for it, and then fails with LS_E_NUMERIC,
 * which names the first op that had a NaN or infinity, and its scope. That is slow; it explains a bad loss.
 * All ranks check or none: else the others wait long. */
ls_status ls_session_run(ls_session *s, int i, bool check_finite);
/* The step of the program at which the latest run failed with LS_E_NUMERIC; -1: none. */
int ls_session_bad_step(const ls_session *s);

/* While on, the seconds of each step of plan i are recorded: steps[k] of the latest run. */
void ls_session_profile(ls_session *s, bool on);
/* Starts, then durations, of the latest run's steps (2 * n_steps), in seconds since the run began. Behind
 * them, on a device with memory of its own, start and duration of each transfer's copy (2 * n_transfers), and
 * of each collective over links (2 * n_collectives). */
const double *ls_session_times(const ls_session *s, int i);

/* bytes of this rank: state, IO, arena, its part of the window (in dev builds also guard pages), without the
 * mapped units, which the ranks of an axis on this machine have once */
size_t ls_session_bytes(const ls_session *s);
