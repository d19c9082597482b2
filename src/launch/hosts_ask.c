/* hosts_ask.c - whether the hosts answer: each is asked by the command that also starts ranks there; in a
 * Slurm job Slurm is asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/slurm.h"
#include "base/sys.h"
#include "hosts_own.h"

/* The names of the hosts that the job has now, a line each. One that died is no longer among them when Slurm
 * has noticed it (SlurmdTimeout), if the job was started with --no-kill. SLURM_JOB_NUM_NODES stays. */
static void slurm_question(ls_command *e, ls_str *names)
{
    char job[64], ask[200];
    ls_slurm_job(job);
    snprintf(ask, sizeof ask, "hosts=$(squeue -h -j \"%s\" -o %%N) && scontrol show hostnames \"$hosts\"",
             job);
    e->whole = names;
    ls_command_word(e, "sh");
    ls_command_word(e, "-c");
    ls_command_word(e, ask);
}

ls_status ls_hosts_ask_slurm(ls_str *names)
{
    ls_command e = { 0 };
    slurm_question(&e, names);
    LS_TRY(ls_commands_run(&e, 1, LS_HOST_PATIENCE, "asking Slurm for the hosts of this job"));
    LS_TRY(ls_str_status(names));
    if (e.status == LS_COMMAND_LATE)
        return ls_fail(LS_E_PEER, "squeue does not say within %g s which hosts this job has",
                       LS_HOST_PATIENCE);
    const char *text = ls_str_text(names);
    if (e.status == 0 && text[strspn(text, " \t\r\n")])
        return LS_OK;
    return ls_fail(LS_E_PEER, "squeue does not say which hosts this job has: %.400s",
                   *e.said ? e.said : "it names none");
}

/* Makes the command "ssh -o BatchMode=yes HOST true". In this mode ssh does not ask for a password. */
void ls_hosts_question(ls_command *e, const ls_hosts *h, const ls_host *host)
{
    const char *name = strrchr(h->rsh, '/') ? strrchr(h->rsh, '/') + 1 : h->rsh;
    ls_command_words(e, h->rsh);
    if (!strncmp(name, "ssh", 3) && (!name[3] || name[3] == ' '))
        ls_command_words(e, "-o BatchMode=yes -o ConnectTimeout=8");
    ls_command_word(e, host->name);
    ls_command_word(e, "true");
}

static void note_answer(ls_host *host, const ls_command *e)
{
    host->answers = e->status == 0;
    if (e->status == LS_COMMAND_LATE)
        ls_snprintf(host->why, sizeof host->why, "no answer within %g s", LS_HOST_PATIENCE);
    else if (!host->answers)
        snprintf(host->why, sizeof host->why, "%.400s%s(exit status %d)", e->said, *e->said ? " " : "",
                 e->status);
}

static ls_status ask_each(ls_hosts *h)
{
    ls_command *commands = ls_sys_calloc((size_t)h->n, sizeof *commands);
    LS_TRY(ls_sys_have(commands));
    for (int i = 0; i < h->n; i++)
        if (!h->all[i].here && !h->all[i].refused)
            ls_hosts_question(&commands[i], h, &h->all[i]);
    ls_status s = ls_commands_run(commands, h->n, LS_HOST_PATIENCE, "asking the hosts whether they answer");
    for (int i = 0; s == LS_OK && i < h->n; i++) {
        h->all[i].answers = h->all[i].here;
        if (!h->all[i].here && !h->all[i].refused)
            note_answer(&h->all[i], &commands[i]);
    }
    free(commands);
    return s;
}

static bool has_line(const char *text, const char *line)
{
    const size_t n = strlen(line);
    for (const char *at = text; (at = strstr(at, line)); at += n)
        if ((at == text || at[-1] == '\n') && strchr("\r\n", at[n]))
            return true;
    return false;
}

static ls_status ask_slurm_for(ls_hosts *h)
{
    ls_str names = { 0 };
    char job[64];
    ls_slurm_job(job);
    ls_status s = ls_hosts_ask_slurm(&names);
    for (int i = 0; s == LS_OK && i < h->n; i++) {
        ls_host *host = &h->all[i];
        if (host->refused)
            continue;
        host->answers = has_line(ls_str_text(&names), host->name);
        snprintf(host->why, sizeof host->why, "it does not belong to Slurm job %s", job);
    }
    ls_str_release(&names);
    return s;
}

static ls_status tell_missing(const ls_hosts *h)
{
    ls_str text = { 0 };
    for (int i = 0; i < h->n; i++)
        if (!h->all[i].answers)
            ls_str_printf(&text, "%shost %s %s: %s", text.len ? "; " : "", h->all[i].name,
                          h->all[i].refused ? "is not used again" : "does not answer", h->all[i].why);
    ls_status s = h->slurm ? ls_fail(LS_E_PEER, "%.3000s", ls_str_text(&text))
                           : ls_fail(LS_E_PEER, "%.3000s; `%s HOST true` must work without a password",
                                     ls_str_text(&text), h->rsh);
    ls_str_release(&text);
    return s;
}

ls_status ls_hosts_ask(ls_hosts *h, bool all)
{
    int there = 0, lost = 0;
    for (int i = 0; i < h->n; i++) /* those that are lost now are back if they answer */
        h->all[i].returned = !all && (h->all[i].returned || !h->all[i].answers);
    LS_TRY(h->slurm ? ask_slurm_for(h) : ask_each(h));
    for (int i = 0; i < h->n; i++) {
        ls_host *host = &h->all[i];
        host->returned = host->returned && host->answers;
        if (host->returned)
            host->back_at = ls_now();
        host->again = 0;
        there += host->answers;
        lost += !host->answers && !host->refused;
    }
    if (there && !lost)
        return LS_OK;
    const ls_status s = tell_missing(h);
    if (all || !there)
        return s;
    ls_log_warn("%s", ls_error_message());
    return LS_OK;
}
