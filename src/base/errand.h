/* errand.h - runs several short commands at once, and returns their exit statuses and what they print. */
#pragma once
#include "base/str.h"
#include "lockstep/status.h"

enum { LS_ERRAND_WORDS = 24, LS_ERRAND_LATE = -1, LS_ERRAND_NOT_STARTED = 127 };

typedef struct ls_errand {
    int n; /* number of words; 0: no command */
    char words[LS_ERRAND_WORDS][256];
    int status; /* exit status, 128 + signal, or one of the above */
    /* the last line that is not empty: of stdout if it succeeded, else of stderr; where that has none, of the
     * other one */
    char said[512];
    ls_str *whole; /* gets its stdout, up to 1 MiB; NULL: nobody reads it */
} ls_errand;

void ls_errand_word(ls_errand *e, const char *word);
void ls_errand_words(ls_errand *e, const char *words); /* separated by spaces */
/* Runs all commands at once, and ends those that take longer than `seconds`. LS_E_STOPPED, if a stop is
 * requested meanwhile: then it ends all of them; `doing` is for its message ("asking the hosts").
 * LS_E_MEMORY. Local. */
ls_status ls_errands_run(ls_errand *all, int n, double seconds, const char *doing);
