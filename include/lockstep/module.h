/* module.h - a model of your own for the command: a shared object with one symbol, which a recipe names.
 *
 *     typedef struct settings {
 *         int64_t hidden;
 *     } settings;
 *     static const ls_module_key KEYS[] = {
 *         { "hidden", LS_MODULE_INT, offsetof(settings, hidden), "64", 1, 65536, NULL, "width" },
 *         LS_MODULE_KEYS_END,
 *     };
 *     static ls_status build(ls_graph *g, const void *self, int64_t batch) { ... }
 *
 *     LS_MODULE_EXPORT const ls_model_module *lockstep_module(void)
 *     {
 *         static const ls_model_module module = { LS_MODULE_DEFAULTS, .name = "mine", .version = "1",
 *                                                 .keys = KEYS, .settings = sizeof(settings),
 *                                                 .build = build };
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

typedef enum ls_module_kind {
    LS_MODULE_INT,   /* int64_t */
    LS_MODULE_FLOAT, /* double */
    LS_MODULE_BOOL,  /* bool */
    LS_MODULE_TEXT,  /* const char *; it lives as long as the module is open */
    LS_MODULE_CHOICE /* an enum or int: the index of the word */
} ls_module_kind;

/* A key of model.config or data.config. Its value fills a member of the module's struct of settings. `--set`,
 * messages, `lockstep recipe` and `lockstep recipe --reference FILE` follow from the rows. A key without a
 * row is refused. */
typedef struct ls_module_key {
    const char *key; /* "hidden", or a path: "encoder.layers" is in {encoder: {layers: 2}} */
    ls_module_kind kind;
    size_t offset;            /* of the member in the struct of settings */
    const char *by_default;   /* as in a recipe: "64", "true", "gelu"; NULL: the recipe must set the key */
    double least, most;       /* INT, FLOAT: the range; both count as inside */
    const char *const *words; /* CHOICE: ended by NULL */
    const char *help;         /* what it is; shown by `lockstep recipe --reference FILE` */
} ls_module_key;
#define LS_MODULE_KEYS_END                             \
    {                                                  \
        NULL, LS_MODULE_INT, 0, NULL, 0, 0, NULL, NULL \
    } /* ends an array of rows */

/* Grows when the meaning of a public struct or function changes. Since 4 a module declares its keys as rows;
 * before, it read them with calls. 5: ls_images_options has eval_fraction, ls_field has names of classes. 6:
 * ls_linear_opts has transposed. */
enum { LS_MODULE_ABI = 6 };

/* What lockstep_module returns; it must live as long as the process. Functions that may be NULL are not
 * needed. A function that fails says why with ls_fail. */
typedef struct ls_model_module {
    uint32_t size, abi;         /* of this struct, and LS_MODULE_ABI, where the module was compiled */
    const char *name, *version; /* for people, and in checkpoints */
    void (*library)(void);      /* ls_graph_create as the module sees it: there is one library in a process */
    /* The keys of model.config and of data.config, ended by LS_MODULE_KEYS_END; NULL: there are none. And the
     * sizes of the structs that they fill. */
    const ls_module_key *keys, *data_keys;
    size_t settings, data_settings;
    /* Makes of the filled settings what the others get as self. *self is the settings when it is called. They
     * live until `close` has returned. May be NULL: self is the settings. */
    ls_status (*open)(void **self, const void *settings);
    /* The model for `batch` samples, as ls_trainer_create takes it; config is *self. It is called several
     * times and must build the same each time, with the same parameters in training and evaluation. */
    ls_build_fn build;
    /* A split of `data: {type: module}`; settings: filled from data.config, NULL without data_keys. May be
     * NULL: the recipe names other data. */
    ls_status (*data)(ls_dataset **out, void *self, ls_split split, const void *settings);
    void (*close)(void *self); /* may be NULL; called only after an open that succeeded */
} ls_model_module;
#define LS_MODULE_DEFAULTS \
    .size = sizeof(ls_model_module), .abi = LS_MODULE_ABI, .library = (void (*)(void))ls_graph_create

/* A function of the header, so that size and version are those that the module was built with. */
static inline ls_model_module ls_model_module_default(void)
{
    ls_model_module m;
    m.size = sizeof m, m.abi = LS_MODULE_ABI, m.library = (void (*)(void))ls_graph_create;
    m.name = m.version = NULL, m.keys = m.data_keys = NULL, m.settings = m.data_settings = 0;
    m.open = NULL, m.build = NULL, m.data = NULL, m.close = NULL;
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
