/* places.c - places of the values that callers may name, and copies into and out of them. */
#include <string.h>

#include "base/check.h"
#include "graph/identity.h"
#include "internal.h"

/* The index in `names` of the value with this name, of any identity; -1: none. */
static int places_by_name(const ls_session *s, const char *name)
{
    int k = ls_session_lookup(s, (ls_identity){ .what = LS_IS_NAMED }, name);
    for (int i = 0; i < s->n_names && k < 0; i++)
        k = strcmp(s->names[i].name, name) ? -1 : i;
    return k;
}

static int by_identity(const ls_session *s, ls_identity is, const char *name)
{
    for (int i = 0; i < s->n_names; i++)
        if (!ls_identity_order(s->names[i].is, s->names[i].name, is, name))
            return i;
    return -1;
}

static ls_place place(ls_session *s, int k)
{
    const ls_named *e = &s->names[k];
    ls_place p = { .session = s, .type = e->tensor.type, .region = e->region, .offset = e->at };
    memcpy(p.strides, e->tensor.strides, sizeof p.strides);
    return p;
}

ls_status ls_session_place(ls_session *s, const char *name, ls_place *out)
{
    const int k = places_by_name(s, name);
    *out = k < 0 ? (ls_place){ 0 } : place(s, k);
    return k < 0 ? ls_fail(LS_E_ARG, "session: no program has a source or output named \"%s\"", name) : LS_OK;
}

ls_status ls_session_place_of(ls_session *s, ls_identity is, const char *name, ls_place *out)
{
    const int k = by_identity(s, is, name);
    *out = k < 0 ? (ls_place){ 0 } : place(s, k);
    return k < 0 ? ls_fail(LS_E_INTERNAL, "session: no program has \"%s\"", name) : LS_OK;
}

ls_place ls_session_spare(ls_session *s, int i)
{
    const ls_tensor contiguous = ls_tensor_of(NULL, &s->spares[i].type);
    ls_place p = {
        .session = s, .type = s->spares[i].type, .region = s->spares[i].region, .offset = s->spares[i].offset
    };
    memcpy(p.strides, contiguous.strides, sizeof p.strides);
    return p;
}

ls_place ls_place_part(const ls_place *p, int64_t first, const ls_type *type)
{
    const ls_tensor contiguous = ls_tensor_of(NULL, type);
    ls_place part = *p;
    part.type = *type;
    part.offset += (size_t)first * ls_dtype_size(p->type.dtype);
    memcpy(part.strides, contiguous.strides, sizeof part.strides);
    return part;
}

char *ls_place_address(const ls_place *p) { return ls_session_region(p->session, p->region) + p->offset; }

/* Copies between contiguous elements at `host` and those of the place, in runs that lie side by side. host
 * NULL: those of the place become zero. */
static void places_copy(const ls_place *p, char *host, bool to_host)
{
    const ls_session *s = p->session;
    const size_t size = ls_dtype_size(p->type.dtype);
    int64_t run = 1, at[LS_MAX_DIMS] = { 0 }, offset = 0;
    int outer = p->type.ndim;
    while (outer > 0 && (p->strides[outer - 1] == run || p->type.dims[outer - 1] == 1))
        run *= p->type.dims[--outer];
    const int64_t n = ls_type_count(&p->type);
    for (int64_t done = 0; done < n; done += run) {
        char *here = ls_place_address(p) + offset * (int64_t)size,
             *there = host ? host + (size_t)done * size : NULL;
        if (!host)
            s->ops->fill(s->queue, here, 0, (size_t)run * size);
        else
            s->ops->copy(s->queue, to_host ? there : here, to_host ? here : there, (size_t)run * size);
        for (int d = outer - 1; d >= 0; d--) {
            offset += p->strides[d];
            if (++at[d] < p->type.dims[d])
                break;
            offset -= at[d] * p->strides[d];
            at[d] = 0;
        }
    }
}

static ls_status check_bytes(const ls_place *p, size_t bytes)
{
    char text[128];
    return bytes == ls_type_bytes(&p->type)
               ? LS_OK
               : ls_fail(LS_E_INTERNAL, "session: %zu bytes for a value of %s, which has %zu", bytes,
                         ls_type_text(text, &p->type), ls_type_bytes(&p->type));
}

