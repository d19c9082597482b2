/* module_record.c - see module_record.h. A graph is the identity of a model: a module that was compiled
 * again, or has another name, may go on with a run if it builds the same. */
#include "module_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "recipe/shared_model.h"

static void write_digest(ls_json *j, const char *key, uint64_t digest)
{
    char text[17]; /* JSON has no whole numbers of 64 bits */
    snprintf(text, sizeof text, "%016" PRIx64, digest);
    ls_json_text(j, key, text);
}

void ls_module_record(ls_json *j, const ls_recipe *r)
{
    const ls_shared_model *m = ls_recipe_shared_model(r);
    if (!m || !m->graph)
        return;
    ls_json_object(j, "module");
    ls_json_text(j, "name", m->table->name);
    ls_json_text(j, "version", m->table->version);
    ls_json_text(j, "path", m->path);
    write_digest(j, "digest", m->digest);
    write_digest(j, "graph", ls_hash64(m->graph, strlen(m->graph)));
    ls_json_text(j, "text", m->graph);
    ls_json_close_object(j);
}

void ls_module_difference(ls_str *out, const json_t *trainer, const ls_recipe *r)
{
    const ls_shared_model *m = ls_recipe_shared_model(r);
    const json_t *was = json_object_get(trainer, "module");
    const char *text = json_string_value(json_object_get(was, "text")),
               *digest = json_string_value(json_object_get(was, "digest"));
    char here[200], there[200];
    /* a change of model.type or of the micro-batch is reported elsewhere */
    if (!m || !m->graph || !text ||
        json_integer_value(json_object_get(trainer, "micro_batch")) != r->train.micro_batch)
        return;
    if (strcmp(text, m->graph)) {
        ls_text_difference(m->graph, text, here, there);
        ls_str_printf(out, "%sthe model that %s builds: \"%s\" here, \"%s\" there (what the weights mean)",
                      out->len ? "; " : "", m->label, *here ? here : "(nothing more)",
                      *there ? there : "(nothing more)");
    } else if (digest && strtoull(digest, NULL, 16) != m->digest) {
        ls_log_info("%s is not the file that the run began with; its graph is the same", m->path);
    }
}
