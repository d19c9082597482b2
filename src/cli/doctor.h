/* doctor.h - the parts of `lockstep doctor`. Each prints lines "  name   value", and reports a problem with
 * ls_doctor_note. */
#pragma once
#include "cli.h"

typedef struct ls_doctor {
    FILE *out;
    int notes;
    ls_str advice; /* one line per note, printed at the end */
} ls_doctor;

/* doctor_lines.c */
void ls_doctor_section(ls_doctor *d, const char *title);
void ls_doctor_line(ls_doctor *d, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* a problem, and what to do about it */
void ls_doctor_note(ls_doctor *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Copies the rest of the first line that begins with `prefix` (NULL: the first line) to the buffer; false if
 * there is no such line. For files of /proc and /sys. */
bool ls_doctor_read(char *buffer, size_t size, const char *path, const char *prefix);

void ls_doctor_machine(ls_doctor *d);   /* doctor_machine.c: CPU, memory, limits, folders */
void ls_doctor_libraries(ls_doctor *d); /* doctor_libraries.c */
/* doctor_ranks.c: cores and their division, shared memory, MPI, launchers */
void ls_doctor_ranks(ls_doctor *d);
