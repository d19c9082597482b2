/* module.h - a model of your own for the command: a shared object with one symbol, which a recipe names.
 *
 *     static ls_status open_model(void **self, ls_config *c)
 *     {
 *         static settings s;
 *         s.hidden = ls_config_int(c, "hidden", 64, 1, 1000000);
 *         *self = &s;
 *         return LS_OK;
 *     }
 *     static ls_status build(ls_graph *g, const void *self, int64_t batch) { ... }
 *
 *     LS_MODULE_EXPORT const ls_model_module *lockstep_module(void)
 *     {
 *         static const ls_model_module module = { LS_MODULE_DEFAULTS, .name = "mine", .version = "1",
 *                                                 .open = open_model, .build = build };
 *         return &module;
 *     }
 *
 *     cc -shared -fPIC $(pkg-config --cflags lockstep) mine.c -o mine.so
 *
 *     model: {type: module, path: ./mine.so, config: {hidden: 128}}
 *
 * The command has the library in it; a module is not linked with liblockstep. `lockstep new DIR` writes one
 * that trains; docs/modules.md says the rest. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "data.h"
#include "trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A map of a recipe, model.config or data.config. Whatever is asked, with its default, is the resolved
 * config; a key that was not asked is refused with the nearest one that was. A key may be a path:
 * "encoder.layers" is in {encoder: {layers: 2}}. A value that is refused is reported when `open` has
 * returned, and the call returns the default. For calls inside `open` and `data` only. */
typedef struct ls_config ls_config;
/* A whole number from `least` to `most`. */
LS_API int64_t ls_config_int(ls_config *c, const char *key, int64_t by_default, int64_t least, int64_t most);
/* A number from `least` to `most`. */
LS_API double ls_config_float(ls_config *c, const char *key, double by_default, double least, double most);
LS_API bool ls_config_bool(ls_config *c, const char *key, bool by_default);
/* A text, which lives as long as the recipe. by_default NULL: the recipe must have the key; NULL comes
 * back where it has not. */
LS_API const char *ls_config_text(ls_config *c, const char *key, const char *by_default);

enum { LS_MODULE_ABI = 3 }; /* grows when the meaning of a public struct or function changes */

/* What lockstep_module returns; it must live as long as the process. Functions that may be NULL are not
 * needed. A function that fails says why with ls_fail. */
typedef struct ls_model_module {
    uint32_t size, abi;         /* of this struct, and LS_MODULE_ABI, where the module was compiled */
    const char *name, *version; /* for people, and in checkpoints */
    void (*library)(void);      /* ls_graph_create as the module sees it: there is one library in a process */
    /* Reads the config; *self is what the others get. May be NULL: the config is empty. */
    ls_status (*open)(void **self, ls_config *c);
    /* The model for `batch` samples, as ls_trainer_create takes it; config is *self. It is called several
     * times and must build the same each time, with the same parameters in training and evaluation. */
    ls_build_fn build;
    /* A split of `data: {type: module}`, with data.config. May be NULL: the recipe names other data. */
    ls_status (*data)(ls_dataset **out, void *self, ls_split split, ls_config *c);
    void (*close)(void *self); /* may be NULL; called only after an open that succeeded */
} ls_model_module;
#define LS_MODULE_DEFAULTS \
    .size = sizeof(ls_model_module), .abi = LS_MODULE_ABI, .library = (void (*)(void))ls_graph_create

/* A function of the header, so that size and version are those that the module was built with. */
static inline ls_model_module ls_model_module_default(void)
{
    ls_model_module m;
    m.size = sizeof m, m.abi = LS_MODULE_ABI, m.library = (void (*)(void))ls_graph_create;
    m.name = m.version = NULL, m.open = NULL, m.build = NULL, m.data = NULL, m.close = NULL;
    return m;
}

/* In front of lockstep_module, the one symbol that a module exports. */
#ifdef __cplusplus
#define LS_MODULE_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define LS_MODULE_EXPORT __attribute__((visibility("default"))) extern
#endif

#ifdef __cplusplus
}
#endif
