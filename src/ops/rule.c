/* rule.c - reads the rule of an op's row (rule.h). */
#include "rule.h"

#include <stdio.h>
#include <string.h>

static ls_status misfit(const ls_infer *i, const char *what)
{
    return ls_fail(LS_E_INTERNAL, "the rule of %s, \"%s\": %s", i->op->name, i->op->rule ? i->op->rule : "",
                   what);
}

/* Makes an empty rule: without loops. */
static void rule_begin(ls_rule *r)
{
    *r = (ls_rule){ .at = -1, .slide = { .in = -1 } };
    memset(r->in, -1, sizeof r->in);
    memset(r->out, -1, sizeof r->out);
}

int ls_rule_loop(ls_rule *r)
{
    if (r->n == LS_RULE_LOOPS)
        return -1; /* no room for another loop: the dimension cannot be split */
    r->loop[r->n] = (ls_op_loop){ .number = -1 };
    return r->n++;
}

static int loop_of(ls_rule *r, char letter, int number)
{
    for (int l = 0; l < r->n; l++)
        if (r->loop[l].letter == letter && r->loop[l].number == number)
            return l;
    const int l = ls_rule_loop(r);
    if (l >= 0) {
        r->loop[l].letter = letter;
        r->loop[l].number = number;
    }
    return l;
}

void ls_rule_fix(ls_rule *r, char letter)
{
    for (int l = 0; l < r->n; l++)
        r->loop[l].fixed = r->loop[l].fixed || r->loop[l].letter == letter;
}

void ls_rule_uneven(ls_rule *r, char letter)
{
    for (int l = 0; l < r->n; l++)
        r->loop[l].uneven = r->loop[l].uneven || r->loop[l].letter == letter;
}

void ls_rule_slide(ls_rule *r, int in, int dim, char letter)
{
    for (int l = 0; l < r->n; l++)
        if (r->loop[l].letter == letter) {
            r->slide.in = in;
            r->slide.dim = dim;
            r->slide.loop = l;
        }
}

bool ls_rule_slide_of(const ls_rule *r, const ls_infer *i, int k, int loop, int n, int at, int64_t *start,
                      int64_t *count)
{
    if (k != r->slide.in || loop != r->slide.loop)
        return false;
    int64_t all = 0;
    for (int j = 0; j < i->n_in && j < LS_RULE_IN; j++) {
        const int dim = ls_rule_in_dim(r, i, j, loop);
        all = dim < 0 ? all : i->in[j].dims[dim];
    }
    *start = all - (at + 1) * (all / n);
    *count = i->in[k].dims[r->slide.dim] - all + all / n;
    return true;
}

/* One operand or result of a rule: "r.. k", "@b t h*", "+n", ".". */
typedef struct term {
    const char *at;
    size_t n;
    char marks[8];
} term;

static bool is_mark(char c) { return c == '@' || c == '+' || c == '~' || c == '&'; }

/* How many dimensions a term names, not counting those of `..`. *open: it has `..`. */
static int named(const char *t, size_t n, bool *open)
{
    int count = 0;
    *open = false;
    for (size_t k = 0; k < n; k++) {
        count += t[k] >= 'a' && t[k] <= 'z';
        if (t[k] == '.' && k + 1 < n && t[k + 1] == '.') {
            *open = true;
            count--; /* the letter in front of `..` stands for any number of dimensions */
            k++;
        }
    }
    return count;
}

/* Finds, among the forms of a term that | separates, the one that fits `ndim` dimensions. */
static bool form(const char **t, size_t *n, int ndim)
{
    for (const char *from = *t, *end = *t + *n; from < end;) {
        const char *bar = memchr(from, '|', (size_t)(end - from));
        const size_t length = (size_t)((bar ? bar : end) - from);
        bool open;
        const int names = named(from, length, &open);
        if (names == ndim || (open && names < ndim)) {
            *t = from;
            *n = length;
            return true;
        }
        from += length + 1;
    }
    return *n == 0;
}

