/* mpirun_words.h - sorts the lines that mpirun or srun writes to stderr: messages (message.h), output of the
 * ranks, and messages of mpirun itself. The latter are kept, and shown if there is no other message about a
 * failure.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "base/str.h"

typedef struct ls_mpirun_words {
    const char *name; /* of the command */
    ls_str line;
    ls_str block; /* lines between two rulers of dashes, which may be a message of mpirun */
    bool in_block;
    char said[1200]; /* the first lines of its own messages */
} ls_mpirun_words;

/* Called for a line, without its end. is_message: it is the text of a message. */
typedef void ls_line_fn(void *context, const char *line, bool is_message);
void ls_mpirun_words_take(ls_mpirun_words *w, const char *text, size_t n, ls_line_fn *take, void *context);
void ls_mpirun_words_end(ls_mpirun_words *w, ls_line_fn *take, void *context);
const char *ls_mpirun_words_said(const ls_mpirun_words *w);
void ls_mpirun_words_release(ls_mpirun_words *w);
