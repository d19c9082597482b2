/* place.c - a process among its ranks. */
#include "place.h"

#include <stdlib.h>

#include "comm/comm.h"
#include "launch.h"

/* Until there is a group, one rank of each host tells what is wrong. */
static bool is_quiet(void)
{
    static const char *const LOCAL[] = { "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "LOCAL_RANK" };
    for (size_t i = 0; i < sizeof LOCAL / sizeof LOCAL[0] && ls_launch_rank() < 0; i++)
        if (getenv(LOCAL[i]))
            return atoi(getenv(LOCAL[i])) > 0;
    return ls_launch_rank() >= 0; /* its parent tells */
}

ls_status ls_place_find(ls_group **g, const ls_ui *ui)
{
    bool ignored, *silent = ui->silent ? ui->silent : &ignored;
    *silent = is_quiet();
    LS_TRY(ls_group_from_environment(g));
    *silent = ls_group_rank(*g) > 0;
    if (ls_group_size(*g) == 1 && ls_launch_rank() < 0)
        ls_group_destroy(g);
    return LS_OK;
}

ls_status ls_place_say(const ls_group *g, ls_status s, const char *message, const ls_ui *ui)
{
    if (!g || s == LS_OK || s == LS_E_STOPPED)
        return ls_fail(s, "%s", message);
    bool said;
    int me = ls_group_rank(g), first = ls_group_failed(g, &said), speaker = said ? first : first == 0;
    if (ls_launch_rank() >= 0 || me != speaker)
        return ls_fail(s, "%s", "");
    if (ui->silent)
        *ui->silent = false;
    return said ? ls_fail(s, "rank %d: %s", me, message) : ls_fail(s, "%s", message);
}
