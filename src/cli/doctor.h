/* doctor.h - the parts of `lockstep doctor`. Each prints lines "  name   value" in sections, or adds them to
 * the JSON, and reports a problem with ls_doctor_note. */
#pragma once
#include "base/json.h"
#include "cli.h"
#include "plan/calibration.h"

typedef struct ls_doctor {
    FILE *out;
    bool quiet; /* no lines: only problems, as warnings */
    bool as_json;
    ls_json json, json_notes;
    bool in_section, failed; /* failed: measuring did */
    bool keep;               /* what is measured: the machine has been quiet so far */
    int notes;
    ls_str advice;   /* one line per note, printed at the end */
    ls_str unusable; /* names of the parts that cannot be used here, "mpich, hdf5" */
} ls_doctor;

/* doctor_lines.c */
void ls_doctor_begin(ls_doctor *d);
void ls_doctor_section(ls_doctor *d,
                       const char *title); /* the key in JSON: without what stands in brackets */
void ls_doctor_line(ls_doctor *d, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* a problem, and what to do about it */
void ls_doctor_note(ls_doctor *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the notes and what is not usable, or the JSON. Releases *d. LS_E_MEMORY. */
ls_status ls_doctor_end(ls_doctor *d);
/* Copies the rest of the first line that begins with `prefix` (NULL: the first line) to the buffer; false if
 * there is no such line. For files of /proc and /sys. */
bool ls_doctor_read(char *buffer, size_t size, const char *path, const char *prefix);

/* doctor_file.c: writes a file for `plan --machine`, of hosts with so many ranks. busy: its source says that
 * other programs used the cores. */
ls_status ls_doctor_write_machine(const char *path, const ls_calibration *c, int ranks, bool busy,
                                  const ls_collective_speed wires[LS_COLLECTIVE_SPEEDS]);
void ls_doctor_machine(ls_doctor *d); /* doctor_machine.c: CPU, memory, limits, folders */
/* doctor_parts.c: the optional parts of this build (cmake/parts.cmake) */
void ls_doctor_parts(ls_doctor *d);
ls_status ls_doctor_check_names(const char *names); /* "mpi,hdf5": LS_E_USAGE if one is not a part */
/* LS_E_UNSUPPORTED with the reason and the remedy if one of them cannot be used here. */
ls_status ls_doctor_need(const char *names);
void ls_doctor_libraries(ls_doctor *d); /* doctor_libraries.c */
void ls_doctor_gpu(ls_doctor *d);       /* doctor_gpu.c: device cuda */
/* doctor_ranks.c: cores and their division, shared memory, launchers */
void ls_doctor_ranks(ls_doctor *d);