ls_status ls_session_fetch(const ls_place *p, void *to, size_t bytes)
{
    LS_TRY(check_bytes(p, bytes));
    if (!bytes) /* perhaps of a value that only other ranks have */
        return LS_OK;
    if (!p->session->ops->apart || !ls_numbers_fetch(p->session, p, to))
        places_copy(p, to, true);
    return LS_OK;
}

ls_status ls_session_put(const ls_place *p, const void *from, size_t bytes)
{
    LS_TRY(check_bytes(p, bytes));
    if (!bytes)
        return LS_OK;
    if (p->session->ops->apart && ls_numbers_put(p->session, p, from))
        return LS_OK;
    p->session->numbers.out_is_there = false;
    places_copy(p, (char *)(uintptr_t)from, false);
    return LS_OK;
}

ls_status ls_session_read(const ls_place *p, void *to, size_t bytes)
{
    LS_TRY(ls_session_fetch(p, to, bytes));
    return bytes ? ls_session_wait(p->session) : LS_OK;
}

ls_status ls_session_write(const ls_place *p, const void *from, size_t bytes)
{
    LS_TRY(ls_session_put(p, from, bytes));
    return bytes ? ls_session_wait(p->session) : LS_OK;
}

void ls_session_clear(const ls_place *p)
{
    static const char ZEROS[LS_NUMBER_BYTES];
    if (p->session->ops->apart && ls_numbers_put(p->session, p, ZEROS))
        return;
    p->session->numbers.out_is_there = false;
    places_copy(p, NULL, false);
}

void ls_session_copy(const ls_place *to, const ls_place *from)
{
    ls_session *s = to->session;
    ls_numbers_touch(s, to);
    s->ops->copy(s->queue, ls_place_address(to), ls_place_address(from), ls_type_bytes(&to->type));
}

void ls_session_exchange(const ls_place *a, const ls_place *b, const ls_place *scratch)
{
    const ls_session *s = a->session;
    const size_t bytes = ls_type_bytes(&a->type), most = ls_type_bytes(&scratch->type);
    char *x = ls_place_address(a), *y = ls_place_address(b), *spare = ls_place_address(scratch);
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < most ? bytes - at : most;
        s->ops->copy(s->queue, spare, x + at, n);
        s->ops->copy(s->queue, x + at, y + at, n);
        s->ops->copy(s->queue, y + at, spare, n);
    }
}

static ls_tensor operand(const ls_place *p)
{
    ls_tensor t = { .data = ls_place_address(p), .type = p->type };
    memcpy(t.strides, p->strides, sizeof t.strides);
    return t;
}

static bool is_on_host(const ls_place *p)
{
    return p->region >= LS_REGION_HOST && p->region <= LS_REGION_HOST_SHARED;
}

/* The device that computes what is in the place. */
static const ls_device *device_of(const ls_place *p)
{
    const ls_session *s = p->session;
    for (int i = 0; i < s->n_programs; i++)
        if (s->programs[i].plan->on_host == is_on_host(p))
            return &s->programs[i].plan->device;
    return &s->programs[0].plan->device;
}

void ls_session_call(const ls_kernel *k, int n_in, const ls_place *const *in, const ls_place *out,
                     const void *attrs)
{
    ls_session *s = out->session;
    const ls_device *d = device_of(out);
    ls_tensor from[LS_CALL_INPUTS], to = operand(out);
    LS_CHECK(n_in <= LS_CALL_INPUTS, "raise LS_CALL_INPUTS");
    ls_numbers_touch(s, out);
    for (int i = 0; i < n_in; i++)
        from[i] = operand(in[i]);
    const ls_kernel_args a = { .n_in = n_in,
                               .n_out = 1,
                               .in = from,
                               .out = &to,
                               .attrs = attrs,
                               .threads = d->threads,
                               .arch = d->arch,
                               .queue = s->queue };
    if (is_on_host(out))
        ls_host_call_put(s, k, &a);
    else
        s->ops->run(s->queue, k, &a);
}
