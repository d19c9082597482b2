/* targets.c - the bytes of a rendered text that an assistant has to write, from the origins of all bytes. */
#include "base/sys.h"
#include "text/template.h"

ls_status ls_template_header(const ls_template *t, const json_t *variables, ls_str *out)
{
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "x");
    if (!messages)
        return ls_fail(LS_E_MEMORY, "no memory for a conversation");
    ls_rendered without, with;
    ls_conversation c = { .messages = messages, .variables = variables };
    ls_status s = ls_template_render(t, &c, &without);
    c.add_generation_prompt = true;
    if (s == LS_OK)
        s = ls_template_render(t, &c, &with);
    else
        with = (ls_rendered){ 0 };
    if (s == LS_OK) {
        size_t same = 0;
        while (same < without.text.len && same < with.text.len &&
               without.text.data[same] == with.text.data[same])
            same++;
        /* a thought that the prompt begins, or leaves out, is the assistant's: templates write it in turns,
         * too */
        const char *text = ls_str_text(&with.text);
        const char *thought = memmem(text + same, with.text.len - same, "<think", 6);
        ls_str_add_n(out, text + same, (thought ? (size_t)(thought - text) : with.text.len) - same);
        s = ls_str_status(out);
    }
    ls_rendered_release(&without);
    ls_rendered_release(&with);
    json_decref(messages);
    return s == LS_E_MEMORY ? s : LS_OK;
}

static bool is_assistant(const json_t *messages, int32_t i)
{
    const char *role = i < 0
                           ? NULL
                           : json_string_value(json_object_get(json_array_get(messages, (size_t)i), "role"));
    return role && (strcmp(role, "assistant") == 0 || strcmp(role, "model") == 0);
}

static void mark(int32_t *target, size_t from, size_t to, int32_t message)
{
    for (size_t i = from; i < to; i++)
        target[i] = message;
}

/* The assistant's message that follows message `i`; if there is none, i. */
static int32_t next_assistant(const json_t *messages, int32_t i)
{
    for (int32_t k = i + 1; k < (int32_t)json_array_size(messages); k++)
        if (is_assistant(messages, k))
            return k;
    return i;
}

/* What the template's own blocks mark. A block belongs to the first message of which it has bytes. One
 * without any (an end token) belongs to the message of the block before it, or, if others have spoken since
 * then, to the next one. */
static void by_generation(const ls_rendered *r, const json_t *messages, int32_t *target)
{
    int32_t last = -1;
    bool others = true;
    for (size_t i = 0; i < r->n; i++) {
        if (!r->spans[i].generation) {
            others |= r->spans[i].message >= 0 && !is_assistant(messages, r->spans[i].message);
            continue;
        }
        const size_t from = i ? r->spans[i - 1].end : 0;
        int32_t message = -1;
        size_t end = i;
        for (; end < r->n && r->spans[end].generation; end++)
            if (message < 0 && is_assistant(messages, r->spans[end].message))
                message = r->spans[end].message;
        last = message >= 0 ? message : others ? next_assistant(messages, last) : last;
        mark(target, from, r->spans[end - 1].end, last);
        others = false;
        i = end - 1;
    }
}

/* Where an assistant's turn begins, whose first byte from the conversation is at `content`; the message
 * before ends at `from`. Behind the header between them, or behind the longest begin of one that is at least
 * its half: a header may end with the begin of a thought, which only some turns have. */
static size_t turn_begin(const char *text, size_t from, size_t content, const char *header)
{
    const size_t n = strlen(header);
    size_t longest = 1, begin = content;
    for (size_t at = from; at < content; at++) {
        size_t same = 0;
        while (same < n && at + same < content && text[at + same] == header[same])
            same++;
        if (same >= longest && 2 * same >= n) {
            longest = same;
            begin = at + same;
        }
    }
    return begin;
}

/* The special token with which a header begins; 0: it begins with none. */
static size_t opener_bytes(const char *header, const char *const *specials, size_t n_specials)
{
    size_t longest = 0;
    for (size_t i = 0; i < n_specials; i++) {
        const size_t n = strlen(specials[i]);
        if (n > longest && strncmp(header, specials[i], n) == 0)
            longest = n;
    }
    return longest;
}

/* Whether text[from, to) begins a turn that is not the assistant's: the token with which headers begin, and
 * then something else. (Templates write a function's name, which is from the assistant's call, in a tool's
 * answer.) */
static bool begins_other(const char *text, size_t from, size_t to, const char *header, size_t opener)
{
    for (size_t at = to; opener && at >= from + opener; at--)
        if (memcmp(text + at - opener, header, opener) == 0)
            return header[opener] && (at == to || text[at] != header[opener]);
    return false;
}

/* Where a turn ends whose last byte from the conversation is before `content`: after the end token before
 * `to`. */
static size_t turn_end(const char *text, size_t content, size_t to, const char *eos,
                       const char *const *specials, size_t n_specials)
{
    const char *found = eos && *eos ? memmem(text + content, to - content, eos, strlen(eos)) : NULL;
    if (found)
        return (size_t)(found - text) + strlen(eos);
    size_t end = content, first = SIZE_MAX;
    for (size_t i = 0; i < n_specials; i++) {
        const size_t n = strlen(specials[i]);
        const char *there = n ? memmem(text + content, to - content, specials[i], n) : NULL;
        if (!there)
            continue;
        const size_t at = (size_t)(there - text);
        if (at < first || (at == first && at + n > end)) { /* the first one, and of those there the longest */
            first = at;
            end = at + n;
        }
    }
    return end;
}

ls_status ls_rendered_targets(const ls_rendered *r, const ls_template *t, const json_t *messages,
                              const char *header, const char *eos, const char *const *specials,
                              size_t n_specials, int32_t *target)
{
    mark(target, 0, r->text.len, -1);
    if (ls_template_has_generation(t)) {
        by_generation(r, messages, target);
        return LS_OK;
    }
    const char *text = ls_str_text(&r->text);
    const size_t opener = opener_bytes(header, specials, n_specials);
    size_t before = 0; /* the end of the last byte of another message */
    for (size_t i = 0; i < r->n; i++) {
        const ls_span *s = &r->spans[i];
        const size_t from = i ? r->spans[i - 1].end : 0;
        if (s->message < 0)
            continue;
        const bool assistant = is_assistant(messages, s->message);
        if (!assistant)
            before = s->end;
        if (!assistant || s->from == LS_FROM_ROLE || begins_other(text, before, from, header, opener))
            continue;
        size_t last = s->end; /* of this message's bytes in the turn */
        size_t next = i + 1;  /* the first span of another turn */
        for (; next < r->n; next++) {
            const ls_span *n = &r->spans[next];
            const size_t begin = r->spans[next - 1].end;
            if (n->message < 0)
                continue;
            if (n->message != s->message || n->from == LS_FROM_ROLE ||
                begins_other(text, last, begin, header, opener))
                break;
            last = n->end;
        }
        const size_t to = next < r->n ? r->spans[next - 1].end : r->text.len;
        mark(target, turn_begin(text, before, from, header),
             turn_end(text, last, to, eos, specials, n_specials), s->message);
        before = last;
        i = next - 1;
    }
    return LS_OK;
}
