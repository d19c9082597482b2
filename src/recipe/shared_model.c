/* shared_model.c - models from shared objects. This file reports a mistake of a module where it can be found:
 * a file that is not a module, a module for another version or with a library of its own, a config that the
 * module does not have, a graph that changes between calls, exit() inside a call. A module that writes to
 * memory that is not its own cannot be found. */
#include "shared_model.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "base/sys.h"
#include "comm/last_words.h"
#include "graph/op.h"
#include "models/task.h"
#include "model_row.h"
#include "ops/rules.h"
#include "recipe_setting.h"

const ls_shared_model *ls_recipe_shared_model(const ls_recipe *r) { return r->state->module; }

/* ---- calls into the module */

/* What this thread is doing while it is in a function of a module: "./mine.so: build". exit() calls the
 * functions of atexit in its own thread. */
static _Thread_local const char *inside;

/* A module that calls exit() takes the command with it: no other code can say why. */
static void at_exit(void)
{
    if (!inside)
        return;
    char text[700];
    snprintf(text, sizeof text, "%s called exit(): a function of a module returns a status (ls_fail)",
             inside);
    ls_last_words(LS_E_ARG, text);
    fflush(NULL);
    _exit(1);
}

void ls_shared_model_inside(const char *what)
{
    static atomic_flag registered = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&registered))
        atexit(at_exit);
    inside = what;
}

static void shared_model_enter(const char *module, const char *function, char text[512])
{
    snprintf(text, 512, "%s: %s", module, function);
    ls_shared_model_inside(text);
}

static void shared_model_leave(void) { inside = NULL; }

/* ---- opening */

static ls_status may_load(const ls_recipe *r)
{
    if (!ls_recipe_setting(r->state, "model.path")->recorded)
        return LS_OK;
    return ls_fail(LS_E_USAGE,
                   "%s: its model is built by the module %s. Lockstep loads no code that a run or a "
                   "checkpoint names: give --module %s if you trust that file (--set model.path=%s where "
                   "there is no --module)",
                   r->state->name, r->model.path, r->model.path, r->model.path);
}

/* What the author of a module for ABI 3 or older must change. */
#define DECLARES \
    "; since ABI 4 a module declares its keys as rows and calls no ls_config_int (docs/modules.md)"

/* `where` begins messages: "mine.yaml:3: model.path". */
static ls_status shared_model_load(const ls_model_module **out, const char *where, const char *path)
{
    char what[512];
    char *file = realpath(path,
                          NULL); /* a name without a slash would be looked for in the system's folders */
    if (!file)
        return ls_fail(LS_E_USAGE, "%s: %s: no such file; build the module first", where, path);
    const ls_status regular = ls_file_check(file); /* dlopen would wait for who writes to a pipe */
    if (regular != LS_OK) {
        free(file);
        return ls_fail(regular == LS_E_MEMORY ? regular : LS_E_USAGE, "%s: %s does not load: %s", where, path,
                       ls_error_message());
    }
    dlerror();
    shared_model_enter(path, "loading it", what);
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    shared_model_leave();
    free(file);
    if (!handle) {
        const char *why = dlerror();
        return ls_fail(LS_E_USAGE, "%s: %s does not load: %s%s", where, path, why,
                       strstr(why, "undefined symbol: ls_config_") ? DECLARES : "");
    }
    union {
        void *symbol;
        const ls_model_module *(*call)(void);
    } module = { dlsym(handle, "lockstep_module") };
    if (!module.symbol)
        return ls_fail(LS_E_USAGE,
                       "%s: %s has no symbol lockstep_module: it is not a module (LS_MODULE_EXPORT of "
                       "lockstep/module.h exports it)",
                       where, path);
    shared_model_enter(path, "lockstep_module", what);
    const ls_model_module *m = module.call();
    shared_model_leave();
    if (m && m->abi != LS_MODULE_ABI)
        return ls_fail(
            LS_E_USAGE,
            "%s: %s was built for ABI %u of the library, this is ABI %d: build it with the headers of "
            "this command (lockstep %s)%s",
            where, path, m->abi, LS_MODULE_ABI, ls_version(), m->abi < 4 ? DECLARES : "");
    if (!m || m->size != sizeof *m)
        return ls_fail(
            LS_E_USAGE,
            "%s: %s describes itself with %u bytes, this version with %zu: build it with the headers "
            "of this command (lockstep %s)",
            where, path, m ? m->size : 0, sizeof *m, ls_version());
    if (m->library != (void (*)(void))ls_graph_create)
        return ls_fail(LS_E_USAGE,
                       "%s: %s has a copy of the library of its own, whose operations this command does not "
                       "know: link it without liblockstep",
                       where, path);
    if (!m->name || !*m->name || !m->version || !m->build)
        return ls_fail(LS_E_USAGE, "%s: %s: name, version and build must be set", where, path);
    *out = m;
    return LS_OK;
}

