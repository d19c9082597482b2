/* lexer.c - cuts a template into tokens. Outside of tags the earliest of {{, {% and {# ends the text; what of
 * the white space around it remains is jinja2's rule: a - takes all of it; a line break behind a block or a
 * comment goes, and so do the blanks between the line's begin and the tag, unless there is a +. */
#include <errno.h>
#include <stdlib.h>

#include "base/c_locale.h"
#include "lexer.h"
#include "text/text.h"
#include "value.h"

typedef struct lexer {
    ls_jtokens *out;
    ls_arena *arena;
    const char *s; /* line breaks are \n */
    size_t n, at;
    const char *name;
    int line;        /* of `counted` */
    size_t counted;  /* bytes whose line breaks are in `line` */
    bool line_begin; /* the last thing that was read ended with a line break, or is the template's begin */
    char open[LS_TEMPLATE_DEPTH]; /* brackets that have to be closed */
    int n_open;
} lexer;

static int line_at(lexer *x, size_t at)
{
    for (; x->counted < at; x->counted++)
        x->line += x->s[x->counted] == '\n';
    return x->line;
}

ls_status ls_jwrong(const char *name, int line, ls_status s, const char *format, ...)
{
    char text[1000];
    va_list args;
    va_start(args, format);
    ls_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return ls_fail(s, "%s:%d: %s", name, line, text);
}

#define WRONG(x, ...) ls_jwrong((x)->name, line_at((x), (x)->at), __VA_ARGS__)

static bool starts(const lexer *x, size_t at, const char *with)
{
    const size_t n = strlen(with);
    return at + n <= x->n && memcmp(x->s + at, with, n) == 0;
}

/* Behind the white space from `at` on. */
static size_t behind_white(const lexer *x, size_t at) { return ls_jstrip_begin(x->s, at, x->n); }

static ls_status put(lexer *x, ls_jtoken token)
{
    ls_jtokens *out = x->out;
    if (out->n == out->cap) {
        const int cap = out->cap ? 2 * out->cap : 256;
        ls_jtoken *more = LS_ARENA_ARRAY(x->arena, ls_jtoken, cap);
        if (!more)
            return ls_arena_status(x->arena);
        if (out->n)
            memcpy(more, out->tokens, (size_t)out->n * sizeof *more);
        out->tokens = more;
        out->cap = cap;
    }
    out->tokens[out->n++] = token;
    return LS_OK;
}

static ls_status put_data(lexer *x, size_t from, size_t to)
{
    if (from >= to)
        return LS_OK;
    return put(
        x, (ls_jtoken){ .kind = LS_JT_DATA, .line = line_at(x, from), .text = x->s + from, .n = to - from });
}

/* The end of a text from `from` to a tag at `to`, which begins with `sign` behind its braces. */
static size_t stripped(const lexer *x, size_t from, size_t to, char sign, bool prints)
{
    if (sign == '-')
        return ls_jstrip_end(x->s, from, to);
    if (sign == '+' || prints)
        return to;
    size_t line = to;
    while (line > from && x->s[line - 1] != '\n')
        line--;
    const bool begins = line > from || x->line_begin;
    return begins && ls_jstrip_end(x->s, line, to) == line ? line : to;
}

/* Whether a tag ends at `at` with `close` ("%}"), and where what it takes along ends. */
static bool ends_tag(const lexer *x, size_t at, const char *close, size_t *behind)
{
    const char sign = at < x->n ? x->s[at] : 0;
    const bool prints = close[0] == '}';
    const bool signs = sign == '-' || (sign == '+' && !prints);
    if (!starts(x, at + signs, close))
        return false;
    *behind = at + signs + 2;
    if (sign == '-')
        *behind = behind_white(x, *behind);
    else if (sign != '+' && !prints && *behind < x->n && x->s[*behind] == '\n')
        ++*behind;
    return true;
}

static void lexer_move(lexer *x, size_t to)
{
    x->line_begin = to > x->at && x->s[to - 1] == '\n';
    x->at = to;
}

static ls_status comment(lexer *x)
{
    size_t behind;
    for (size_t at = x->at; at < x->n; at++)
        if (ends_tag(x, at, "#}", &behind)) {
            lexer_move(x, behind);
            return LS_OK;
        }
    return WRONG(x, LS_E_FORMAT, "the comment that begins here has no end");
}

/* Whether a tag `{% word %}` begins at `at`: the sign, and where the tag ends. */
static bool word_tag(const lexer *x, size_t at, const char *word, bool trims, char *sign, size_t *behind)
{
    if (!starts(x, at, "{%"))
        return false;
    at += 2;
    *sign = at < x->n && (x->s[at] == '-' || x->s[at] == '+') ? x->s[at] : 0;
    at = behind_white(x, at + (*sign != 0));
    if (!starts(x, at, word))
        return false;
    at = behind_white(x, at + strlen(word));
    if (!ends_tag(x, at, "%}", behind))
        return false;
    if (!trims && x->s[at] == '%')
        *behind = at + 2; /* the line break behind {% raw %} stays */
    return trims || x->s[at] != '+';
}

