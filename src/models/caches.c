/* caches.c - see caches.h. */
#include "caches.h"

#include <stdio.h>

ls_caches ls_caches_begin(ls_graph *g, int64_t prompts, int64_t beams, int64_t tokens, int64_t places,
                          ls_value *ids)
{
    char name[32], positions[32];
    const int64_t rows = prompts * beams;
    const ls_type type = LS_TYPE(LS_I32, tokens > 1 ? prompts : rows, tokens);
    ls_caches c = { .prompts = prompts, .beams = beams, .places = places };
    snprintf(name, sizeof name, "ids.%lld", (long long)tokens);
    snprintf(positions, sizeof positions, "positions.%lld", (long long)tokens);
    c.positions = ls_input(g, positions, type);
    if (beams > 1 && tokens == 1)
        c.from = ls_input(g, "from", LS_TYPE(LS_I32, rows));
    *ids = ls_input(g, name, type);
    return c;
}

ls_value ls_caches_write(ls_graph *g, const ls_caches *c, const char *what, int64_t layer, ls_value rows)
{
    char name[48];
    snprintf(name, sizeof name, "cache.%lld.%s", (long long)layer, what);
    const ls_type new = ls_value_type(g, rows);
    const int64_t features = new.ndim == 3 ? new.dims[2] : 1;
    ls_value cache = ls_state(g, name, LS_TYPE(LS_F32, c->prompts * c->beams, c->places, features),
                              ((ls_init){ .kind = LS_INIT_ZERO }));
    if (c->beams > 1)
        cache = c->from.id ? ls_cache_reorder(g, cache, c->from)
                           : ls_reshape(g, cache, c->prompts, c->beams * c->places, features);
    return ls_cache_write(g, cache, rows, c->positions);
}

ls_value ls_caches_wanted(ls_graph *g, const ls_caches *c, ls_value x)
{
    return ls_embedding_op(g, ls_input(g, "row", LS_TYPE(LS_I32, c->prompts * c->beams)), x);
}
