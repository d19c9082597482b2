/* template.h - chat templates: the Jinja that published models' chat_template uses, with transformers'
 * settings (trim_blocks, lstrip_blocks, loop controls, its own tojson, raise_exception, strftime_now, {%
 * generation %}). A template is compiled once. What it does not know is refused then, by name and line. Every
 * byte of a rendered text knows where it came from, so the caller can tell what an assistant wrote from what
 * a user wrote and from the template's own text, which alone may hold special tokens. */
#pragma once
#include "base/json.h"

/* Bounds. One that is passed is LS_E_UNSUPPORTED with the template's line. */
enum {
    LS_TEMPLATE_BYTES = 1 << 20, /* of a template */
    LS_TEMPLATE_DEPTH = 100,     /* of nested blocks and expressions, of calls of macros, of values */
    LS_TEMPLATE_STEPS =
        10000000, /* of a rendering: statements, operations, and one for every 64 bytes of text */
    LS_TEMPLATE_OUTPUT = 64 << 20,  /* bytes of a rendered text */
    LS_TEMPLATE_MEMORY = 512 << 20, /* bytes for everything that a rendering computes */
};

/* Constant after open: any number of threads may render it at once. */
typedef struct ls_template ls_template;

/* Compiles `n` bytes of UTF-8. `name` stands in messages (a path). LS_E_FORMAT: a mistake in the template;
 * LS_E_UNSUPPORTED: a construct, filter, test or function that is not known here; LS_E_MEMORY. */
ls_status ls_template_open(ls_template **out, const char *text, size_t n, const char *name);
void ls_template_close(ls_template **t);
bool ls_template_has_generation(const ls_template *t); /* it has {% generation %} blocks */

/* What a template is rendered for. All JSON values belong to the caller and are only read. */
typedef struct ls_conversation {
    /* [{"role": "user", "content": "..."}, ...]. As in transformers, a key with null is left out, and
     * "reasoning_content", "thinking" and "reasoning" stand for one another. */
    const json_t *messages;
    const json_t *tools, *documents; /* NULL: none */
    /* NULL, or an object of further variables: bos_token, eos_token and other special tokens,
     * enable_thinking, ... Their text counts as text of the template. */
    const json_t *variables;
    bool add_generation_prompt;
    int64_t clock; /* seconds since 1970: what strftime_now shows, in UTC */
} ls_conversation;

typedef enum ls_from {
    LS_FROM_TEMPLATE, /* the template's own text, `variables`, the clock */
    LS_FROM_TOOLS,    /* tools and documents */
    LS_FROM_ROLE,     /* "role" of a message */
    LS_FROM_CONTENT,  /* "content" of a message, also from a list of parts */
    LS_FROM_OTHER,    /* anything else of a message: tool_calls, reasoning_content, name, keys */
} ls_from;

/* Bytes of one origin: from the end of the previous span (at first 0) to `end`. */
typedef struct ls_span {
    size_t end;
    int32_t message; /* of ROLE, CONTENT, OTHER: index in `messages`; else -1 */
    uint8_t from;    /* ls_from */
    bool generation; /* inside {% generation %} */
} ls_span;

typedef struct ls_rendered {
    ls_str text; /* may hold NUL bytes: use text.len */
    ls_span *spans;
    size_t n;
} ls_rendered;

/* *out need not be initialized; after a failure it is empty. A template that raises an exception is
 * LS_E_FORMAT, with its own words: "NAME:LINE: Conversation roles must alternate ...". */
ls_status ls_template_render(const ls_template *t, const ls_conversation *c, ls_rendered *out);
void ls_rendered_release(ls_rendered *r);

/* ---- what an assistant has to write (template_targets.c) */

/* The text with which the template begins an assistant's turn: what add_generation_prompt adds to a
 * conversation of one short message. Empty if it adds nothing or the template refuses such a conversation. */
ls_status ls_template_header(const ls_template *t, const json_t *variables, ls_str *out);

/* target[i], for each byte i of r->text: the index of the assistant's message whose turn the byte belongs to,
 * or -1. A turn begins behind `header` and ends with `eos`, or, where that does not stand between this
 * message and the next one, with the first of `specials` there; if none does, with the message's last byte.
 * So the template's text around a tool call and before the content (<think>) belongs to the turn, and the
 * header does not. A template with {% generation %} blocks says itself what belongs to a turn. */
ls_status ls_rendered_targets(const ls_rendered *r, const ls_template *t, const json_t *messages,
                              const char *header, const char *eos, const char *const *specials,
                              size_t n_specials, int32_t *target);