/* The rows of the module's keys. */
static ls_status declare(ls_shared_model *m, const char *where, ls_arena *a)
{
    const ls_model_module *t = m->table;
    LS_TRY(ls_module_map_make(&m->keys, "model.config", m->label, where, t->keys, t->settings, a));
    return ls_module_map_make(&m->data_keys, "data.config", m->label, where, t->data_keys, t->data_settings,
                              a);
}

/* Settings of the data. A record whose variables are not set is refused when its data is opened. */
ls_status ls_shared_model_read_data_keys(ls_shared_model *m, const ls_recipe *r)
{
    const ls_yaml *set = ls_recipe_setting(r->state, "data.config")->value;
    return m->data_config || (set && ls_yaml_unset(set))
               ? LS_OK
               : ls_module_map_read(&m->data_settings, &m->data_config, &m->data_keys, r);
}

static ls_status configure(ls_shared_model *m, const ls_recipe *r)
{
    char what[512];
    LS_TRY(ls_recipe_check_names(r, "model.config"));
    LS_TRY(declare(m, ls_recipe_where(r, "model.path"), &r->state->arena));
    LS_TRY(ls_module_map_read(&m->settings, &m->config, &m->keys, r));
    if (!strcmp(r->data.type, "module"))
        LS_TRY(ls_shared_model_read_data_keys(m, r));
    m->self = m->settings;
    m->opened = !m->table->open;
    if (m->table->open) {
        shared_model_enter(m->label, "open", what);
        const ls_status s = m->table->open(&m->self, m->settings);
        shared_model_leave();
        m->opened = s == LS_OK;
        if (s != LS_OK)
            return ls_fail_in(s, "%s: %s", ls_recipe_where(r, "model.path"), m->label);
    }
    return LS_OK;
}

ls_status ls_shared_model_open(const ls_recipe *r)
{
    if (r->state->module || strcmp(r->model.type, "module"))
        return LS_OK;
    const ls_model_module *table = NULL;
    char *bytes = NULL;
    size_t n = 0;
    LS_TRY(may_load(r));
    LS_TRY(shared_model_load(&table, ls_recipe_where(r, "model.path"), r->model.path));
    ls_shared_model *m = ls_sys_calloc(1, sizeof *m);
    LS_TRY(ls_sys_have(m));
    m->table = table;
    m->path = r->model.path;
    m->label = ls_arena_printf(&r->state->arena, "%s %s (%s)", table->name, table->version, m->path);
    ls_status s = ls_arena_status(&r->state->arena);
    if (s == LS_OK)
        s = ls_file_read(&bytes, &n, m->path);
    m->digest = s == LS_OK ? ls_hash64(bytes, n) : 0;
    free(bytes);
    if (s == LS_OK)
        s = configure(m, r);
    r->state->module = m;
    if (s != LS_OK)
        ls_shared_model_close(&r->state->module);
    return s;
}

ls_status ls_shared_model_keys(ls_shared_model *m, const char *path, ls_arena *a)
{
    *m = (ls_shared_model){ .path = path };
    LS_TRY(shared_model_load(&m->table, "--reference", path));
    m->label = ls_arena_printf(a, "%s %s (%s)", m->table->name, m->table->version, path);
    return declare(m, "--reference", a);
}

void ls_shared_model_close(ls_shared_model **mp)
{
    ls_shared_model *m = mp ? *mp : NULL;
    if (!m)
        return;
    if (m->table->close && m->opened) {
        char what[512];
        shared_model_enter(m->label, "close", what);
        m->table->close(m->self);
        shared_model_leave();
    }
    free(m->settings);
    free(m->data_settings);
    free(m->graph);
    ls_graph_destroy(&m->built);
    free(m);
    *mp = NULL;
}

/* ---- building */

ls_status ls_shared_model_build(ls_graph *g, const ls_recipe *r, const void *preset, int64_t batch)
{
    const ls_shared_model *m = r->state->module;
    char what[512];
    (void)preset;
    if (!m)
        return ls_fail(LS_E_USAGE, "%s: the module %s is not open", r->state->name, r->model.path);
    shared_model_enter(m->label, "build", what);
    ls_status s = m->table->build(g, m->self, batch);
    shared_model_leave();
    if (s == LS_OK)
        s = ls_graph_finish(g); /* the module may have forgotten to look */
    if (s == LS_OK && r->loss.n && g->n_declared)
        return ls_fail(LS_E_USAGE, "%s: %s declares losses of its own: leave this one out",
                       ls_recipe_where(r, "loss"), m->label);
    ls_recipe_losses_own own;
    const ls_loss_list losses = ls_recipe_losses(r, &own);
    if (s == LS_OK && losses.n && ls_task_declare(g, losses.n, losses.at, batch) != LS_OK)
        return ls_fail_in(LS_E_USAGE, "%s", ls_recipe_where(r, "loss"));
    return s == LS_OK ? LS_OK
                      : ls_fail_in(s == LS_E_MEMORY ? s : LS_E_USAGE, "%s: %s",
                                   ls_recipe_where(r, "model.path"), m->label);
}

