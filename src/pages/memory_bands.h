/* memory_bands.h - the memory of a rank at each step of its plans, in the bands of a chart. */
#pragma once
#include "step/memory.h"

/* The categories, then what is in host memory (with offload, or if the device's memory is its own), and what
 * the ranks of a host have once. */
enum { LS_BANDS = LS_CAT_COUNT + 2, LS_BAND_HOST = LS_CAT_COUNT, LS_BAND_NODE };

typedef struct ls_memory_bands {
    const char *names[LS_BANDS], *colors[LS_BANDS]; /* colors: of CSS */
    size_t fixed[LS_BANDS];                         /* bytes that are there all the time */
    /* Per program and step: bytes of the two arenas. They are added to those of `fixed`. */
    const size_t (*transient[LS_PROGRAMS])[LS_CAT_COUNT];
    ls_step_memory memory;
} ls_memory_bands;

const char *ls_category_color(ls_category c); /* of CSS */

/* In memory of the arena. LS_E_MEMORY. Local. */
ls_status ls_memory_bands_make(ls_memory_bands *out, ls_arena *a, const ls_compiled *c);
