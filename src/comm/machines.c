/* machines.c - finds which ranks share a machine, numbers them, and makes their group. */
#include "machines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/str.h"
#include "base/sys.h"
#include "remote.h"
#include "rendezvous.h"

typedef struct layout {
    int machines, each;
    int machine, local;  /* this rank's */
    int *transport_rank; /* [size] transport's rank of each rank */
} layout;

static ls_status broken(const ls_transport *t) { return ls_fail(LS_E_PEER, "MPI: %s", t->error); }

/* ---- numbers */

static ls_status read_fake(int *k, int each)
{
    const char *text = getenv("LOCKSTEP_FAKE_NODES");
    char *end = NULL;
    long v = text && text[0] ? strtol(text, &end, 10) : 1;
    if (v < 1 || v > each || (end && *end) || each % v)
        return ls_fail(LS_E_USAGE, "LOCKSTEP_FAKE_NODES=%s does not divide the %d ranks of a host", text,
                       each);
    *k = (int)v;
    return LS_OK;
}

/* machine_of[transport's rank]: the lowest transport's rank on the same machine. Machines are numbered in
 * that order. */
static ls_status machines_lay_out(layout *y, const ls_transport *t, const int *machine_of)
{
    ls_str counts = { 0 };
    bool even = true;
    int n = 0, k = 1;
    y->each = 0;
    for (int first = 0; first < t->size; first++) {
        if (machine_of[first] != first)
            continue;
        int begin = n;
        for (int i = first; i < t->size; i++)
            if (machine_of[i] == first)
                y->transport_rank[n++] = i;
        y->each = y->each ? y->each : n;
        even = even && n - begin == y->each;
        ls_str_printf(&counts, "%s%d", begin ? " + " : "", n - begin);
    }
    ls_status s = LS_OK;
    if (!even)
        s = ls_fail(LS_E_USAGE,
                    "%s ranks on the hosts: each host needs as many as the others (mpirun --map-by "
                    "ppr:N:node, srun --ntasks-per-node=N)",
                    ls_str_text(&counts));
    ls_str_release(&counts);
    LS_TRY(s);
    LS_TRY(read_fake(&k, y->each));
    y->each /= k;
    y->machines = t->size / y->each;
    for (int i = 0; i < t->size; i++)
        if (y->transport_rank[i] == t->rank) {
            y->machine = i / y->each;
            y->local = i % y->each;
        }
    return LS_OK;
}

static ls_status find_layout(layout *y, const ls_transport_ops *ops, ls_transport *t)
{
    int *machine_of = ls_sys_calloc((size_t)t->size, sizeof *machine_of);
    y->transport_rank = ls_sys_calloc((size_t)t->size, sizeof *y->transport_rank);
    ls_status s = machine_of && y->transport_rank ? LS_OK
                                                  : ls_fail(LS_E_MEMORY, "no memory for %d ranks", t->size);
    if (s == LS_OK && !ops->all_gather(t, &t->machine, sizeof t->machine, machine_of))
        s = broken(t);
    if (s == LS_OK)
        s = machines_lay_out(y, t, machine_of);
    free(machine_of);
    return s;
}

/* ---- the ranks of this machine */

typedef struct report {
    char text[240];
} report;

/* Collects the report of every rank; the caller frees the result. */
static ls_status gather_reports(report **all, const report *mine, const ls_transport_ops *ops,
                                ls_transport *t)
{
    *all = ls_sys_calloc((size_t)t->size, sizeof **all);
    if (!*all)
        return ls_fail(LS_E_MEMORY, "no memory for %d ranks", t->size);
    return ops->all_gather(t, mine, sizeof *mine, *all) ? LS_OK : broken(t);
}

static ls_status join_machine(ls_group **out, const layout *y, const ls_transport_ops *ops, ls_transport *t)
{
    if (y->each == 1)
        return ls_group_self(out);
    report mine = { "" }, *all = NULL;
    uint64_t chance[2] = { 0 };
    if (getrandom(chance, sizeof chance, 0) != sizeof chance)
        return ls_fail(LS_E_INTERNAL, "the system has no random numbers");
    snprintf(mine.text, sizeof mine.text, "lockstep-%016llx%016llx", (unsigned long long)chance[0],
             (unsigned long long)chance[1]);
    ls_status s = gather_reports(&all, &mine, ops, t);
    if (s == LS_OK)
        s = ls_rendezvous_join(out, all[y->transport_rank[y->machine * y->each]].text, y->local, y->each);
    free(all);
    return s;
}

/* Either all ranks get a group or none does: the first failure becomes the failure of all. */
static ls_status machines_agree(ls_status s, const layout *y, const ls_transport_ops *ops, ls_transport *t)
{
    report mine = { "" }, *all = NULL;
    if (s != LS_OK)
        snprintf(mine.text, sizeof mine.text, "%s", ls_error_message());
    ls_status heard = gather_reports(&all, &mine, ops, t);
    for (int i = 0; s == LS_OK && heard == LS_OK && i < t->size; i++)
        if (all[y->transport_rank[i]].text[0])
            heard = ls_fail(LS_E_PEER, "rank %d: %s", i, all[y->transport_rank[i]].text);
    free(all);
    return s != LS_OK ? s : heard;
}

/* ---- joining */

static ls_status machines_join(ls_group **out, layout *y, const ls_transport_ops *ops, ls_transport *t,
                               int expected)
{
    if (expected && expected != t->size) {
        char text[LS_TRANSPORT_TEXT];
        ops->describe(text);
        return ls_fail(LS_E_UNSUPPORTED,
                       "%d ranks were started, but %.200s sees %d: the module is of another MPI than the one "
                       "that started them; set "
                       "LOCKSTEP_MPI_MODULE to one that fits%s",
                       expected, text, t->size,
                       getenv("SLURM_STEP_NUM_TASKS") ? ", or choose another srun --mpi (srun --mpi=list)"
                                                      : "");
    }
    LS_TRY(find_layout(y, ops, t));
    return machines_agree(join_machine(out, y, ops, t), y, ops, t);
}

ls_status ls_machines_join(ls_group **out, const ls_transport_ops *ops, const void *communicator,
                           int expected)
{
    ls_transport t = { 0 };
    layout y = { 0 };
    *out = NULL;
    if (!ops->open(&t, communicator))
        return ls_fail(LS_E_UNSUPPORTED, "MPI: %s", t.error);
    ls_status s = machines_join(out, &y, ops, &t, expected);
    if (s == LS_OK && y.machines > 1) {
        s = ls_remote_attach(*out, ops, &t, y.machine, y.transport_rank);
    } else {
        ops->close(&t, s != LS_E_PEER);
        free(y.transport_rank);
    }
    if (s != LS_OK)
        ls_group_destroy(out);
    return s;
}
