/* commands.h - runs several short commands at once, and returns their exit statuses and what they print. The
 * caller waits for them, or goes on and looks now and then. */
#pragma once
#include <stdbool.h>
#include "base/str.h"
#include "lockstep/status.h"

enum { LS_COMMAND_WORDS = 24, LS_COMMAND_LATE = -1, LS_COMMAND_NOT_STARTED = 127 };

typedef struct ls_command {
    int n; /* number of words; 0: no command */
    char words[LS_COMMAND_WORDS][256];
    int status; /* exit status, 128 + signal, or one of the above */
    /* the last line that is not empty: of stdout if it succeeded, else of stderr; where that has none, of the
     * other one */
    char said[512];
    ls_str *whole; /* gets its stdout, up to 1 MiB; NULL: nobody reads it */
} ls_command;

void ls_command_word(ls_command *e, const char *word);
void ls_command_words(ls_command *e, const char *words); /* separated by spaces */
/* Runs all commands at once, and ends those that take longer than `seconds`. LS_E_STOPPED, if a stop is
 * requested meanwhile: then it ends all of them; `doing` is for its message ("asking the hosts").
 * LS_E_MEMORY. Local. */
ls_status ls_commands_run(ls_command *all, int n, double seconds, const char *doing);

typedef struct ls_commands ls_commands;
/* Starts them. `all` stays the caller's, and must stay where it is until the end. LS_E_MEMORY. Local. */
ls_status ls_commands_start(ls_commands **c, ls_command *all, int n, double seconds);
/* Whether all have ended. Does not wait; ends those that take longer than `seconds`. */
bool ls_commands_over(ls_commands *c);
/* Ends those that still run, and fills what `all` returns. *c may be NULL. */
void ls_commands_end(ls_commands **c);
