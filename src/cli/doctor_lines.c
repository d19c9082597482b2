/* doctor_lines.c - prints the lines of `doctor`, and reads lines of the system's files. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "base/c_locale.h"
#include "base/str.h"
#include "doctor.h"

void ls_doctor_section(ls_doctor *d, const char *title) { fprintf(d->out, "%s\n", title); }

void ls_doctor_line(ls_doctor *d, const char *name, const char *format, ...)
{
    ls_str line = { 0 };
    va_list args;
    va_start(args, format);
    ls_str_vprintf(&line, format, args);
    va_end(args);
    fprintf(d->out, "  %-13s %s\n", name, ls_str_text(&line));
    ls_str_release(&line);
}

void ls_doctor_note(ls_doctor *d, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    ls_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ls_str_printf(&d->advice, "  - %s\n", text);
    d->notes++;
}

bool ls_doctor_read(char *buffer, size_t size, const char *path, const char *prefix)
{
    FILE *f = fopen(path, "re");
    bool found = false;
    if (!f)
        return false;
    char *line = NULL;
    size_t room = 0, n = prefix ? strlen(prefix) : 0;
    while (!found && getline(&line, &room, f) > 0) {
        if (n && strncmp(line, prefix, n))
            continue;
        const char *text = line + n;
        text += strspn(text, " \t:");
        snprintf(buffer, size, "%.*s", (int)strcspn(text, "\n"), text);
        found = true;
    }
    free(line);
    fclose(f);
    return found;
}
