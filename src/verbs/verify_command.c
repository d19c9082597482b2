/* verify_command.c - `lockstep verify`: trains steps of a run again, from one of its checkpoints or from the
 * beginning, in a folder of its own, and compares every number of metrics.jsonl and the digests of the
 * checkpoints bit for bit. The run is only read. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/shown.h"
#include "base/sys.h"
#include "ckpt/adapter.h"
#include "ckpt/folder.h"
#include "commands.h"
#include "launch/rank.h"
#include "loop/data_record.h"
#include "record/rundir.h"
#include "record/step_folder.h"
#include "verify_build.h"
#include "verify_rows.h"

enum { CANNOT_EXEC = 127, STOPPED = 75, WORDS = 112 };

typedef struct verification {
    const ls_verify_opts *o;
    ls_verify_rows rows;
    ls_verify_build build;
    int64_t from, to;
    ls_arena arena;
    const char *checkpoint; /* of `from`; NULL: the beginning */
    bool has_saved;        /* the checkpoint of `to` is there, and has the weights whose digest is compared */
    bool stopped;          /* `train` ended with status 75, as it does after --until */
    char *storage, *again; /* where it is trained again; again: the run directory there */
} verification;

/* ---- which steps */

/* The last step up to `most` that has digests; 0: none. */
static int64_t last_digest(const verification *v, int64_t most)
{
    int64_t last = 0;
    const char *key;
    json_t *row;
    for (int k = LS_VERIFY_CHECKPOINT; k < LS_VERIFY_KINDS; k++)
        json_object_foreach(v->rows.of[k], key, row)
        {
            const int64_t step = strtoll(key, NULL, 10);
            last = step > last && step <= most ? step : last;
        }
    return last;
}

static ls_status no_digests(const verification *v)
{
    return v->o->to > 0
               ? ls_fail(LS_E_USAGE,
                         "--to %" PRId64 ": metrics.jsonl of %s has no digest of that step: no checkpoint of "
                         "it was saved, and failure.digest_every does not name it; the last one before it "
                         "is of step %" PRId64,
                         v->o->to, v->o->run.name, last_digest(v, v->o->to))
               : ls_fail(
                     LS_E_USAGE,
                     "%s: metrics.jsonl has no digest: nothing was saved, failure.digest_every is 0, or an "
                     "older version of lockstep wrote it",
                     v->o->run.name);
}

/* What --set may not say: it is verify's own. */
static ls_status check_sets(const ls_verify_opts *o)
{
    static const char *const OWN[] = { "run.name=", "run.storage=" };
    if (o->run.n_sets > 32)
        return ls_fail(LS_E_USAGE, "%d settings: at most 32", o->run.n_sets);
    for (int i = 0; i < o->run.n_sets; i++)
        for (size_t k = 0; k < sizeof OWN / sizeof *OWN; k++)
            if (!strncmp(o->run.sets[i], OWN[k], strlen(OWN[k])))
                return ls_fail(
                    LS_E_USAGE,
                    "--set %s: verify trains in a new folder, which it removes again; --storage DIR "
                    "says where",
                    o->run.sets[i]);
    return LS_OK;
}

/* The end of metrics.jsonl may be missing, or what is behind the last digest. */
static ls_status check_end(const verification *v)
{
    if (v->o->to > 0 || v->build.step <= v->rows.most)
        return LS_OK;
    return ls_fail(LS_E_NUMERIC,
                   "%s: the run has %" PRId64
                   " steps (result.json, checkpoints), and metrics.jsonl ends with step %" PRId64
                   ": rows are missing; --to %" PRId64 " compares those that are there",
                   v->o->run.name, v->build.step, v->rows.most, v->to);
}

static ls_status no_checkpoint(const verification *v)
{
    char kept[64] = "it has none";
    if (v->build.oldest)
        snprintf(kept, sizeof kept, "its oldest is of step %" PRId64, v->build.oldest);
    return ls_fail(LS_E_USAGE,
                   "--from %" PRId64
                   ": there is no %s; %s (checkpoint.keep says how many stay), and 0 is the beginning",
                   v->from, v->checkpoint, kept);
}

