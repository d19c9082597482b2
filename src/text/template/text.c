/* text.c - texts that know the origin of every byte. A part shares the bytes of its whole. */
#include "text/text.h"
#include "value.h"

static const ls_jtext EMPTY = { .bytes = "" };

/* The piece that has the byte at `at`; n_pieces: none. */
static size_t piece_at(const ls_jtext *text, size_t at)
{
    size_t low = 0, high = text->n_pieces;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (text->pieces[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Room for `more` bytes behind the builder's. */
static bool room(ls_jrender *r, ls_jbuilder *b, size_t more)
{
    if (b->n + more > LS_TEMPLATE_OUTPUT) {
        ls_jfail(r, LS_E_UNSUPPORTED, "a text of the template grows beyond %d MiB here",
                 LS_TEMPLATE_OUTPUT >> 20);
        return false;
    }
    if (b->n + more <= b->cap)
        return true;
    size_t cap = b->cap ? 2 * b->cap : 64;
    while (cap < b->n + more)
        cap *= 2;
    char *bytes = ls_jalloc(r, cap);
    if (!bytes)
        return false;
    if (b->n)
        memcpy(bytes, b->bytes, b->n);
    b->bytes = bytes;
    b->cap = cap;
    return true;
}

/* The builder's bytes up to its end have this origin, from where the last piece ends. */
static void put_piece(ls_jrender *r, ls_jbuilder *b, ls_jorigin origin)
{
    if (b->n_pieces && b->pieces[b->n_pieces - 1].origin == origin) {
        b->pieces[b->n_pieces - 1].end = b->n;
        return;
    }
    if (b->n_pieces == b->cap_pieces) {
        const size_t cap = b->cap_pieces ? 2 * b->cap_pieces : 2;
        ls_jpiece *pieces = ls_jalloc(r, cap * sizeof *pieces);
        if (!pieces)
            return;
        if (b->n_pieces)
            memcpy(pieces, b->pieces, b->n_pieces * sizeof *pieces);
        b->pieces = pieces;
        b->cap_pieces = cap;
    }
    b->pieces[b->n_pieces++] = (ls_jpiece){ b->n, origin };
}

void ls_jadd(ls_jrender *r, ls_jbuilder *b, const char *bytes, size_t n, ls_jorigin origin)
{
    if (n == 0 || !ls_jstep(r, n) || !room(r, b, n))
        return;
    memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
    put_piece(r, b, b == r->out ? origin | r->generation : origin);
}

void ls_jadd_part(ls_jrender *r, ls_jbuilder *b, const ls_jtext *text, size_t from, size_t to)
{
    for (size_t i = piece_at(text, from); from < to && i < text->n_pieces; i++) {
        const size_t end = text->pieces[i].end < to ? text->pieces[i].end : to;
        ls_jadd(r, b, text->bytes + from, end - from, text->pieces[i].origin);
        from = end;
    }
}

void ls_jadd_text(ls_jrender *r, ls_jbuilder *b, const ls_jtext *text)
{
    ls_jadd_part(r, b, text, 0, text->n);
}

const ls_jtext *ls_jbuilt(ls_jrender *r, ls_jbuilder *b)
{
    ls_jtext *text = b->n ? ls_jalloc(r, sizeof *text) : NULL;
    if (!text)
        return &EMPTY;
    *text = (ls_jtext){ .bytes = b->bytes, .n = b->n, .pieces = b->pieces, .n_pieces = b->n_pieces };
    return text;
}

const ls_jtext *ls_jtext_of(ls_jrender *r, const char *bytes, size_t n, ls_jorigin origin)
{
    struct {
        ls_jtext text;
        ls_jpiece piece;
    } *t = n ? ls_jalloc(r, sizeof *t) : NULL;
    if (!t)
        return &EMPTY;
    t->piece = (ls_jpiece){ n, origin };
    t->text = (ls_jtext){ .bytes = bytes, .n = n, .pieces = &t->piece, .n_pieces = 1 };
    return &t->text;
}

const ls_jtext *ls_jpart(ls_jrender *r, const ls_jtext *text, size_t from, size_t to)
{
    if (from >= to)
        return &EMPTY;
    if (from == 0 && to == text->n && !text->markup)
        return text;
    const size_t first = piece_at(text, from), last = piece_at(text, to - 1);
    ls_jtext *part = ls_jalloc(r, sizeof *part);
    ls_jpiece *pieces = ls_jalloc(r, (last - first + 1) * sizeof *pieces);
    if (!part || !pieces)
        return &EMPTY;
    for (size_t i = first; i <= last; i++) {
        const size_t end = text->pieces[i].end < to ? text->pieces[i].end : to;
        pieces[i - first] = (ls_jpiece){ end - from, text->pieces[i].origin };
    }
    *part = (ls_jtext){
        .bytes = text->bytes + from, .n = to - from, .pieces = pieces, .n_pieces = last - first + 1
    };
    return part;
}

ls_jorigin ls_jorigin_at(const ls_jtext *text, size_t at)
{
    const size_t i = piece_at(text, at);
    return i < text->n_pieces ? text->pieces[i].origin : 0;
}

ls_jorigin ls_jorigin_text(const ls_jtext *text)
{
    for (size_t i = 0; i < text->n_pieces; i++)
        if (text->pieces[i].origin & ~LS_JORIGIN_GENERATION)
            return text->pieces[i].origin;
    return 0;
}

size_t ls_jcharacters(ls_jrender *r, const ls_jtext *text)
{
    ls_jstep(r, text->n);
    size_t n = 0;
    for (size_t i = 0; i < text->n; i++)
        n += ((uint8_t)text->bytes[i] & 0xc0) != 0x80;
    return n;
}

size_t ls_joffset(const ls_jtext *text, size_t from, int64_t characters)
{
    size_t at = from;
    for (; characters > 0 && at < text->n; characters--)
        for (at++; at < text->n && ((uint8_t)text->bytes[at] & 0xc0) == 0x80;)
            at++;
    return at;
}

bool ls_jis_white(uint32_t c) { return ls_is_white(c) || (c >= 0x1c && c <= 0x1f); }

size_t ls_jstrip_end(const char *s, size_t from, size_t to)
{
    uint32_t c;
    while (to > from) {
        size_t at = to - 1;
        while (at > from && ((uint8_t)s[at] & 0xc0) == 0x80)
            at--;
        ls_utf8_next(s + at, &c);
        if (!ls_jis_white(c))
            break;
        to = at;
    }
    return to;
}

size_t ls_jstrip_begin(const char *s, size_t from, size_t to)
{
    uint32_t c;
    while (from < to) {
        const size_t bytes = ls_utf8_next(s + from, &c);
        if (!ls_jis_white(c))
            break;
        from += bytes;
    }
    return from;
}

size_t ls_jfind(const ls_jtext *text, const ls_jtext *part, size_t from)
{
    if (part->n == 0)
        return from <= text->n ? from : SIZE_MAX;
    const char *found = from < text->n ? memmem(text->bytes + from, text->n - from, part->bytes, part->n)
                                       : NULL;
    return found ? (size_t)(found - text->bytes) : SIZE_MAX;
}

const ls_jtext *ls_jescape(ls_jrender *r, const ls_jtext *text)
{
    ls_jbuilder b = { 0 };
    for (size_t i = 0; i < text->n && !ls_jfailed(r); i++) {
        const char c = text->bytes[i];
        const char *as = c == '&'    ? "&amp;"
                         : c == '<'  ? "&lt;"
                         : c == '>'  ? "&gt;"
                         : c == '"'  ? "&#34;"
                         : c == '\'' ? "&#39;"
                                     : NULL;
        ls_jadd(r, &b, as ? as : &c, as ? strlen(as) : 1, ls_jorigin_at(text, i));
    }
    ls_jtext *markup = ls_jalloc(r, sizeof *markup);
    if (!markup)
        return &EMPTY;
    *markup = *ls_jbuilt(r, &b);
    markup->markup = true;
    return markup;
}
