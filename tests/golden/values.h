/* values.h - golden tensors as values of a session. See support/values.h. */
#pragma once
#include "golden/golden.h"
#include "support/values.h"

/* Gives a value what the golden tensor holds, converted to the value's type. */
static inline void golden_put(ls_session *s, const char *name, const ls_weight *from)
{
    ls_type type;
    void *copy = value_copy(s, name, &type);
    assert_int_equal(ls_type_count(&type), golden_count(from));
    ASSERT_OK(ls_weight_read(from, type.dtype, copy));
    value_put(s, name, copy, ls_type_bytes(&type));
    free(copy);
}

/* Gives a value the numbers with which the golden runs start it. */
static inline void golden_put_parameter(ls_session *s, const char *name)
{
    ls_type type;
    void *copy = value_copy(s, name, &type);
    golden_parameter(name, &type, copy);
    value_put(s, name, copy, ls_type_bytes(&type));
    free(copy);
}

/* As golden_expect_scaled and golden_expect, of a value. */
static inline void golden_expect_value_scaled(const char *what, ls_session *s, const char *name,
                                              const ls_weight *want, double relative, double scale)
{
    ls_type type;
    void *copy = value_copy(s, name, &type);
    golden_expect_scaled(what, copy, &type, want, relative, scale);
    free(copy);
}

static inline void golden_expect_value(const char *what, ls_session *s, const char *name,
                                       const ls_weight *want, double relative)
{
    ls_type type;
    void *copy = value_copy(s, name, &type);
    golden_expect(what, copy, &type, want, relative);
    free(copy);
}
