/* hosts_own.h - questions to hosts. Private to hosts*.c. */
#pragma once
#include "base/commands.h"
#include "hosts.h"

#define LS_HOST_PATIENCE 10.0 /* seconds that a host has to answer */

/* hosts_ask.c */
void ls_hosts_question(ls_command *e, const ls_hosts *h, const ls_host *host);
ls_status ls_hosts_ask_slurm(ls_str *names); /* waits for the answer */