static void declared_text(ls_str *out, const ls_graph *g)
{
    static const char *const WEIGH[] = { [LS_BY_SAMPLE] = "sample",
                                         [LS_BY_ELEMENT] = "element",
                                         [LS_BY_VALID] = "valid",
                                         [LS_BY_FIELD] = "field",
                                         [LS_OVER_FIELD] = "over field" };
    char number[32];
    for (int i = 0; i < g->n_declared; i++) {
        const ls_declared *d = &g->declared[i];
        ls_str_printf(out, "%s \"%s\" %%%d factor %s by %s %s%s how %d\n", d->loss ? "loss" : "metric",
                      d->name, d->rows.id, ls_format_f64(number, d->factor), WEIGH[d->weigh],
                      d->field ? d->field : "-", d->scalar ? " scalar" : "", (int)d->how);
    }
}

/* The graph as text, with what it declares; of the evaluation its parameters alone. malloc'ed. *kept: the
 * graph; NULL: it is destroyed. */
static ls_status shared_model_text_of(char **out, ls_graph **kept, const ls_recipe *r, bool training)
{
    ls_graph *g = NULL;
    ls_str text = { 0 };
    char type[128];
    LS_TRY(ls_graph_create(&g, "model"));
    if (!training)
        ls_graph_evaluate(g);
    ls_status s = ls_shared_model_build(g, r, NULL, r->train.micro_batch);
    if (s == LS_OK && !g->n_declared)
        s = ls_fail(LS_E_USAGE,
                    "%s: %s declares no loss: its build must call ls_loss, or the recipe name one, loss: "
                    "{type: mse, of: y}",
                    ls_recipe_where(r, "model.path"), ((const ls_shared_model *)r->state->module)->label);
    char *printed = s == LS_OK && training ? ls_graph_print(g, false) : NULL;
    for (int i = 0; i < g->n_nodes && s == LS_OK; i++)
        if (g->nodes[i]->op == &ls_op_param)
            ls_str_printf(&text, "parameter %s %s\n", ((const ls_source_attrs *)g->nodes[i]->attrs)->name,
                          ls_type_text(type, ls_type_of(g, g->nodes[i]->out[0])));
    if (s == LS_OK && training) {
        ls_str_add(&text, printed);
        declared_text(&text, g);
    }
    free(printed);
    if (kept)
        *kept = g;
    else
        ls_graph_destroy(&g);
    *out = s == LS_OK ? ls_str_take(&text) : NULL;
    ls_str_release(&text);
    return s == LS_OK ? ls_sys_have(*out) : s;
}

void ls_text_difference(const char *a, const char *b, char line_a[200], char line_b[200])
{
    while (*a && *b && strcspn(a, "\n") == strcspn(b, "\n") && !strncmp(a, b, strcspn(a, "\n"))) {
        a += strcspn(a, "\n") + 1;
        b += strcspn(b, "\n") + 1;
    }
    snprintf(line_a, 200, "%.*s", (int)strcspn(a, "\n"), a);
    snprintf(line_b, 200, "%.*s", (int)strcspn(b, "\n"), b);
}

ls_status ls_shared_model_identify(ls_recipe *r)
{
    ls_shared_model *m = r->state->module;
    char *again = NULL, *evaluation = NULL, a[200], b[200];
    if (!m)
        return LS_OK;
    free(m->graph);
    m->graph = NULL;
    ls_graph_destroy(&m->built);
    m->samples = r->train.micro_batch;
    LS_TRY(shared_model_text_of(&m->graph, &m->built, r, true));
    ls_status s = shared_model_text_of(&again, NULL, r, true);
    if (s == LS_OK)
        s = shared_model_text_of(&evaluation, NULL, r, false);
    if (s == LS_OK && strcmp(m->graph, again)) {
        ls_text_difference(m->graph, again, a, b);
        s = ls_fail(LS_E_USAGE, "%s: %s builds another model each time: first %s, then %s",
                    ls_recipe_where(r, "model.path"), m->label, a, b);
    }
    /* the text begins with the parameters */
    if (s == LS_OK && (strncmp(m->graph, evaluation, strlen(evaluation)) ||
                       !strncmp(m->graph + strlen(evaluation), "parameter ", 10))) {
        ls_text_difference(m->graph, evaluation, a, b);
        s = ls_fail(
            LS_E_USAGE,
            "%s: %s must have the same parameters in training and in evaluation: %s in training, %s in "
            "evaluation",
            ls_recipe_where(r, "model.path"), m->label, strncmp(a, "param", 5) ? "none" : a, *b ? b : "none");
    }
    free(again);
    free(evaluation);
    return s;
}
