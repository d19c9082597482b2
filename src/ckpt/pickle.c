/* pickle.c - runs pickles: a machine with a stack of values and a memo. An opcode pushes values, or joins
 * those on top of the stack. All bytes come from outside, so every length, index and kind is checked, and
 * memory is limited to some hundred bytes for each byte of the pickle. */
#include "ckpt/pickle.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct machine {
    const ls_pickle_source *source;
    ls_arena *arena;
    const uint8_t *p, *end;
    size_t at;                         /* of the opcode being executed */
    ls_pickle stack, memo, persistent; /* lists; an unused index of the memo is NULL */
    size_t values;                     /* made or taken from the memo so far */
    ls_pickle lost;                    /* a value for which there is no memory */
} machine;

static ls_status pickle_refuse(const machine *m, ls_status code, const char *what)
{
    char unknown[16];
    int opcode = m->source->bytes[m->at];
    const char *name = ls_pickle_opcode(opcode);
    snprintf(unknown, sizeof unknown, "0x%02x", opcode);
    return ls_fail(code, "%s: byte %" PRIu64 ": pickle opcode %s: %s", m->source->path,
                   m->source->offset + m->at, name ? name : unknown, what);
}

static ls_status pickle_damaged(const machine *m, const char *what)
{
    char text[160];
    snprintf(text, sizeof text, "%s; the file is damaged: copy it again or save it again", what);
    return pickle_refuse(m, LS_E_FORMAT, text);
}

static void pickle_append(machine *m, ls_pickle *list, ls_pickle *item)
{
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 4;
        ls_pickle **items = LS_ARENA_ARRAY(m->arena, ls_pickle *, room);
        if (!items)
            return; /* the arena remembers, and ls_pickle_read ends */
        if (list->n)
            memcpy(items, list->items, sizeof *items * list->n);
        list->items = items;
        list->room = room;
    }
    list->items[list->n++] = item;
}

static ls_pickle *push(machine *m, ls_pickle_kind kind)
{
    ls_pickle *v = LS_ARENA_NEW(m->arena, ls_pickle);
    v = v ? v : &m->lost;
    v->kind = kind;
    m->values++;
    pickle_append(m, &m->stack, v);
    return v;
}

static void push_int(machine *m, int64_t number) { push(m, LS_PICKLE_INT)->number = number; }

/* Reads n bytes of the pickle. */
static ls_status pickle_take(machine *m, size_t n, const uint8_t **out)
{
    *out = m->p;
    if ((size_t)(m->end - m->p) < n)
        return pickle_damaged(m, "it needs more bytes than there are");
    m->p += n;
    return LS_OK;
}

static ls_status take_number(machine *m, int bytes, uint64_t *out)
{
    const uint8_t *p;
    LS_TRY(pickle_take(m, (size_t)bytes, &p));
    *out = 0;
    for (int i = bytes - 1; i >= 0; i--)
        *out = *out << 8 | p[i];
    return LS_OK;
}

/* Pops n values. There must be so many above the last mark. */
static ls_status pop(machine *m, size_t n, ls_pickle ***out)
{
    if (m->stack.n < n)
        return pickle_damaged(m, "it finds too few values");
    *out = m->stack.items + m->stack.n - n;
    for (size_t i = 0; i < n; i++)
        if ((*out)[i]->kind == LS_PICKLE_MARK)
            return pickle_damaged(m, "it finds too few values");
    m->stack.n -= n;
    return LS_OK;
}

/* Pops everything above the last mark, and the mark. */
static ls_status pop_to_mark(machine *m, ls_pickle ***out, size_t *n)
{
    size_t at = m->stack.n;
    while (at > 0 && m->stack.items[at - 1]->kind != LS_PICKLE_MARK)
        at--;
    if (at == 0)
        return pickle_damaged(m, "there is no mark");
    *out = m->stack.items + at;
    *n = m->stack.n - at;
    m->stack.n = at - 1;
    return LS_OK;
}

