/* template.c - opens templates, and renders a conversation: its JSON becomes values that know their origins.
 */
#include <stdlib.h>

#include "base/sys.h"
#include "execute.h"
#include "lockstep/tokenizer.h"

ls_status ls_template_open(ls_template **out, const char *text, size_t n, const char *name)
{
    *out = NULL;
    if (n > LS_TEMPLATE_BYTES)
        return ls_fail(LS_E_UNSUPPORTED, "%s: a chat template of %zu bytes; at most %d are supported", name,
                       n, LS_TEMPLATE_BYTES);
    const size_t sound = ls_utf8_sound(text, n);
    if (sound < n)
        return ls_fail(LS_E_FORMAT, "%s: byte %zu of the chat template is not UTF-8", name, sound);
    ls_template *t = ls_sys_calloc(1, sizeof *t);
    LS_TRY(ls_sys_have(t));
    ls_arena_init(&t->arena);
    t->name = ls_arena_strdup(&t->arena, name);
    ls_status s = ls_jparse(t, text, n);
    if (s != LS_OK)
        ls_template_close(&t);
    *out = t;
    return s;
}

void ls_template_close(ls_template **t)
{
    if (!*t)
        return;
    ls_arena_release(&(*t)->arena);
    free(*t);
    *t = NULL;
}

bool ls_template_has_generation(const ls_template *t) { return t->generation; }

static void put(ls_jrender *r, ls_jvalue dict, const char *name, ls_jvalue v)
{
    ls_jdict_put(r, dict, ls_jtext_value(ls_jtext_of(r, name, strlen(name), 0)), v);
}

/* As transformers prepares a message: keys with null are left out, and what the model thought has each of its
 * names. */
static ls_jvalue message(ls_jrender *r, const json_t *json, int64_t i)
{
    static const char *const THOUGHTS[] = { "reasoning_content", "thinking", "reasoning" };
    const ls_jorigin other = LS_JORIGIN(LS_FROM_OTHER, i);
    ls_jvalue m = ls_jdict_new(r, LS_JDICT);
    m.origin = other;
    const json_t *thought = NULL;
    for (size_t k = 0; k < sizeof THOUGHTS / sizeof *THOUGHTS && (!thought || json_is_null(thought)); k++)
        thought = json_object_get(json, THOUGHTS[k]);
    if (thought && !json_is_null(thought))
        put(r, m, "thinking", ls_jfrom_json(r, thought, other, 0, false));
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)json, key, item)
    {
        const ls_from from = strcmp(key, "role") == 0      ? LS_FROM_ROLE
                             : strcmp(key, "content") == 0 ? LS_FROM_CONTENT
                                                           : LS_FROM_OTHER;
        if (!json_is_null(item) && !ls_jfailed(r))
            ls_jdict_put(r, m, ls_jtext_value(ls_jtext_of(r, key, strlen(key), other)),
                         ls_jfrom_json(r, item, LS_JORIGIN(from, i), 0, false));
    }
    if (thought && !json_is_null(thought))
        put(r, m, "reasoning_content", ls_jfrom_json(r, thought, other, 0, false));
    return m;
}

static void variables(ls_jrender *r, const ls_conversation *c)
{
    r->variables = ls_jdict_new(r, LS_JDICT);
    ls_jvalue messages = ls_jlist_new(r, LS_JLIST, (int64_t)json_array_size(c->messages));
    for (size_t i = 0; i < json_array_size(c->messages) && !ls_jfailed(r); i++) {
        const json_t *m = json_array_get(c->messages, i);
        if (!json_is_object(m))
            r->status = ls_fail(LS_E_FORMAT,
                                "message %zu of the conversation is not an object with \"role\" and "
                                "\"content\"",
                                i);
        else
            ls_jlist_add(r, messages, message(r, m, (int64_t)i));
    }
    const ls_jorigin tools = LS_JORIGIN(LS_FROM_TOOLS, -1);
    put(r, r->variables, "messages", messages);
    put(r, r->variables, "tools", c->tools ? ls_jfrom_json(r, c->tools, tools, 0, false) : ls_jnone());
    put(r, r->variables, "documents",
        c->documents ? ls_jfrom_json(r, c->documents, tools, 0, false) : ls_jnone());
    put(r, r->variables, "add_generation_prompt", ls_jbool(c->add_generation_prompt));
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)c->variables, key, item) if (!ls_jfailed(r))
        put(r, r->variables, key, ls_jfrom_json(r, item, 0, 0, false));
}

static ls_status take(ls_rendered *out, const ls_jbuilder *b)
{
    ls_str_add_n(&out->text, b->bytes ? b->bytes : "", b->n);
    LS_TRY(ls_str_status(&out->text));
    out->spans = ls_sys_malloc((b->n_pieces ? b->n_pieces : 1) * sizeof *out->spans);
    LS_TRY(ls_sys_have(out->spans));
    out->n = b->n_pieces;
    for (size_t i = 0; i < b->n_pieces; i++) {
        const ls_jorigin o = b->pieces[i].origin;
        const ls_jorigin place = o & ~LS_JORIGIN_GENERATION;
        out->spans[i] = (ls_span){ .end = b->pieces[i].end,
                                   .message = (int32_t)(place >> 3) - 1,
                                   .from = (uint8_t)(place & 7),
                                   .generation = o != place };
    }
    return LS_OK;
}

ls_status ls_template_render(const ls_template *t, const ls_conversation *c, ls_rendered *out)
{
    *out = (ls_rendered){ 0 };
    if (!json_is_array(c->messages))
        return ls_fail(LS_E_FORMAT, "the messages of a conversation have to be a list");
    ls_jbuilder b = { 0 };
    ls_jrender r = { .name = t->name, .line = 1, .clock = c->clock, .out = &b };
    ls_arena_init(&r.arena);
    variables(&r, c);
    if (!ls_jfailed(&r))
        ls_jexecute(&r, t);
    if (!ls_jfailed(&r))
        r.status = ls_arena_status(&r.arena);
    if (!ls_jfailed(&r))
        r.status = take(out, &b);
    ls_arena_release(&r.arena);
    if (r.status != LS_OK)
        ls_rendered_release(out);
    return r.status;
}

void ls_rendered_release(ls_rendered *r)
{
    ls_str_release(&r->text);
    free(r->spans);
    *r = (ls_rendered){ 0 };
}