static ls_status raw(lexer *x)
{
    char sign;
    size_t behind;
    for (size_t at = x->at; at < x->n; at++)
        if (word_tag(x, at, "endraw", true, &sign, &behind)) {
            LS_TRY(put_data(x, x->at, stripped(x, x->at, at, sign, false)));
            lexer_move(x, behind);
            return LS_OK;
        }
    return WRONG(x, LS_E_FORMAT, "{%% raw %%} has no {%% endraw %%}");
}

static ls_status number(lexer *x)
{
    size_t end = x->at;
    bool real = false;
    char digits[64];
    size_t n = 0;
    for (; end < x->n && n + 3 < sizeof digits; end++) {
        const char c = x->s[end];
        const bool after_dot = x->at > 0 && x->s[x->at - 1] == '.';
        const char next = end + 1 < x->n ? x->s[end + 1] : 0;
        if (c == '_' && next >= '0' && next <= '9')
            continue;
        if (c == '.' && !real && !after_dot && next >= '0' && next <= '9')
            real = true;
        else if ((c == 'e' || c == 'E') && !after_dot && !memchr(digits, 'e', n) &&
                 ((next >= '0' && next <= '9') || ((next == '-' || next == '+') && end + 2 < x->n &&
                                                   x->s[end + 2] >= '0' && x->s[end + 2] <= '9'))) {
            real = true;
            digits[n++] = 'e';
            if (next == '-' || next == '+')
                digits[n++] = x->s[++end];
            continue;
        } else if (c < '0' || c > '9')
            break;
        digits[n++] = c;
    }
    digits[n] = 0;
    ls_jtoken t = { .kind = real ? LS_JT_FLOAT : LS_JT_INT, .line = line_at(x, x->at) };
    if (real) {
        t.f = ls_strtod(digits, NULL);
    } else {
        errno = 0;
        t.i = strtoll(digits, NULL, 10);
        if (errno || n + 3 >= sizeof digits)
            return WRONG(x, LS_E_UNSUPPORTED, "the number %s... has more than 64 bits", digits);
    }
    lexer_move(x, end);
    return put(x, t);
}

/* One escape of Python's text literals behind a backslash at x->s[*at]; *at ends behind it. */
static ls_status escape(lexer *x, size_t *at, size_t end, ls_str *to)
{
    static const char FROM[] = "ntr\\'\"abfv\n", TO[] = "\n\t\r\\'\"\a\b\f\v";
    const char c = x->s[(*at)++];
    const char *simple = c ? strchr(FROM, c) : NULL;
    if (simple) {
        ls_str_add_n(to, &TO[simple - FROM], c != '\n'); /* a backslash before a line break: both go */
        return LS_OK;
    }
    const bool octal = c >= '0' && c <= '7';
    const size_t most = octal ? 3 : c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == 'N')
        return WRONG(x, LS_E_UNSUPPORTED, "characters by name (\\N{...}) are not supported: write \\uXXXX");
    if (!most) { /* not an escape: Python keeps the backslash */
        ls_str_add_n(to, "\\", 1);
        --*at;
        return LS_OK;
    }
    if (octal)
        --*at;
    uint32_t code = 0;
    size_t n = 0;
    for (; n < most && *at < end; n++, ++*at) {
        const char d = x->s[*at];
        const int digit = d >= '0' && d <= '9'   ? d - '0'
                          : d >= 'a' && d <= 'f' ? d - 'a' + 10
                          : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                                 : 99;
        if (digit >= (octal ? 8 : 16))
            break;
        code = code * (octal ? 8 : 16) + (uint32_t)digit;
    }
    if ((!octal && n < most) || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return WRONG(x, LS_E_FORMAT, "\\%c... in a text is not a character", c);
    ls_utf8_add(to, code);
    return LS_OK;
}

static ls_status string(lexer *x)
{
    const char quote = x->s[x->at];
    size_t end = x->at + 1;
    bool escaped = false;
    for (; end < x->n && x->s[end] != quote; end++)
        if (x->s[end] == '\\') {
            escaped = true;
            end++;
        }
    if (end >= x->n)
        return WRONG(x, LS_E_FORMAT, "the text that begins here has no closing %c", quote);
    ls_jtoken t = {
        .kind = LS_JT_STRING, .line = line_at(x, x->at), .text = x->s + x->at + 1, .n = end - x->at - 1
    };
    if (escaped) {
        ls_str text = { 0 };
        ls_status s = LS_OK;
        for (size_t at = x->at + 1; at < end && s == LS_OK;) {
            if (x->s[at] == '\\')
                at++, s = escape(x, &at, end, &text);
            else
                ls_str_add_n(&text, x->s + at++, 1);
        }
        t.n = text.len;
        t.text = ls_arena_dup(x->arena, ls_str_text(&text), text.len);
        if (s == LS_OK)
            s = ls_str_status(&text);
        ls_str_release(&text);
        LS_TRY(s);
        if (!t.text)
            return ls_arena_status(x->arena);
    }
    lexer_move(x, end + 1);
    return put(x, t);
}