/* Replaces values on the stack by a new value that contains them. They are copied first, because the new
 * value takes their place. */
static void push_with(machine *m, ls_pickle_kind kind, ls_pickle **items, size_t n)
{
    ls_pickle **copy = LS_ARENA_ARRAY(m->arena, ls_pickle *, n);
    if (n && copy)
        memcpy(copy, items, sizeof *copy * n);
    ls_pickle *v = push(m, kind);
    v->items = copy;
    v->n = v->room = copy ? n : 0;
}

/* The value on top of the stack, which must be of this kind. */
static ls_status top(machine *m, ls_pickle_kind kind, const char *word, ls_pickle **out)
{
    char what[64];
    *out = m->stack.n ? m->stack.items[m->stack.n - 1] : NULL;
    if (*out && (*out)->kind == kind)
        return LS_OK;
    snprintf(what, sizeof what, "it is not applied to a %s", word);
    return pickle_damaged(m, what);
}

static ls_status add_items(machine *m, ls_pickle_kind kind, const char *word, ls_pickle **items, size_t n)
{
    ls_pickle *to;
    LS_TRY(top(m, kind, word, &to));
    if (kind == LS_PICKLE_DICT && n % 2)
        return pickle_damaged(m, "a key has no value");
    for (size_t i = 0; i < n; i++)
        pickle_append(m, to, items[i]);
    return LS_OK;
}

static ls_status put_memo(machine *m, uint64_t index)
{
    if (m->stack.n == 0 || m->stack.items[m->stack.n - 1]->kind == LS_PICKLE_MARK)
        return pickle_damaged(m, "there is nothing to remember");
    if (index > m->at) /* (writers count up from 0) */
        return pickle_damaged(m, "its index cannot be right");
    while (m->memo.n <= index)
        pickle_append(m, &m->memo, NULL);
    m->memo.items[index] = m->stack.items[m->stack.n - 1];
    return LS_OK;
}

static ls_status get_memo(machine *m, uint64_t index)
{
    if (index >= m->memo.n || !m->memo.items[index])
        return pickle_damaged(m, "nothing was remembered under this index");
    pickle_append(m, &m->stack, m->memo.items[index]);
    m->values++;
    return LS_OK;
}

static ls_status push_text(machine *m, uint64_t length)
{
    const uint8_t *p;
    LS_TRY(pickle_take(m, length, &p));
    ls_pickle *v = push(m, LS_PICKLE_TEXT);
    v->text = (const char *)p;
    v->length = length;
    return LS_OK;
}

static ls_status push_float(machine *m)
{
    const uint8_t *p;
    uint64_t x = 0;
    LS_TRY(pickle_take(m, 8, &p));
    for (int i = 0; i < 8; i++) /* big-endian */
        x = x << 8 | p[i];
    memcpy(&push(m, LS_PICKLE_FLOAT)->real, &x, 8);
    return LS_OK;
}

static ls_status push_long(machine *m, uint64_t length)
{
    const uint8_t *p;
    LS_TRY(pickle_take(m, length, &p));
    if (length > 8) {
        push(m, LS_PICKLE_OTHER);
        return LS_OK;
    }
    uint64_t x = length && p[length - 1] & 0x80 ? UINT64_MAX : 0; /* two's complement */
    for (uint64_t i = length; i-- > 0;)
        x = x << 8 | p[i];
    push_int(m, (int64_t)x);
    return LS_OK;
}

static ls_status push_global(machine *m, const char *module, size_t module_length, const char *name,
                             size_t name_length)
{
    char what[500];
    if (memchr(module, 0, module_length) || memchr(name, 0, name_length))
        return pickle_damaged(m, "its name holds a NUL");
    char *text = ls_arena_printf(m->arena, "%.*s %.*s", (int)module_length, module, (int)name_length, name);
    LS_TRY(ls_arena_status(m->arena));
    if (strcmp(text, "collections OrderedDict") != 0 && !m->source->known(text)) {
        const char *advice = m->source->advice_for ? m->source->advice_for(text) : NULL;
        for (char *c = text; *c; c++)
            if ((unsigned char)*c < 32 || *c == 127)
                *c = '?';
        snprintf(
            what, sizeof what,
            "%.200s is not among the names that %s is made of, and nothing in a file is ever executed: %s",
            text, m->source->what, advice ? advice : m->source->advice);
        return pickle_refuse(m, LS_E_UNSUPPORTED, what);
    }
    ls_pickle *v = push(m, LS_PICKLE_GLOBAL);
    v->text = text;
    v->length = strlen(text);
    return LS_OK;
}

