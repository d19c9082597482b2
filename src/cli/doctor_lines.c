/* doctor_lines.c - the lines of `doctor` as text or as JSON, and reading lines of the system's files. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "base/c_locale.h"
#include "base/shown.h"
#include "base/str.h"
#include "doctor.h"

void ls_doctor_begin(ls_doctor *d)
{
    ls_json_array(&d->json_notes, NULL);
    if (d->as_json)
        ls_json_object(&d->json, NULL);
}

void ls_doctor_section(ls_doctor *d, const char *title)
{
    char key[64];
    if (!d->as_json && !d->quiet)
        fprintf(d->out, "%s\n", title);
    if (!d->as_json)
        return;
    const char *bracket = strstr(title, " (");
    snprintf(key, sizeof key, "%.*s", bracket ? (int)(bracket - title) : (int)strlen(title), title);
    if (d->in_section)
        ls_json_close_object(&d->json);
    ls_json_object(&d->json, key);
    d->in_section = true;
}

void ls_doctor_line(ls_doctor *d, const char *name, const char *format, ...)
{
    ls_str line = { 0 };
    va_list args;
    va_start(args, format);
    ls_str_vprintf(&line, format, args);
    va_end(args);
    if (d->as_json)
        ls_json_text(&d->json, name, ls_str_text(&line));
    else if (!d->quiet)
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
    ls_json_text(&d->json_notes, NULL, text);
    if (d->quiet && !d->as_json)
        ls_log_warn("%s", text);
    d->notes++;
}

ls_status ls_doctor_end(ls_doctor *d)
{
    ls_status s = LS_OK;
    ls_json_close_array(&d->json_notes);
    if (d->as_json) {
        if (d->in_section)
            ls_json_close_object(&d->json);
        ls_json_raw(&d->json, "notes", ls_str_text(&d->json_notes.out));
        ls_json_close_object(&d->json);
        s = ls_print_result(d->out, &d->json.out);
    } else if (!d->quiet) {
        if (d->notes)
            fprintf(d->out, "%d thing%s to look at:\n%s", d->notes, d->notes == 1 ? "" : "s",
                    ls_str_text(&d->advice));
        if (d->unusable.len)
            fprintf(d->out, "Not usable here: %s. Parts says what to install.\n", ls_str_text(&d->unusable));
        else if (!d->notes && !d->failed)
            fprintf(d->out, "Nothing is missing.\n");
    }
    ls_str_release(&d->json_notes.out);
    ls_str_release(&d->advice);
    ls_str_release(&d->unusable);
    return s;
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