static ls_status choose_steps(verification *v)
{
    char name[LS_STEP_FOLDER_ROOM];
    v->to = last_digest(v, v->o->to > 0 ? v->o->to : INT64_MAX);
    if (!v->to || (v->o->to > 0 && v->to != v->o->to))
        return no_digests(v);
    LS_TRY(check_end(v));
    v->from = v->o->from;
    if (v->from < 0)
        v->from = v->build.oldest < v->to ? v->build.oldest : 0;
    if (v->from >= v->to)
        return ls_fail(LS_E_USAGE, "--from %" PRId64 ": step %" PRId64 " is the last that can be compared",
                       v->from, v->to);
    if (v->from < v->rows.changed)
        return ls_fail(LS_E_USAGE,
                       "%s: recipe or data were changed behind step %" PRId64
                       " (--allow-change), and recipe.yaml "
                       "is the later one: only steps behind it can be trained again, as with --from %" PRId64,
                       v->o->run.name, v->rows.changed, v->rows.changed);
    if (v->from == 0 && v->rows.first > 1)
        return ls_fail(LS_E_USAGE,
                       "%s begins with step %" PRId64
                       ", from a checkpoint of another run, and has no checkpoint "
                       "before step %" PRId64 ": it cannot be trained again from here",
                       v->o->run.name, v->rows.first, v->to);
    LS_TRY(ls_verify_build_check(&v->build, v->o->run.name, v->from, v->to));
    if (v->from == 0)
        return LS_OK;
    v->checkpoint = ls_arena_printf(&v->arena, "%s/checkpoints/%s", v->o->run.name,
                                    ls_step_folder(name, v->from));
    LS_TRY(ls_arena_status(&v->arena));
    return ls_dir_exists(v->checkpoint) ? LS_OK : no_checkpoint(v);
}

/* Whether the checkpoint of this step, if it is still there, has the weights whose digest the run wrote. */
static ls_status check_saved(verification *v, int64_t step, bool *there)
{
    char name[LS_STEP_FOLDER_ROOM], is[17];
    const char *was = json_string_value(json_object_get(ls_verify_digests(&v->rows, step), "model")),
               *dir = ls_arena_printf(&v->arena, "%s/checkpoints/%s", v->o->run.name,
                                      ls_step_folder(name, step));
    uint64_t digest;
    LS_TRY(ls_arena_status(&v->arena));
    *there = was && step > 0 && ls_dir_exists(dir);
    if (!*there)
        return LS_OK;
    LS_TRY(ls_weights_element_digest(&digest, dir));
    snprintf(is, sizeof is, "%016" PRIx64, digest);
    return !strcmp(is, was)
               ? LS_OK
               : ls_fail(LS_E_NUMERIC,
                         "%s has weights with digest %s, and metrics.jsonl says %s: it is not the "
                         "checkpoint that the run saved",
                         dir, is, was);
}

/* ---- training again */

static _Noreturn void become_training(char *const *words, pid_t parent)
{
    if (!prctl(PR_SET_PDEATHSIG, SIGTERM) && getppid() == parent)
        execv("/proc/self/exe", words);
    dprintf(STDERR_FILENO, "error: lockstep could not be started: %s\n", strerror(errno));
    _exit(CANNOT_EXEC);
}

static bool is_set(const verification *v, const char *key)
{
    const size_t n = strlen(key);
    for (int i = 0; i < v->o->run.n_sets; i++)
        if (!strncmp(v->o->run.sets[i], key, n) && v->o->run.sets[i][n] == '=')
            return true;
    return false;
}

/* What the bits depend on is set as the run had it, unless the user says otherwise. */
static int add_build(char *words[], int n, verification *v)
{
    const json_t *b = ls_verify_build_of(&v->build, v->to);
    const char *device = json_string_value(json_object_get(b, "device")),
               *isa = json_string_value(json_object_get(b, "isa"));
    const int64_t ranks = json_integer_value(json_object_get(b, "ranks"));
    const bool hosts = v->o->hosts.list || v->o->hosts.file;
    char *sets[] = {
        !device || is_set(v, "device") ? NULL : ls_arena_printf(&v->arena, "device=%s", device),
        !device || !isa || strcmp(device, "cpu") || is_set(v, "device") || is_set(v, "isa")
            ? NULL
            : ls_arena_printf(&v->arena, "isa=%s", isa),
        ranks <= 0 || hosts || is_set(v, "workers") ? NULL
                                                    : ls_arena_printf(&v->arena, "workers=%" PRId64, ranks),
    };
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        for (int k = 0; k < 2 && sets[i]; k++)
            words[n++] = k ? sets[i] : (char *)(uintptr_t) "--set";
    return n;
}

