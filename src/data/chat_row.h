/* chat_row.h - a line of a file of conversations: a JSON object with one of
 *     messages        [{"role": "user", "content": "..."}, ...]; and tools
 *     conversations   the same, or [{"from": "human", "value": "..."}, ...]; and system
 *     prompt and completion: both lists of messages, or both texts, which no template changes
 * and, for the template, chat_template_kwargs. As TRL has them; docs/text.md. */
#pragma once
#include "base/json.h"

typedef struct ls_chat_row {
    /* A new list of new objects, each with a role, and a content that is a text or absent. NULL: two texts.
     */
    json_t *messages;
    size_t first;                      /* messages before this one are a prompt */
    const json_t *tools, *variables;   /* of the line; NULL: none */
    json_t *own_tools;                 /* tools that the line has as a text of JSON */
    const json_t *prompt, *completion; /* two texts, of the line */
} ls_chat_row;

/* LS_E_FORMAT: what is wrong with the line. The line must outlive *out, which is empty after a failure. */
ls_status ls_chat_row_read(ls_chat_row *out, const json_t *line);
void ls_chat_row_release(ls_chat_row *r); /* may be called twice */