/* A global: a line with the module, a line with the name. */
static ls_status read_global(machine *m)
{
    const char *line[2];
    size_t length[2];
    for (int i = 0; i < 2; i++) {
        const uint8_t *newline = memchr(m->p, '\n', (size_t)(m->end - m->p));
        if (!newline || newline - m->p > 1000)
            return pickle_damaged(m, "its name does not end");
        line[i] = (const char *)m->p;
        length[i] = (size_t)(newline - m->p);
        m->p = newline + 1;
    }
    return push_global(m, line[0], length[0], line[1], length[1]);
}

static ls_status stack_global(machine *m)
{
    ls_pickle **v;
    LS_TRY(pop(m, 2, &v));
    if (v[0]->kind != LS_PICKLE_TEXT || v[1]->kind != LS_PICKLE_TEXT || v[0]->length > 1000 ||
        v[1]->length > 1000)
        return pickle_damaged(m, "its name is not two texts");
    return push_global(m, v[0]->text, v[0]->length, v[1]->text, v[1]->length);
}

static ls_status pickle_reduce(machine *m)
{
    ls_pickle **v;
    LS_TRY(pop(m, 2, &v));
    if (v[0]->kind != LS_PICKLE_GLOBAL || v[1]->kind != LS_PICKLE_TUPLE)
        return pickle_damaged(m, "it is not applied to a name and a tuple");
    if (strcmp(v[0]->text, "collections OrderedDict") != 0)
        push_with(m, LS_PICKLE_CALL, v, 2);
    else if (v[1]->n > 0)
        return pickle_refuse(
            m, LS_E_UNSUPPORTED,
            "an OrderedDict with arguments, as Python 2 wrote it: save it again with a newer PyTorch");
    else
        push(m, LS_PICKLE_DICT);
    return LS_OK;
}

/* Attributes. An OrderedDict from state_dict() has _metadata, which is not needed. An object, and what a call
 * makes, has its state. */
static ls_status pickle_build(machine *m)
{
    ls_pickle **v, *of;
    LS_TRY(pop(m, 1, &v));
    ls_pickle *attributes = v[0];
    of = m->stack.n ? m->stack.items[m->stack.n - 1] : NULL;
    if (!of || (of->kind != LS_PICKLE_OBJECT && of->kind != LS_PICKLE_CALL))
        return top(m, LS_PICKLE_DICT, "dict", &of);
    if (of->n != 2)
        return pickle_damaged(m, "an object gets its state twice");
    pickle_append(m, of, attributes);
    return LS_OK;
}

/* Bytes, of which nothing is needed. */
static ls_status push_bytes(machine *m, uint64_t length)
{
    const uint8_t *p;
    LS_TRY(pickle_take(m, length, &p));
    push(m, LS_PICKLE_OTHER);
    return LS_OK;
}

/* A set is the call that protocol 2 makes it of: builtins.set(items). */
static ls_status push_set(machine *m, ls_pickle **items, size_t n)
{
    ls_pickle **call = NULL; /* gcc does not see that pop sets it */
    LS_TRY(push_global(m, "builtins", 8, "set", 3));
    push_with(m, LS_PICKLE_TUPLE, items, n);
    LS_TRY(pop(m, 2, &call));
    push_with(m, LS_PICKLE_CALL, call, 2);
    return LS_OK;
}