/* The words of `lockstep train`. What a user gives behind them, as another number of ranks, changes no bit.
 */
static void make_words(char *words[WORDS], verification *v)
{
    ls_arena *a = &v->arena;
    json_t *storage = json_string(v->storage);
    char *quoted = storage ? json_dumps(storage, JSON_ENCODE_ANY) : NULL; /* which is YAML, too */
    const char *const fixed[] = { "lockstep",
                                  "train",
                                  ls_arena_printf(a, "%s/recipe.yaml", v->o->run.name),
                                  "--quiet",
                                  "--no-progress",
                                  "--resume",
                                  v->checkpoint ? v->checkpoint : "never",
                                  "--until",
                                  ls_arena_printf(a, "%" PRId64, v->to),
                                  "--set",
                                  ls_arena_printf(a, "run.storage=%s", quoted ? quoted : ""),
                                  "--set",
                                  "run.name=again",
                                  "--set",
                                  "run.time_limit=0",
                                  "--set",
                                  "checkpoint.keep=2",
                                  "--set",
                                  "checkpoint.export=\"\"",
                                  "--set",
                                  "checkpoint.export_best=\"\"",
                                  "--set",
                                  "failure.grow=false",
                                  "--set",
                                  "failure.max_failures=0" };
    const ls_hosts_opts *hosts = &v->o->hosts;
    const char *const places[][2] = { { "--hosts", hosts->list },
                                      { "--hostfile", hosts->file },
                                      { "--rsh", hosts->rsh } };
    int n = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        words[n++] = (char *)(uintptr_t)fixed[i];
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        for (int k = 0; k < 2 && places[i][1]; k++)
            words[n++] = (char *)(uintptr_t)places[i][k];
    n = add_build(words, n, v);
    for (int i = 0; i < v->o->run.n_sets && n < WORDS - 2; i++) {
        words[n++] = "--set";
        words[n++] = (char *)(uintptr_t)v->o->run.sets[i];
    }
    words[n] = NULL;
    free(quoted);
    json_decref(storage);
}

/* The message of `train` is above this one. */
static ls_status not_trained(const verification *v)
{
    char log[64] = "";
    const bool begun = ls_dir_exists(v->again);
    if (begun)
        snprintf(log, sizeof log, "%s", ", and the log in ");
    return ls_fail(
        LS_E_PEER,
        "%s: steps %" PRId64 " to %" PRId64 " were not trained again, see the message above%s%s: they "
        "need the recipe, the data (--set data.path=... says where) and the ISA level that the run "
        "had",
        v->o->run.name, v->from + 1, v->to, log, begun ? v->again : "");
}

/* A request to stop is passed on: training stops after the step. */
static ls_status train_again(verification *v, const ls_ui *ui)
{
    char *words[WORDS];
    int status = 0;
    make_words(words, v);
    LS_TRY(ls_arena_status(&v->arena));
    const pid_t parent = getpid(), pid = ls_sys_fork();
    if (pid == 0)
        become_training(words, parent);
    if (pid < 0)
        return ls_fail(LS_E_MEMORY, "lockstep train could not be started: %s", strerror(errno));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        if (ui->stop && *ui->stop)
            kill(pid, SIGTERM);
    v->stopped = WIFEXITED(status) && WEXITSTATUS(status) == STOPPED;
    return v->stopped || (WIFEXITED(status) && WEXITSTATUS(status) == 0) ? LS_OK : not_trained(v);
}

/* ---- the result */

static void print_count(FILE *out, int64_t n, const char *one, const char *many, const char *end)
{
    fprintf(out, "%" PRId64 " %s%s", n, n == 1 ? one : many, end);
}

/* Steps behind the last that is compared; with --to nobody asks for them. */
static int64_t rest(const verification *v)
{
    return v->o->to > 0 || v->rows.last < v->to ? 0 : v->rows.last - v->to;
}

