/* pieces.c - a text in pieces, and a text with parts replaced. */
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "text.h"

void ls_pieces_add_from(ls_text_pieces *p, const char *text, size_t n, const ls_text_range *from)
{
    if (!n)
        return;
    if (p->n == p->room) {
        const int64_t room = p->room ? 2 * p->room : 64;
        int64_t *end = p->text.no_memory ? NULL : ls_sys_realloc(p->end, sizeof *end * (size_t)room);
        if (!end) {
            p->text.no_memory = true;
            return;
        }
        p->end = end;
        p->room = room;
    }
    ls_str_add_n(&p->text, text, n);
    ls_origin_copy(&p->trace, from, n);
    p->end[p->n++] = (int64_t)p->text.len;
}

ls_status ls_pieces_check(const ls_text_pieces *p)
{
    return p->trace.no_memory ? ls_fail(LS_E_MEMORY, "out of memory for a text") : ls_str_status(&p->text);
}

void ls_pieces_clear(ls_text_pieces *p)
{
    ls_str_clear(&p->text);
    p->trace.n = 0;
    p->n = 0;
}

void ls_pieces_release(ls_text_pieces *p)
{
    ls_str_release(&p->text);
    ls_origin_release(&p->trace);
    free(p->end);
    *p = (ls_text_pieces){ 0 };
}

void ls_replace_all(const char *token, size_t n, const char *from, const char *to, ls_str *out)
{
    const size_t length = strlen(from);
    for (size_t i = 0; i < n;) {
        const bool here = length > 0 && length <= n - i && !memcmp(token + i, from, length);
        ls_str_add_n(out, here ? to : token + i, here ? strlen(to) : 1);
        i += here ? length : 1;
    }
}
