/* verb_watch.c - `lockstep watch`: shows a run on the terminal until q is pressed; without a terminal it
 * prints what there is, once. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include "base/file.h"
#include "base/sys.h"
#include "cli.h"
#include "record/rundir.h"
#include "screen/watch_frame.h"

enum { EVERY = 1000, LEAST_WIDTH = 40, LEAST_HEIGHT = 8 };

static bool shows_utf8(void)
{
    static const char *const NAMES[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(NAMES[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

/* ---- once */

static ls_status print_once(ls_watch *w, const ls_ui *ui)
{
    ls_screen screen;
    ls_str text = { 0 };
    int rows;
    LS_TRY(ls_watch_read(w));
    LS_TRY(ls_watch_draw(&screen, &rows, w,
                         &(ls_watch_look){ .width = ui->width ? ui->width : 110, .utf8 = shows_utf8() }));
    ls_screen_write(&text, &screen, rows, ui->colour, "\n");
    ls_screen_release(&screen);
    const ls_status s = ls_str_status(&text);
    if (s == LS_OK)
        fputs(ls_str_text(&text), ui->out);
    ls_str_release(&text);
    return s;
}

/* ---- on a terminal */

static void on_resize(int number) { (void)number; /* it ends the wait for a key */ }

typedef struct terminal {
    bool keys; /* standard input is a terminal, too */
    struct termios before;
    struct sigaction resize;
} terminal;

static void open_terminal(terminal *t, FILE *out)
{
    const struct sigaction resize = { .sa_handler = on_resize };
    sigaction(SIGWINCH, &resize, &t->resize);
    t->keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &t->before) == 0;
    if (t->keys) {
        struct termios raw = t->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* a stopped process would leave the screen as it is */
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    fputs("\033[?1049h\033[?25l\033[?7l", out); /* the other screen, no cursor, no line breaks */
}

static void close_terminal(const terminal *t, FILE *out)
{
    fputs("\033[?7h\033[?25h\033[?1049l", out);
    fflush(out);
    if (t->keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &t->before);
    sigaction(SIGWINCH, &t->resize, NULL);
}

static ls_status show(const ls_watch *w, const ls_ui *ui, bool log)
{
    struct winsize size = { .ws_col = 80, .ws_row = 24 };
    ls_screen screen;
    ls_str text = { 0 };
    int rows;
    ioctl(fileno(ui->out), TIOCGWINSZ, &size);
    const ls_watch_look look = { .width = size.ws_col > LEAST_WIDTH ? size.ws_col : LEAST_WIDTH,
                                 .height = size.ws_row > LEAST_HEIGHT ? size.ws_row : LEAST_HEIGHT,
                                 .utf8 = shows_utf8(),
                                 .log = log,
                                 .foot = "q quit   l logarithmic loss" };
    LS_TRY(ls_watch_draw(&screen, &rows, w, &look));
    ls_screen_write(&text, &screen, rows, ui->colour, "\033[K\n");
    ls_screen_release(&screen);
    const ls_status s = ls_str_status(&text);
    ls_str_cut(&text, text.len ? text.len - 1 : 0); /* a line feed in the last row would move the screen */
    fprintf(ui->out, "\033[H%s", ls_str_text(&text));
    fflush(ui->out);
    ls_str_release(&text);
    return s;
}

/* Waits for a key or until the next frame is due. 0: no key. */
static char wait_for_key(const terminal *t)
{
    struct pollfd in = { .fd = t->keys ? STDIN_FILENO : -1, .events = POLLIN };
    char key = 0;
    return poll(&in, 1, EVERY) > 0 && read(STDIN_FILENO, &key, 1) == 1 ? key : 0;
}

static ls_status follow(ls_watch *w, const ls_ui *ui)
{
    terminal t;
    bool log = false;
    ls_status s = ls_watch_read(w);
    if (s != LS_OK)
        return s;
    open_terminal(&t, ui->out);
    for (;;) {
        LS_TRY_TO(s, show(w, ui, log), done);
        const char key = wait_for_key(&t);
        if (key == 'q' || *ui->stop)
            break;
        log = log != (key == 'l');
        LS_TRY_TO(s, ls_watch_read(w), done);
    }
done:
    close_terminal(&t, ui->out);
    return s;
}

/* RUN is a folder, the name of a run in runs/, or a folder of runs: the latest of them. malloc'ed. */
static ls_status find_run(char **out, const char *word)
{
    char *named = ls_path_join("runs", word ? word : "");
    const char *storage = word ? word : "runs";
    ls_status s = LS_OK;
    *out = NULL;
    if (word && ls_run_is(word))
        *out = ls_sys_strdup(word);
    else if (word && ls_run_is(named))
        *out = ls_sys_strdup(named);
    else
        s = ls_runs_latest(out, storage);
    if (s == LS_OK && !*out)
        s = word ? ls_fail(LS_E_USAGE, "%s: no such run (`lockstep runs` lists them)", word)
                 : ls_fail(LS_E_USAGE, "there is no run in runs/ yet: name the folder of a run, or start one "
                                       "with `lockstep train RECIPE`");
    free(named);
    return s;
}

ls_status ls_verb_watch(const ls_args *a, const ls_ui *ui)
{
    const char *term = getenv("TERM");
    char *dir;
    LS_TRY(find_run(&dir, a->n_words ? a->words[0] : NULL));
    ls_watch w = { .dir = dir };
    const bool live = ui->width > 0 && !(term && !strcmp(term, "dumb")) && !ls_args_has(a, "--once");
    const ls_status s = live ? follow(&w, ui) : print_once(&w, ui);
    ls_watch_release(&w);
    free(dir);
    return s;
}