static ls_status verify_json(const verification *v, const ls_verify_result *r, FILE *out)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "run", v->o->run.name);
    ls_json_int(&j, "from", v->from);
    ls_json_int(&j, "to", v->to);
    ls_json_int(&j, "steps", r->n[LS_VERIFY_STEP]);
    ls_json_int(&j, "evals", r->n[LS_VERIFY_EVAL]);
    ls_json_int(&j, "checkpoints", r->n[LS_VERIFY_CHECKPOINT]);
    ls_json_int(&j, "digests", r->n[LS_VERIFY_DIGEST]);
    ls_json_int(&j, "not_compared", rest(v));
    ls_json_bool(&j, "same", !r->differ);
    ls_json_int(&j, "differ", r->differ);
    if (r->differ)
        ls_json_text(&j, "what", r->what);
    const json_t *digests = ls_verify_digests(&v->rows, v->to);
    static const char *const PARTS[] = { "model", "optimizer" };
    for (int i = 0; i < 2; i++) /* at step `to` */
        if (json_object_get(digests, PARTS[i]))
            ls_json_text(&j, PARTS[i], json_string_value(json_object_get(digests, PARTS[i])));
    char other[200];
    if (json_array_size(v->build.builds))
        ls_json_bool(&j, "same_code", !ls_verify_build_other(&v->build, v->from, v->to, other));
    ls_json_close_object(&j);
    return ls_print_result(out, &j.out);
}

static ls_status verify_tell(const verification *v, const ls_verify_result *r, const ls_ui *ui)
{
    const json_t *digests = ls_verify_digests(&v->rows, v->to);
    const char *model = json_string_value(json_object_get(digests, "model")),
               *optimizer = json_string_value(json_object_get(digests, "optimizer"));
    char build[200] = "";
    if (v->o->json)
        LS_TRY(verify_json(v, r, ui->out));
    if (r->differ)
        return ls_fail(
            LS_E_NUMERIC, "%s: step %" PRId64 ": %s; what was trained again is in %s%s%s%s", v->o->run.name,
            r->differ, r->what, v->again, ls_verify_build_other(&v->build, v->from, v->to, build) ? "; " : "",
            build,
            v->build.trainer
                ? ""
                : "; other data or another ISA level can be the cause, which only a checkpoint knows");
    if (v->o->json)
        return LS_OK;
    fprintf(ui->out, "%s  steps %" PRId64 " to %" PRId64 " have the same bits: ", v->o->run.name, v->from + 1,
            v->to);
    print_count(ui->out, r->n[LS_VERIFY_STEP], "loss", "losses", ", ");
    print_count(ui->out, r->n[LS_VERIFY_EVAL], "evaluation", "evaluations", ", ");
    print_count(ui->out, r->n[LS_VERIFY_CHECKPOINT], "checkpoint", "checkpoints",
                r->n[LS_VERIFY_DIGEST] ? ", " : "\n");
    if (r->n[LS_VERIFY_DIGEST])
        print_count(ui->out, r->n[LS_VERIFY_DIGEST], "digest between them", "digests between them", "\n");
    fprintf(ui->out, "        digests at the end: model %s%s%s%s\n", model, optimizer ? ", optimizer " : "",
            optimizer ? optimizer : "",
            v->has_saved ? "; the checkpoint of the last step has these weights" : "");
    if (ls_verify_build_other(&v->build, v->from, v->to, build))
        fprintf(ui->out, "        %s\n", build);
    if (rest(v))
        fprintf(ui->out,
                "        steps %" PRId64 " to %" PRId64 " have no digest behind them and are not compared\n",
                v->to + 1, v->rows.last);
    return LS_OK;
}

/* Whether both trainings could have the same bits: the data (from a checkpoint on `train` has compared them),
 * and, where rows differ, the device and the ranks. */
static ls_status check_comparable(const verification *v, const ls_verify_result *r,
                                  const ls_verify_build *again)
{
    ls_str data = { 0 }, bits = { 0 };
    if (v->from == 0)
        ls_data_records_differ(&data, again->trainer, v->build.trainer);
    if (r->differ)
        ls_verify_build_bits(&bits, &v->build, again, v->to);
    ls_status s = ls_str_status(&data) ? ls_str_status(&data) : ls_str_status(&bits);
    if (s == LS_OK && data.len)
        s = ls_fail(LS_E_NUMERIC, "%s was trained on other data: %s; what was trained again is in %s",
                    v->o->run.name, ls_str_text(&data), v->again);
    else if (s == LS_OK && bits.len)
        s = ls_fail(LS_E_USAGE, "%s cannot be compared: %s; so step %" PRId64 " differs: %s", v->o->run.name,
                    ls_str_text(&bits), r->differ, r->what);
    ls_str_release(&data);
    ls_str_release(&bits);
    return s;
}

