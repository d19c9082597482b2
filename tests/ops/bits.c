/* bits.c - see bits.h. */
#include "bits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"

static bool is_nan(const void *p, ls_dtype t)
{
    uint32_t wide = 0;
    uint64_t widest = 0;
    memcpy(&wide, p, ls_dtype_size(t) < sizeof wide ? ls_dtype_size(t) : sizeof wide);
    if (t == LS_F64)
        memcpy(&widest, p, sizeof widest);
    switch (t) {
    case LS_F16: return (wide & 0x7fff) > 0x7c00;
    case LS_BF16: return (wide & 0x7fff) > 0x7f80;
    case LS_F32: return (wide & 0x7fffffff) > 0x7f800000;
    case LS_F64: return (widest & INT64_MAX) > UINT64_C(0x7ff) << 52;
    default: return false;
    }
}

static uint64_t hash_of(const ls_tensor *t)
{
    const size_t size = ls_dtype_size(t->type.dtype);
    uint64_t h = 1;
    for (int64_t i = 0; i < ls_type_count(&t->type); i++) {
        const char *p = (const char *)t->data + (size_t)i * size;
        h = is_nan(p, t->type.dtype) ? ls_hash64_more(h, "NaN", 3) : ls_hash64_more(h, p, size);
    }
    return h;
}

/* Cases of an op differ in shapes, constants, or the box. */
static uint64_t identity(const op_case *c)
{
    uint64_t h = c->attrs ? ls_attrs_digest(ls_op_find(c->op), c->attrs, 1) : 1;
    for (int j = 0; j < c->n_in; j++) {
        const case_operand *o = &c->in[j];
        const int64_t numbers[] = { o->dtype, o->fill, o->ndim };
        h = ls_hash64_more(h, numbers, sizeof numbers);
        h = ls_hash64_more(h, &o->value, sizeof o->value);
        h = ls_hash64_more(h, o->dims, sizeof *o->dims * (size_t)(o->ndim > 0 ? o->ndim : 0));
    }
    for (int d = 0; c->at && d < c->at->ndim; d++) {
        const int64_t numbers[] = { c->at->start[d], c->at->size[d], c->at->whole[d] };
        h = ls_hash64_more(h, numbers, sizeof numbers);
    }
    return h;
}

static void put_word(FILE *f, const char *text)
{
    for (; *text; text++)
        fputc(*text == ' ' || *text == ',' ? '_' : *text, f);
    fputc(' ', f);
}

void bits_write(const op_case *c, ls_dtype data, const char *how, int output, const ls_tensor *t)
{
    static FILE *f;
    if (!f && !(f = fopen(getenv("LS_TEST_BITS"), "w"))) {
        perror("LS_TEST_BITS");
        exit(1);
    }
    fprintf(f, "%s %s %016" PRIx64 " ", c->op, ls_dtype_name(data), identity(c));
    put_word(f, c->what && *c->what ? c->what : "-");
    put_word(f, how);
    fprintf(f, "%d %016" PRIx64 "\n", output, hash_of(t));
    fflush(f);
}
