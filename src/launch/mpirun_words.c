/* mpirun_words.c - see mpirun_words.h. */
#include "mpirun_words.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "message.h"

enum {
    RULER = 60
}; /* length of a row of dashes or equals signs; messages of Open MPI and MPICH stand between two of these */

static bool is_ruler(const char *line)
{
    const size_t n = strspn(line, *line == '=' ? "=" : "-");
    return n >= RULER && !line[n + strspn(line + n, " \r")];
}

static void mpirun_words_keep(ls_mpirun_words *w, const char *line)
{
    const size_t n = strlen(w->said);
    line += strspn(line, " \t");
    ls_log_debug("%s", line);
    if (*line && n < sizeof w->said / 2)
        snprintf(w->said + n, sizeof w->said - n, "%s%s", n ? " " : "", line);
}

static bool begins(const char *line, const char *with) { return !strncmp(line, with, strlen(with)); }

static bool speaks_of_itself(const char *text)
{
    static const char *const WORDS[] = { "mpirun",
                                         "mpiexec",
                                         "ORTE",
                                         "orte",
                                         "PMIX",
                                         "PMIx",
                                         "PRTE",
                                         "Open MPI",
                                         "OpenRTE",
                                         "MPI_",
                                         "MCA ",
                                         "mca_",
                                         "BAD TERMINATION",
                                         "more process",
                                         "btl",
                                         "Process received signal",
                                         "Signal",
                                         "Failing at address",
                                         "*** End of",
                                         ".so" };
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++)
        if (strstr(text, WORDS[i]))
            return true;
    return false;
}

static bool says_name(const char *line, const char *name)
{
    return name && begins(line, name) && line[strlen(name)] == ':';
}

/* Whether mpirun wrote the line: "[host:123] ..." of its daemons and library, or another known beginning. */
static bool is_its_own(const ls_mpirun_words *w, const char *line)
{
    static const char *const BEGINNINGS[] = { "[mpiexec@",
                                              "[proxy:",
                                              "srun: ",
                                              "slurmstepd: ",
                                              "mpirun: ",
                                              "mpiexec: ",
                                              "Primary job ",
                                              "a non-zero exit code. Per user-direction",
                                              "YOUR APPLICATION TERMINATED WITH" };
    const char *close = *line == '[' ? strchr(line, ']') : NULL;
    const char *colon = close ? memchr(line, ':', (size_t)(close - line)) : NULL;
    if (colon && strspn(colon + 1, "0123456789") == (size_t)(close - colon - 1))
        return speaks_of_itself(close);
    for (size_t i = 0; i < sizeof BEGINNINGS / sizeof BEGINNINGS[0]; i++)
        if (begins(line, BEGINNINGS[i]))
            return true;
    /* it leaves out its folder; that it cannot be executed is said with it */
    const char *slash = w->name ? strrchr(w->name, '/') : NULL;
    return says_name(line, w->name) || (slash && says_name(line, slash + 1));
}

static void pass_block(ls_mpirun_words *w, ls_line_fn *take, void *context)
{
    const bool its_own = speaks_of_itself(ls_str_text(&w->block)) ||
                         strstr(ls_str_text(&w->block), "process");
    char *text = w->block.data;
    for (char *line = text ? strtok(text, "\n") : NULL; line; line = strtok(NULL, "\n")) {
        if (its_own)
            mpirun_words_keep(w, line);
        else
            take(context, line, false);
    }
    ls_str_release(&w->block);
    w->block = (ls_str){ 0 };
    w->in_block = false;
}

static void take_words(ls_mpirun_words *w, const char *line, ls_line_fn *take, void *context)
{
    if (is_ruler(line)) {
        if (w->in_block)
            pass_block(w, take, context);
        else
            w->in_block = true;
    } else if (w->in_block) {
        ls_str_printf(&w->block, "%s\n", line);
    } else if (is_its_own(w, line)) {
        mpirun_words_keep(w, line);
    } else {
        take(context, line, false);
    }
}

/* A message may follow an unfinished line. */
static void take_whole(ls_mpirun_words *w, char *line, ls_line_fn *take, void *context)
{
    char *begin = strchr(line, LS_MESSAGE_BEGIN), *over = begin ? strchr(begin, LS_MESSAGE_OVER) : NULL;
    if (!over) {
        take_words(w, line, take, context);
        return;
    }
    *begin = *over = 0;
    if (*line)
        take_words(w, line, take, context);
    take(context, begin + 1, true);
    if (over[1])
        take_whole(w, over + 1, take, context);
}

/* Signs of life come at any time, also between two parts of a line that a rank writes piece by piece. So a
 * sign at the end of what there is so far is taken out, and the line goes on. */
static bool take_sign(ls_mpirun_words *w, ls_line_fn *take, void *context)
{
    char *begin = w->line.len ? strrchr(w->line.data, LS_MESSAGE_BEGIN) : NULL;
    ls_rank_message f;
    if (!begin || w->line.data[w->line.len - 1] != LS_MESSAGE_OVER)
        return false;
    w->line.data[w->line.len - 1] = 0;
    const bool is_sign = ls_rank_message_read(&f, begin + 1) && f.kind == LS_MESSAGE_ALIVE;
    if (!is_sign) {
        w->line.data[w->line.len - 1] = LS_MESSAGE_OVER;
        return false;
    }
    take(context, begin + 1, true);
    *begin = 0;
    w->line.len = (size_t)(begin - w->line.data);
    return true;
}

void ls_mpirun_words_take(ls_mpirun_words *w, const char *text, size_t n, ls_line_fn *take, void *context)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] != '\n') {
            ls_str_printf(&w->line, "%c", text[i]);
            continue;
        }
        if (take_sign(w, take, context))
            continue;
        if (w->line.len)
            take_whole(w, w->line.data, take, context);
        else
            take_words(w, "", take, context);
        ls_str_release(&w->line);
        w->line = (ls_str){ 0 };
    }
}

void ls_mpirun_words_end(ls_mpirun_words *w, ls_line_fn *take, void *context)
{
    if (w->line.len)
        ls_mpirun_words_take(w, "\n", 1, take, context);
    if (w->in_block)
        pass_block(w, take, context);
}

const char *ls_mpirun_words_said(const ls_mpirun_words *w) { return w->said; }

void ls_mpirun_words_release(ls_mpirun_words *w)
{
    ls_str_release(&w->line);
    ls_str_release(&w->block);
    *w = (ls_mpirun_words){ 0 };
}