static ls_status compare_rows(verification *v, const ls_ui *ui)
{
    ls_verify_rows again;
    ls_verify_result result;
    ls_verify_build build = { .step = 0 };
    ls_status s = ls_verify_rows_read(&again, v->again);
    if (s == LS_OK)
        s = ls_verify_build_read(&build, v->again);
    /* stopped before the last step: nothing is said of the run */
    if (s == LS_OK && !ls_verify_row(&again, LS_VERIFY_STEP, v->to))
        s = v->stopped ? ls_fail(LS_E_STOPPED, "stopped before step %" PRId64 " was trained again", v->to)
                       : ls_fail(LS_E_USAGE,
                                 "training ended before step %" PRId64
                                 " (train.steps, train.epochs): --to says where to "
                                 "end",
                                 v->to);
    if (s == LS_OK) {
        ls_verify_rows_compare(&result, &v->rows, &again, v->from, v->to);
        s = check_comparable(v, &result, &build);
        if (s == LS_OK)
            s = verify_tell(v, &result, ui);
    }
    ls_verify_build_release(&build);
    ls_verify_rows_release(&again);
    return s;
}

static ls_status no_run(verification *v)
{
    const char *name = v->o->run.name, *named = ls_arena_printf(&v->arena, "runs/%s", name);
    LS_TRY(ls_arena_status(&v->arena));
    if (ls_file_in(name, LS_RUN_CONFIG))
        return ls_fail(
            LS_E_USAGE,
            "%s is the run of a program of its own, which verify cannot start: run the program again, and "
            "compare the checkpoints (lockstep inspect RUN --digest)",
            name);
    const char *end = strstr(name, "/checkpoints"); /* or a file of a run */
    end = end ? end : strrchr(name, '/');
    if (end && ls_file_exists(name))
        named = ls_arena_printf(&v->arena, "%.*s", (int)(end - name), name);
    LS_TRY(ls_arena_status(&v->arena));
    const bool is = ls_file_in(named, LS_RUN_RECIPE);
    return ls_fail(LS_E_USAGE, "%s: no run: it has no recipe.yaml%s%s%s", name, is ? "; did you mean " : "",
                   is ? named : "", is ? "?" : "");
}

static ls_status verify(verification *v, const ls_ui *ui)
{
    if (!ls_file_in(v->o->run.name, LS_RUN_RECIPE))
        return no_run(v);
    LS_TRY(check_sets(v->o));
    LS_TRY(ls_rank_alone(
        "verify starts its ranks itself: call it once, without mpirun, srun or torchrun; --workers N "
        "and --hosts give it ranks"));
    LS_TRY(
        ls_verify_build_read(&v->build, v->o->run.name)); /* first: a run that trains only gets more rows */
    LS_TRY(ls_verify_rows_read(&v->rows, v->o->run.name));
    LS_TRY(choose_steps(v));
    LS_TRY(check_saved(v, v->from, &v->has_saved));
    LS_TRY(check_saved(v, v->to, &v->has_saved));
    const char *base = v->o->storage ? v->o->storage : getenv("TMPDIR");
    v->storage = ls_arena_printf(&v->arena, "%s/lockstep-verify-XXXXXX", base && *base ? base : "/tmp");
    LS_TRY(ls_arena_status(&v->arena));
    if (!mkdtemp(v->storage))
        return ls_fail_os(v->storage, "make", errno);
    v->again = ls_arena_printf(&v->arena, "%s/again", v->storage);
    ls_log_info("trains steps %" PRId64 " to %" PRId64 " again, from %s, in %s", v->from + 1, v->to,
                v->checkpoint ? v->checkpoint : "the beginning", v->storage);
    ls_status s = train_again(v, ui);
    if (s == LS_OK)
        s = compare_rows(v, ui);
    /* what differs stays, and the log of what failed */
    if (s == LS_OK || s == LS_E_STOPPED || s == LS_E_USAGE || !ls_dir_exists(v->again))
        ls_remove_tree(v->storage);
    return s;
}

ls_status ls_verify_command(const ls_verify_opts *o, const ls_ui *ui)
{
    verification v = { .o = o };
    const ls_status s = verify(&v, ui);
    ls_verify_rows_release(&v.rows);
    ls_verify_build_release(&v.build);
    ls_arena_release(&v.arena);
    return s;
}