static ls_status add_to_set(machine *m)
{
    ls_pickle **items, *set;
    size_t n;
    LS_TRY(pop_to_mark(m, &items, &n));
    LS_TRY(top(m, LS_PICKLE_CALL, "set", &set));
    if (strcmp(set->items[0]->text, "builtins set") != 0)
        return pickle_damaged(m, "it is not applied to a set");
    for (size_t i = 0; i < n; i++)
        pickle_append(m, set->items[1], items[i]);
    return LS_OK;
}

static ls_status refuse_opcode(machine *m)
{
    char what[300];
    snprintf(what, sizeof what, "%s does not need it, and nothing in a file is ever executed: %s",
             m->source->what, m->source->advice);
    return pickle_refuse(m, LS_E_UNSUPPORTED, what);
}

static ls_status new_object(machine *m)
{
    ls_pickle **v;
    if (!m->source->objects)
        return refuse_opcode(m);
    LS_TRY(pop(m, 2, &v));
    if (v[0]->kind != LS_PICKLE_GLOBAL || v[1]->kind != LS_PICKLE_TUPLE)
        return pickle_damaged(m, "it is not applied to a name and a tuple");
    push_with(m, LS_PICKLE_OBJECT, v, 2);
    return LS_OK;
}

/* Executes one opcode, other than STOP. */
static ls_status step(machine *m, int opcode)
{
    ls_pickle **v;
    const uint8_t *skipped;
    uint64_t x = 0;
    size_t n = 0;
    switch (opcode) {
    case 0x80: /* PROTO */
        LS_TRY(take_number(m, 1, &x));
        return x >= 2 && x <= 5 ? LS_OK
                                : pickle_refuse(m, LS_E_UNSUPPORTED,
                                                "protocols 2 to 5 are known: save it with a newer PyTorch");
    case 0x95: /* FRAME */ return pickle_take(m, 8, &skipped);
    case '(': push(m, LS_PICKLE_MARK); return LS_OK;
    case 'N': push(m, LS_PICKLE_NONE); return LS_OK;
    case 0x88: /* NEWTRUE, NEWFALSE */
    case 0x89: push(m, LS_PICKLE_BOOL)->number = opcode == 0x88; return LS_OK;
    case 'J':
        LS_TRY(take_number(m, 4, &x));
        push_int(m, (int32_t)(uint32_t)x);
        return LS_OK;
    case 'K':
    case 'M':
        LS_TRY(take_number(m, opcode == 'K' ? 1 : 2, &x));
        push_int(m, (int64_t)x);
        return LS_OK;
    case 0x8a: /* LONG1, LONG4 */
    case 0x8b: LS_TRY(take_number(m, opcode == 0x8a ? 1 : 4, &x)); return push_long(m, x);
    case 'C': /* SHORT_BINBYTES, BINBYTES, BINBYTES8, BYTEARRAY8 */
    case 'B':
    case 0x8e:
    case 0x96: LS_TRY(take_number(m, opcode == 'C' ? 1 : opcode == 'B' ? 4 : 8, &x)); return push_bytes(m, x);
    case 0x8f: /* EMPTY_SET */ return push_set(m, NULL, 0);
    case 0x90: /* ADDITEMS */ return add_to_set(m);
    case 0x91: /* FROZENSET */ LS_TRY(pop_to_mark(m, &v, &n)); return push_set(m, v, n);
    case 'G': return push_float(m);
    case 'X':
    case 'T': /* BINSTRING, SHORT_BINSTRING: Python 2's texts */
        LS_TRY(take_number(m, 4, &x));
        return push_text(m, x);
    case 0x8d: /* BINUNICODE8 */ LS_TRY(take_number(m, 8, &x)); return push_text(m, x);
    case 0x8c: /* SHORT_BINUNICODE */
    case 'U': LS_TRY(take_number(m, 1, &x)); return push_text(m, x);
    case 'c': return read_global(m);
    case 0x93: /* STACK_GLOBAL */ return stack_global(m);
    case 'R': return pickle_reduce(m);
    case 'Q':
        LS_TRY(pop(m, 1, &v));
        push_with(m, LS_PICKLE_PERSISTENT, v, 1);
        pickle_append(m, &m->persistent, m->stack.items[m->stack.n - 1]);
        return LS_OK;
    case 0x81: return new_object(m);
    case 'b': return pickle_build(m);
    case ')':
    case ']':
    case '}':
        push(m, opcode == ')' ? LS_PICKLE_TUPLE : opcode == ']' ? LS_PICKLE_LIST : LS_PICKLE_DICT);
        return LS_OK;
    case 0x85: /* TUPLE1, TUPLE2, TUPLE3 */
    case 0x86:
    case 0x87:
        n = (size_t)opcode - 0x84;
        LS_TRY(pop(m, n, &v));
        push_with(m, LS_PICKLE_TUPLE, v, n);
        return LS_OK;
    case 't':
        LS_TRY(pop_to_mark(m, &v, &n));
        push_with(m, LS_PICKLE_TUPLE, v, n);
        return LS_OK;
    case 'a': LS_TRY(pop(m, 1, &v)); return add_items(m, LS_PICKLE_LIST, "list", v, 1);
    case 'e': LS_TRY(pop_to_mark(m, &v, &n)); return add_items(m, LS_PICKLE_LIST, "list", v, n);
    case 's': LS_TRY(pop(m, 2, &v)); return add_items(m, LS_PICKLE_DICT, "dict", v, 2);
    case 'u': LS_TRY(pop_to_mark(m, &v, &n)); return add_items(m, LS_PICKLE_DICT, "dict", v, n);
    case 'q':
    case 'r': LS_TRY(take_number(m, opcode == 'q' ? 1 : 4, &x)); return put_memo(m, x);
    case 0x94: /* MEMOIZE */ return put_memo(m, m->memo.n);
    case 'h':
    case 'j': LS_TRY(take_number(m, opcode == 'h' ? 1 : 4, &x)); return get_memo(m, x);
    default: return refuse_opcode(m);
    }
}

