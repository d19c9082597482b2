/* sweep_command.c - `lockstep sweep`: settings -> runs -> what fits -> training -> table and page; or the
 * script of a Slurm array job, in which each task trains one run. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/shown.h"
#include "launch/rank.h"
#include "launch/launch.h"
#include "sweep.h"

/* ---- Slurm */

/* A word of a shell: in single quotes where it has other characters than plain ones. */
static void add_word(ls_str *out, const char *word)
{
    bool plain = *word;
    for (const char *p = word; *p; p++)
        plain = plain && (isalnum((unsigned char)*p) || strchr("-+._=,/:@%", *p));
    ls_str_add(out, plain ? "" : "'");
    for (const char *p = word; *p; p++)
        if (*p == '\'')
            ls_str_add(out, "'\\''");
        else
            ls_str_add_n(out, p, 1);
    ls_str_add(out, plain ? "" : "'");
}

static bool is_for_the_script(const char *word, bool *with_next)
{
    *with_next = !strcmp(word, "--parallel") || !strcmp(word, "--task");
    return !strcmp(word, "--slurm") || *with_next || !strncmp(word, "--parallel=", 11) ||
           !strncmp(word, "--task=", 7);
}

/* A task has one run, on one host. sbatch's own options, as --time and --partition, are the user's. */
static ls_status print_script(const ls_sweep *s, const ls_ui *ui)
{
    char program[PATH_MAX] = "";
    ls_str out = { 0 };
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0)
        return ls_fail_os("/proc/self/exe", "read", errno);
    ls_str_add(&out, "#!/bin/bash\n");
    ls_str_printf(&out,
                  "# %d runs of %s; a task that ended early continues when the job is submitted again\n",
                  s->n, s->recipe_name);
    ls_str_add(&out, "#SBATCH --job-name=");
    add_word(&out, s->recipe_name);
    ls_str_printf(&out, "\n#SBATCH --array=0-%d", s->n - 1);
    if (s->o->parallel > 1)
        ls_str_printf(&out, "%%%lld", (long long)s->o->parallel);
    ls_str_printf(&out, "\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=%d\n", s->cores > 0 ? s->cores : 1);
    ls_str_add(&out, "exec ");
    add_word(&out, program);
    for (char *const *word = s->o->argv + 1; *word; word++) {
        bool with_next;
        if (is_for_the_script(*word, &with_next)) {
            word += with_next && word[1];
            continue;
        }
        ls_str_add(&out, " ");
        add_word(&out, *word);
    }
    ls_str_add(&out, " --task \"$SLURM_ARRAY_TASK_ID\"\n");
    return ls_print_result(ui->out, &out);
}

/* ---- the command */

static int count_failures(const ls_sweep *s, int only, const ls_sweep_run **first)
{
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const ls_sweep_run *r = &s->runs[i];
        const bool failed = (r->refused && (only < 0 || only == i)) ||
                            (r->status > 0 && r->status != LS_EXIT_STOPPED);
        *first = failed && !n ? r : *first;
        n += failed;
    }
    return n;
}

static ls_status sweep(ls_sweep *s, const ls_ui *ui)
{
    const ls_sweep_opts *o = s->o;
    const int only = (int)o->task;
    ls_sweep_view v;
    LS_TRY(ls_rank_alone(
        "sweep starts its runs itself: call it once, without mpirun, srun or torchrun; `workers` "
        "gives each run its ranks"));
    LS_TRY(ls_sweep_make(s));
    if (only >= s->n)
        return ls_fail(LS_E_USAGE, "--task %d: this sweep has the runs 0 to %d", only, s->n - 1);
    LS_TRY(ls_sweep_fit(s));
    if (o->slurm)
        return print_script(s, ui);
    int finished = 0, refused = 0;
    for (int i = 0; i < s->n; i++) {
        finished += s->runs[i].finished;
        refused += s->runs[i].refused != NULL;
    }
    ls_log_info("sweep  %d runs in %s: %d finished, %d refused, %d to train, %d at a time", s->n, s->dir,
                finished, refused, s->n - finished - refused, s->parallel);
    LS_TRY(ls_make_dirs(s->dir));
    const ls_status trained = ls_sweep_train(s, only, ui);
    if (trained != LS_OK && trained != LS_E_STOPPED)
        return trained;
    LS_TRY(ls_sweep_view_make(&v, s));
    LS_TRY(ls_sweep_page_write(s->dir, &v));
    if (only < 0)
        LS_TRY(ls_sweep_print(s, &v, ui));
    ls_log_info("page   %s/sweep.html", s->dir);
    if (trained == LS_E_STOPPED)
        return ls_fail(LS_E_STOPPED, "stopped with everything saved: the same command continues the sweep");
    const ls_sweep_run *r = NULL;
    const int failed = count_failures(s, only, &r);
    return !failed ? LS_OK
                   : ls_fail(LS_E_PEER, "%d of %d runs failed; %s: %s", failed, only < 0 ? s->n : 1, r->name,
                             r->refused ? r->refused : ls_sweep_failure(s, r));
}

ls_status ls_sweep_command(const ls_sweep_opts *o, const ls_ui *ui)
{
    ls_sweep s = { .o = o };
    ls_arena_init(&s.arena);
    ls_status st = sweep(&s, ui);
    st = ls_arena_outcome(&s.arena, st);
    ls_arena_release(&s.arena);
    return st;
}
