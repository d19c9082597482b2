/* values.h - values of a session by name. Tests get and put copies: no test has an address of a session's
 * memory. Each function fails the test if there is no such value, or none of that size. */
#pragma once
#include <stdlib.h>

#include "execute/session.h"
#include "support/support.h"

static inline ls_type value_type(ls_session *s, const char *name)
{
    ls_place p;
    ASSERT_OK(ls_session_place(s, name, &p));
    return p.type;
}

/* Whether two places begin at the same byte. */
static inline bool place_same(const ls_place *a, const ls_place *b)
{
    return a->session == b->session && a->region == b->region && a->offset == b->offset;
}

/* Sets a number of f32 or f64, and waits. */
static inline ls_status place_put_number(const ls_place *p, double x)
{
    const float narrow = (float)x;
    return p->type.dtype == LS_F64 ? ls_session_write(p, &x, sizeof x)
                                   : ls_session_write(p, &narrow, sizeof narrow);
}

/* A copy of all elements of a place, contiguous, which the caller frees. */
static inline void *place_copy(const ls_place *p)
{
    void *copy = malloc(ls_type_bytes(&p->type) + 1);
    assert_non_null(copy);
    ASSERT_OK(ls_session_read(p, copy, ls_type_bytes(&p->type)));
    return copy;
}

static inline void value_get(ls_session *s, const char *name, void *to, size_t bytes)
{
    ls_place p;
    ASSERT_OK(ls_session_place(s, name, &p));
    ASSERT_OK(ls_session_read(&p, to, bytes));
}

static inline void value_put(ls_session *s, const char *name, const void *from, size_t bytes)
{
    ls_place p;
    ASSERT_OK(ls_session_place(s, name, &p));
    ASSERT_OK(ls_session_write(&p, from, bytes));
}

/* The same by name; *type: of the elements. */
static inline void *value_copy(ls_session *s, const char *name, ls_type *type)
{
    ls_place p;
    ASSERT_OK(ls_session_place(s, name, &p));
    *type = p.type;
    return place_copy(&p);
}

/* Numbers of f32, f64, i32 and i64 values, as doubles. */
static inline double value_element(const void *data, ls_dtype type, int64_t i)
{
    switch (type) {
    case LS_F64: return ((const double *)data)[i];
    case LS_F32: return (double)((const float *)data)[i];
    case LS_I64: return (double)((const int64_t *)data)[i];
    default: assert_int_equal(type, LS_I32); return ((const int32_t *)data)[i];
    }
}

static inline void value_set_element(void *data, ls_dtype type, int64_t i, double x)
{
    switch (type) {
    case LS_F64: ((double *)data)[i] = x; break;
    case LS_F32: ((float *)data)[i] = (float)x; break;
    case LS_I64: ((int64_t *)data)[i] = (int64_t)x; break;
    default: assert_int_equal(type, LS_I32); ((int32_t *)data)[i] = (int32_t)x; break;
    }
}

/* Element i, counted in the value's order. */
static inline double value_number(ls_session *s, const char *name, int64_t i)
{
    ls_type type;
    void *copy = value_copy(s, name, &type);
    assert_true(i < ls_type_count(&type));
    const double x = value_element(copy, type.dtype, i);
    free(copy);
    return x;
}

static inline void value_set(ls_session *s, const char *name, int64_t i, double x)
{
    ls_type type;
    void *copy = value_copy(s, name, &type);
    assert_true(i < ls_type_count(&type));
    value_set_element(copy, type.dtype, i, x);
    value_put(s, name, copy, ls_type_bytes(&type));
    free(copy);
}

static inline void value_fill(ls_session *s, const char *name, double x)
{
    ls_type type;
    void *copy = value_copy(s, name, &type);
    for (int64_t i = 0; i < ls_type_count(&type); i++)
        value_set_element(copy, type.dtype, i, x);
    value_put(s, name, copy, ls_type_bytes(&type));
    free(copy);
}