static ls_status operator(lexer *x)
{
    static const char *const OPERATORS[] = { "**", "//", "==", "!=", ">=", "<=", "+", "-", "/",
                                             "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                             ">",  "<",  "=",  ".",  ":",  "|",  "," };
    for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++) {
        if (!starts(x, x->at, OPERATORS[i]))
            continue;
        ls_jtoken t = { .kind = LS_JT_OPERATOR, .line = line_at(x, x->at) };
        strcpy(t.op, OPERATORS[i]);
        const char c = t.op[0];
        if (c == '(' || c == '[' || c == '{') {
            if (x->n_open == LS_TEMPLATE_DEPTH)
                return WRONG(x, LS_E_UNSUPPORTED, "brackets are nested more than %d deep", LS_TEMPLATE_DEPTH);
            x->open[x->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (c == ')' || c == ']' || c == '}') {
            if (!x->n_open || x->open[--x->n_open] != c)
                return WRONG(x, LS_E_FORMAT, "unexpected '%c'", c);
        }
        lexer_move(x, x->at + strlen(t.op));
        return put(x, t);
    }
    uint32_t c;
    return WRONG(x, LS_E_FORMAT, "unexpected character '%.*s'", (int)ls_utf8_next(x->s + x->at, &c),
                 x->s + x->at);
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* The tokens inside {{ }} or {% %}, and its end. */
static ls_status tag(lexer *x, const char *close)
{
    const size_t begin = x->at;
    for (x->n_open = 0; x->at < x->n;) {
        size_t behind;
        if (!x->n_open && ends_tag(x, x->at, close, &behind)) {
            const ls_jtoken_kind kind = close[0] == '}' ? LS_JT_PRINT_END : LS_JT_BLOCK_END;
            LS_TRY(put(x, (ls_jtoken){ .kind = kind, .line = line_at(x, x->at) }));
            lexer_move(x, behind);
            return LS_OK;
        }
        const size_t white = behind_white(x, x->at);
        const char c = x->s[x->at];
        if (white > x->at) {
            lexer_move(x, white);
        } else if (is_letter(c)) {
            size_t end = x->at;
            while (end < x->n && (is_letter(x->s[end]) || is_digit(x->s[end])))
                end++;
            ls_jtoken t = { .kind = LS_JT_NAME, .line = line_at(x, x->at), .n = end - x->at };
            char *text = LS_ARENA_ARRAY(x->arena, char, t.n + 1);
            if (!text)
                return ls_arena_status(x->arena);
            memcpy(text, x->s + x->at, t.n);
            t.text = text;
            lexer_move(x, end);
            LS_TRY(put(x, t));
        } else if (is_digit(c)) {
            LS_TRY(number(x));
        } else if (c == '"' || c == '\'') {
            LS_TRY(string(x));
        } else {
            LS_TRY(operator(x));
        }
    }
    x->at = begin;
    return WRONG(x, LS_E_FORMAT, "the tag that begins here has no closing %s", close);
}

static ls_status all(lexer *x)
{
    while (x->at < x->n) {
        size_t to = x->at, behind;
        while (to < x->n &&
               !(x->s[to] == '{' && (starts(x, to, "{{") || starts(x, to, "{%") || starts(x, to, "{#"))))
            to++;
        if (to == x->n) {
            LS_TRY(put_data(x, x->at, x->n));
            x->at = x->n;
            break;
        }
        char sign;
        if (word_tag(x, to, "raw", false, &sign, &behind)) {
            LS_TRY(put_data(x, x->at, stripped(x, x->at, to, sign, false)));
            lexer_move(x, behind);
            LS_TRY(raw(x));
            continue;
        }
        const char what = x->s[to + 1];
        sign = to + 2 < x->n && (x->s[to + 2] == '-' || x->s[to + 2] == '+') ? x->s[to + 2] : 0;
        LS_TRY(put_data(x, x->at, stripped(x, x->at, to, sign, what == '{')));
        lexer_move(x, to + 2 + (sign != 0));
        if (what == '#') {
            LS_TRY(comment(x));
            continue;
        }
        LS_TRY(
            put(x, (ls_jtoken){ .kind = what == '{' ? LS_JT_PRINT : LS_JT_BLOCK, .line = line_at(x, to) }));
        LS_TRY(tag(x, what == '{' ? "}}" : "%}"));
    }
    return put(x, (ls_jtoken){ .kind = LS_JT_END, .line = line_at(x, x->n) });
}

ls_status ls_jlex(ls_jtokens *out, ls_arena *arena, const char *text, size_t n, const char *name)
{
    *out = (ls_jtokens){ 0 };
    char *s = LS_ARENA_ARRAY(arena, char, n + 1);
    if (!s)
        return ls_arena_status(arena);
    lexer x = { .out = out, .arena = arena, .s = s, .name = name, .line = 1, .line_begin = true };
    for (size_t i = 0; i < n; i++) { /* \r\n and \r are line breaks, too */
        if (text[i] != '\r' || i + 1 == n || text[i + 1] != '\n')
            s[x.n++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (x.n && s[x.n - 1] == '\n')
        x.n--; /* as jinja2 does */
    return all(&x);
}