static ls_status read_term(ls_rule *r, const ls_infer *i, const char *t, size_t n, int ndim, int8_t *loops,
                           uint8_t *heads)
{
    int d = 0;
    bool open;
    if (!form(&t, &n, ndim))
        return misfit(i, "an operand has another number of dimensions");
    const int names = named(t, n, &open);
    for (size_t k = 0; k < n; k++) {
        if (t[k] < 'a' || t[k] > 'z')
            continue;
        const char letter = t[k];
        bool any = false, fixed = false, moved = false, multiple = false, anywhere = false;
        for (; k + 1 < n && t[k + 1] != ' ' && t[k + 1] != '|'; k++) {
            any = any || t[k + 1] == '.';
            moved = moved || t[k + 1] == '%';
            fixed = fixed || moved || t[k + 1] == '!';
            multiple = multiple || t[k + 1] == '*';
            anywhere = anywhere || t[k + 1] == '^';
        }
        for (int j = 0; j < (any ? ndim - names : 1); j++, d++) {
            const int l = loop_of(r, letter, any ? j : -1);
            if (l < 0 || d >= LS_MAX_DIMS)
                return misfit(i, "too many dimensions");
            r->loop[l].fixed = r->loop[l].fixed || fixed;
            r->loop[l].anywhere = r->loop[l].anywhere || anywhere;
            r->loop[l].moved = r->loop[l].moved || moved;
            r->loop[l].rows = r->loop[l].rows || (any && letter == 'r');
            loops[d] = (int8_t)l;
            if (multiple && heads)
                *heads |= (uint8_t)(1u << d);
        }
    }
    return d == ndim ? LS_OK : misfit(i, "an operand has another number of dimensions");
}

static int64_t head_dim(const ls_infer *i)
{
    for (const ls_attr_field *f = i->op->fields; f && f->name; f++)
        if (!strcmp(f->name, "head_dim"))
            return *(const int64_t *)((const char *)i->attrs + f->offset);
    return 1;
}

static ls_status read_line(ls_rule *r, const ls_infer *i)
{
    const char *line = i->op->rule, *arrow = strstr(line, "->"), *joins = strstr(line, "; join ");
    if (!arrow)
        return misfit(i, "has no ->");
    const char *t = line;
    r->head_dim = head_dim(i);
    for (int k = 0; t < arrow; k++) {
        size_t n = strcspn(t, ",-");
        const char *next = t + n + (t[n] == ',');
        if (k < i->n_in && i->in[k].ndim >= 0) {
            if (k >= LS_RULE_IN)
                return misfit(i, "too many operands");
            while (n && (*t == ' ' || is_mark(*t))) {
                r->at = *t == '@' ? k : r->at;
                r->added |= *t == '+' ? 1u << k : 0;
                r->shard |= *t == '~' ? 1u << k : 0;
                r->gather |= *t == '&' ? 1u << k : 0;
                t++;
                n--;
            }
            LS_TRY(read_term(r, i, t, n, i->in[k].ndim, r->in[k], &r->heads[k]));
        } else if (k >= i->n_in && t[n] == '-') {
            break;
        }
        t = next;
    }
    t = arrow + 2;
    for (int k = 0; k < i->n_out; k++) {
        const size_t n = strcspn(t, ",;");
        if (!n)
            return misfit(i, "has too few results");
        LS_TRY(read_term(r, i, t, n, i->out[k].ndim, r->out[k], NULL));
        t += n + (t[n] == ',');
    }
    for (const char *j = joins ? joins + 7 : ""; *j; j++)
        for (int l = 0; l < r->n; l++)
            r->loop[l].join = r->loop[l].join || r->loop[l].letter == *j;
    return LS_OK;
}

ls_status ls_rule_of(ls_rule *r, const ls_infer *i)
{
    const ls_op *op = i->op;
    rule_begin(r);
    if (op->rule && strcmp(op->rule, LS_RULE_LATER))
        LS_TRY(read_line(r, i));
    else if (!op->dims)
        return misfit(i, "the op is made after placements are");
    return op->dims ? op->dims(r, i) : LS_OK;
}

int ls_rule_in_dim(const ls_rule *r, const ls_infer *i, int k, int loop)
{
    for (int d = 0; d < i->in[k].ndim; d++)
        if (ls_rule_in(r, k, d) == loop)
            return d;
    return -1;
}

int ls_rule_out_dim(const ls_rule *r, const ls_infer *i, int k, int loop)
{
    for (int d = 0; d < i->out[k].ndim; d++)
        if (r->out[k][d] == loop)
            return d;
    return -1;
}

ls_status ls_rule_broadcast(ls_rule *r, const ls_infer *i)
{
    const ls_type *out = &i->out[0];
    for (int d = 0; d < out->ndim; d++) {
        const int l = ls_rule_loop(r);
        r->out[0][d] = (int8_t)l;
        r->loop[l].rows = d < out->ndim - 1;
        for (int k = 0; k < i->n_in; k++) {
            const int at = d - (out->ndim - i->in[k].ndim);
            if (at >= 0 && i->in[k].dims[at] == out->dims[d])
                r->in[k][at] = (int8_t)l;
        }
    }
    return LS_OK;
}
