/* memory_set.c - a data set of arrays that the caller has in memory, copied field by field. */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/sys.h"
#include "lockstep/data.h"

typedef struct memory_set {
    ls_dataset set;
    ls_field *fields; /* [set.n_fields]; the names are the set's */
    char **data;      /* [set.n_fields]: [set.n] samples each */
} memory_set;

static ls_status memory_set_read_sample(const ls_dataset *set, int64_t i, void *const *to)
{
    const memory_set *m = (const memory_set *)set;
    for (int k = 0; k < set->n_fields; k++) {
        const size_t bytes = ls_type_bytes(&m->fields[k].type);
        if (to[k])
            memcpy(to[k], m->data[k] + (size_t)i * bytes, bytes);
    }
    return LS_OK;
}

static void memory_set_close(ls_dataset *set)
{
    memory_set *m = (memory_set *)set;
    for (int k = 0; k < set->n_fields; k++) {
        free((char *)m->fields[k].name);
        free(m->data[k]);
    }
    free(m->fields);
    free(m->data);
    free(m);
}

/* Copies the elements, which may have any strides, to contiguous memory. */
static void memory_set_copy(char *to, const ls_tensor *x)
{
    const size_t size = ls_dtype_size(x->type.dtype);
    int64_t at[LS_MAX_DIMS] = { 0 };
    for (int64_t i = ls_type_count(&x->type); i > 0; i--, to += size) {
        int64_t offset = 0;
        for (int d = 0; d < x->type.ndim; d++)
            offset += at[d] * x->strides[d];
        memcpy(to, (const char *)x->data + offset * (int64_t)size, size);
        for (int d = x->type.ndim - 1; d >= 0 && ++at[d] == x->type.dims[d]; d--)
            at[d] = 0;
    }
}

/* Makes room in both lists for one more field. */
static ls_status memory_set_grow(memory_set *m)
{
    const size_t n = (size_t)m->set.n_fields + 1;
    void *fields = ls_sys_realloc(m->fields, n * sizeof *m->fields);
    LS_TRY(ls_sys_have(fields));
    m->set.fields = m->fields = fields;
    void *data = ls_sys_realloc(m->data, n * sizeof *m->data);
    LS_TRY(ls_sys_have(data));
    m->data = data;
    return LS_OK;
}

static ls_status memory_set_add(memory_set *m, const char *field, const ls_tensor *x)
{
    const ls_type *type = &x->type;
    ls_field f = { .type = { .dtype = type->dtype, .ndim = type->ndim - 1 },
                   .ignorable = type->dtype == LS_I32 };
    memcpy(f.type.dims, type->dims + 1, sizeof *f.type.dims * (size_t)f.type.ndim);
    LS_TRY(memory_set_grow(m));
    char *name = ls_sys_strdup(field), *data = ls_sys_malloc(ls_type_bytes(type) + 1);
    if (!name || !data) {
        free(name);
        free(data);
        return ls_fail(LS_E_MEMORY, "out of memory for field \"%s\" of a data set", field);
    }
    memory_set_copy(data, x);
    f.name = name;
    m->set.n = type->dims[0];
    m->data[m->set.n_fields] = data;
    m->fields[m->set.n_fields++] = f;
    return LS_OK;
}

static ls_status memory_set_check(const ls_dataset *set, const char *field, const ls_tensor *x)
{
    if (set && set->read != memory_set_read_sample)
        return ls_fail(LS_E_ARG, "ls_dataset_put: the set was not made by ls_dataset_put");
    if (set && ls_dataset_field(set, field))
        return ls_fail(LS_E_ARG, "ls_dataset_put: the set has a field \"%s\" already", field);
    if (x->type.ndim < 1 || x->type.dims[0] < 1)
        return ls_fail(LS_E_SHAPE,
                       "ls_dataset_put: \"%s\" has no samples: its first dimension, of %d, is %lld", field,
                       x->type.ndim, (long long)(x->type.ndim < 1 ? 0 : x->type.dims[0]));
    if (set && set->n != x->type.dims[0])
        return ls_fail(
            LS_E_SHAPE,
            "ls_dataset_put: \"%s\" has %lld samples, but \"%s\" has %lld: all fields need the same number",
            field, (long long)x->type.dims[0], set->fields[0].name, (long long)set->n);
    return LS_OK;
}

ls_status ls_dataset_put(ls_dataset **set, const char *field, const ls_tensor *values)
{
    LS_ARG(set);
    LS_ARG(field);
    LS_ARG(values);
    LS_ARG(values->data);
    LS_ARG_TYPE(values->type);
    LS_TRY(memory_set_check(*set, field, values));
    memory_set *m = *set ? (memory_set *)*set : ls_sys_calloc(1, sizeof *m);
    LS_TRY(ls_sys_have(m));
    if (!*set)
        m->set = (ls_dataset){ .name = "memory",
                               .source = "arrays in memory",
                               .split = LS_SPLIT_EVAL,
                               .read = memory_set_read_sample,
                               .close = memory_set_close };
    const ls_status s = memory_set_add(m, field, values);
    if (s != LS_OK && !*set)
        memory_set_close(&m->set);
    else
        *set = &m->set;
    return s;
}
