/* plan_search_own.h - what the two files of `plan --search` share. */
#pragma once
#include "commands.h"
#include "lockstep/mesh.h"

enum { MESH, SCHEDULE, DATA, RESHARD, SEQUENCE, RECOMPUTE, MICRO, KEYS };
enum { VALUE = 64, MOST = 4096, SHOWN = 10, MEASURED = 12, ENOUGH = 16, MANY = 128 };

typedef struct candidate {
    char value[KEYS][VALUE]; /* "": as the recipe has it */
    enum { FITS, TOO_LARGE, REFUSED } outcome;
    char *why; /* refused */
    size_t memory;
    double seconds, update, communication;
    bool exact;  /* all its kernels were measured */
    bool played; /* the stages of its pipeline beside each other; else they count as equal */
} candidate;

typedef struct search {
    const ls_plan_command_opts *o;
    int ranks, n, room, count[3]; /* by outcome */
    bool more;                    /* there are more than MOST */
    int64_t global_batch, memory; /* memory: bytes that a rank may use; 0: any number */
    bool fixed[KEYS];             /* by the user */
    ls_mesh mesh;                 /* of the recipe, if it is fixed */
    candidate *c;
} search;

extern const char *const ls_plan_search_keys[KEYS];

ls_status ls_plan_search_text(const search *s, const ls_ui *ui);
ls_status ls_plan_search_json(const search *s, const ls_ui *ui);
