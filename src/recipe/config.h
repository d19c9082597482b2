/* config.h - a map of a recipe as a module reads it (lockstep/module.h). */
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "lockstep/module.h"

struct ls_config {
    json_t *root;       /* what the recipe has */
    json_t *asked;      /* key as asked -> value, in order */
    const char *where;  /* "mine.yaml:3: model.config" */
    const char *module; /* "mine (./mine.so)" */
    ls_arena *arena;    /* texts that were asked */
    ls_status status;   /* the first error */
    char message[1024];
};

/* `json`: a JSON object. The strings must outlive the config. */
ls_status ls_config_open(ls_config *c, ls_arena *arena, const char *json, const char *where,
                         const char *module);
/* The first error of the calls, or a key that nobody asked for. */
ls_status ls_config_status(ls_config *c);
/* What was asked, in its order, as a JSON object; malloc'ed. NULL: out of memory. */
char *ls_config_resolved(const ls_config *c);
void ls_config_close(ls_config *c);
