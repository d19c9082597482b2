/* render.c - what every part of a rendering calls: failures, steps, memory. */
#include <stdio.h>

#include "base/c_locale.h"
#include "value.h"

void ls_jfail(ls_jrender *r, ls_status s, const char *format, ...)
{
    if (ls_jfailed(r))
        return; /* the first failure is the reason of the others */
    char text[1000];
    va_list args;
    va_start(args, format);
    ls_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->status = ls_fail(s, "%s:%d: %s", r->name, r->line, text);
}

bool ls_jfailed(const ls_jrender *r) { return r->status != LS_OK; }

bool ls_jstep(ls_jrender *r, size_t n)
{
    r->steps += 1 + (int64_t)(n / 64);
    if (r->steps > LS_TEMPLATE_STEPS)
        ls_jfail(r, LS_E_UNSUPPORTED,
                 "the template takes more than %d steps here: it may loop for ever, or the conversation is "
                 "too long",
                 LS_TEMPLATE_STEPS);
    return !ls_jfailed(r);
}

void *ls_jalloc(ls_jrender *r, size_t bytes)
{
    if (ls_jfailed(r))
        return NULL;
    if (bytes > LS_TEMPLATE_MEMORY || r->arena.bytes + bytes > LS_TEMPLATE_MEMORY) {
        ls_jfail(r, LS_E_UNSUPPORTED, "the template needs more than %d MiB of memory here",
                 LS_TEMPLATE_MEMORY >> 20);
        return NULL;
    }
    void *p = ls_arena_alloc(&r->arena, bytes);
    if (!p)
        ls_jfail(r, LS_E_MEMORY, "no memory to render the template");
    return p;
}
