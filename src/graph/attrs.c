/* attrs.c - compares, copies and hashes any op's attributes, by the op's field table. */
#include <string.h>

#include "base/hash.h"
#include "op.h"

static const void *at(const void *record, const ls_attr_field *f) { return (const char *)record + f->offset; }

static bool text_equal(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool field_equal(const ls_attr_field *f, const void *a, const void *b)
{
    switch (f->kind) {
    case LS_FIELD_I64:
    case LS_FIELD_F64: return !memcmp(a, b, 8); /* bit by bit: -0 differs from 0, and a NaN equals itself */
    case LS_FIELD_I64S:
    case LS_FIELD_F64S: {
        const ls_i64_list *x = a, *y = b;
        return x->n == y->n && (x->n == 0 || !memcmp(x->v, y->v, 8 * (size_t)x->n));
    }
    case LS_FIELD_TEXT: return text_equal(*(const char *const *)a, *(const char *const *)b);
    case LS_FIELD_TYPE: return ls_type_equal(a, b);
    }
    return false;
}

bool ls_attrs_equal(const ls_op *op, const void *a, const void *b)
{
    for (const ls_attr_field *f = op->fields; f && f->name; f++)
        if (!field_equal(f, at(a, f), at(b, f)))
            return false;
    return true;
}

void *ls_attrs_copy(ls_arena *arena, const ls_op *op, const void *attrs)
{
    if (!op->attrs_size)
        return NULL;
    char *copy = ls_arena_alloc(arena, op->attrs_size);
    if (!copy)
        return NULL;
    if (attrs)
        memcpy(copy, attrs, op->attrs_size);
    for (const ls_attr_field *f = op->fields; f && f->name; f++) {
        void *p = copy + f->offset;
        if (f->kind == LS_FIELD_I64S || f->kind == LS_FIELD_F64S) {
            ls_i64_list *list = p;
            list->v = list->n ? ls_arena_dup(arena, list->v, 8 * (size_t)list->n) : NULL;
        } else if (f->kind == LS_FIELD_TEXT) {
            char **text = p;
            *text = *text ? ls_arena_strdup(arena, *text) : NULL;
        }
    }
    return copy;
}

uint64_t ls_attrs_digest(const ls_op *op, const void *attrs, uint64_t h)
{
    for (const ls_attr_field *f = op->fields; f && f->name; f++) {
        const void *p = at(attrs, f);
        switch (f->kind) {
        case LS_FIELD_I64:
        case LS_FIELD_F64: h = ls_hash64_more(h, p, 8); break;
        case LS_FIELD_I64S:
        case LS_FIELD_F64S: {
            const ls_i64_list *list = p;
            h = ls_hash64_more(h, &list->n, 8);
            if (list->n)
                h = ls_hash64_more(h, list->v, 8 * (size_t)list->n);
            break;
        }
        case LS_FIELD_TEXT: {
            const char *text = *(const char *const *)p;
            h = ls_hash64_more(h, text ? text : "", text ? strlen(text) : 0);
            break;
        }
        case LS_FIELD_TYPE: {
            const ls_type *t = p;
            h = ls_hash64_more(h, &t->dtype, sizeof t->dtype);
            h = ls_hash64_more(h, t->dims, sizeof(int64_t) * (size_t)(t->ndim > 0 ? t->ndim : 0));
            break;
        }
        }
    }
    return h;
}