int ls_pickle_compare(const ls_pickle *a, const ls_pickle *b)
{
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return a->length ? memcmp(a->text, b->text, a->length) : 0;
}

bool ls_pickle_is(const ls_pickle *text, const char *word)
{
    return text->kind == LS_PICKLE_TEXT && text->length == strlen(word) &&
           memcmp(text->text, word, text->length) == 0;
}

const ls_pickle *ls_pickle_find(const ls_pickle *dict, const char *key)
{
    for (size_t i = 0; dict->kind == LS_PICKLE_DICT && i + 1 < dict->n; i += 2)
        if (ls_pickle_is(dict->items[i], key))
            return dict->items[i + 1];
    return NULL;
}

ls_status ls_pickle_read(ls_pickle_result *out, ls_arena *arena, const ls_pickle_source *source)
{
    machine m = { .source = source, .arena = arena, .p = source->bytes, .end = source->bytes + source->size };
    while (m.p < m.end) {
        m.at = (size_t)(m.p - source->bytes);
        int opcode = *m.p++;
        LS_TRY(ls_arena_status(arena));
        if (m.values > source->most) {
            char what[300];
            snprintf(what, sizeof what, "more than %zu values come before it: %s", source->most,
                     source->advice);
            return pickle_refuse(&m, LS_E_UNSUPPORTED, what);
        }
        if (opcode != '.') {
            LS_TRY(step(&m, opcode));
            continue;
        }
        ls_pickle **v = NULL;
        LS_TRY(pop(&m, 1, &v));
        if (m.stack.n > 0)
            return pickle_damaged(&m, "more than one value is left");
        *out = (ls_pickle_result){ v[0], m.persistent, (size_t)(m.p - source->bytes) };
        return LS_OK;
    }
    return ls_fail(
        LS_E_FORMAT,
        "%s: byte %" PRIu64
        ": its pickle ends without STOP; the file is damaged or cut: copy it again or save it again",
        source->path, source->offset + source->size);
}
