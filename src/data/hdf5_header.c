/* hdf5_header.c - see hdf5_header.h. The layout is that of "HDF5 File Format Specification Version 3.0",
 * IV.A: numbers are little-endian, and a header is a list of messages in one block or several. libhdf5 1.10
 * believes the sizes inside a message and reads behind its end. A message of a version that is not known here
 * is not checked: a libhdf5 that does not know it either refuses it. The fuzzer feeds all of it. */
#include "data/hdf5_header.h"

#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

enum {
    MAX_MESSAGES =
        1 << 20,    /* of a header, with those of the types that it names; version 1 has up to 65535 */
    MAX_DEPTH = 32, /* of types inside types */
    MAX_RANK = 32
};

typedef struct header {
    const ls_hdf5_bytes *file;
    ls_hdf5_attributes *attributes;
    bool type_only;              /* its own type is wanted, not that of another name, and nothing else */
    bool has_type, type_unknown; /* unknown: its type is of a version or class that is not known here */
    uint64_t type_bytes;         /* of an element, if it has a type */
    int newer;                   /* bytes in front of a message of version 2; 0: version 1 */
    int *n_messages;             /* so far, also of other headers */
    int n_blocks, room;
    uint64_t bytes; /* of all blocks: they do not overlap, so no more than the file has */
    struct block {
        uint64_t at, n;
    } * blocks;
} header;

/* What is left of a part of the file. */
typedef struct cursor {
    const uint8_t *p;
    size_t n;
    bool over;    /* more was asked for than there is, or what follows is not known here */
    bool unknown; /* what follows is not known here: that is not a fault */
    int depth;
    const header *in;
} cursor;

static void type_at(cursor *c, uint64_t *bytes, uint64_t at);

static void skip(cursor *c, uint64_t n)
{
    c->over = c->over || n > c->n;
    n = c->over ? c->n : n;
    c->p += n;
    c->n -= n;
}

static uint64_t hdf5_take(cursor *c, int bytes)
{
    const uint8_t *p = c->p;
    uint64_t v = 0;
    skip(c, (uint64_t)bytes);
    for (int i = 0; i < bytes && !c->over; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static void require(cursor *c, bool holds)
{
    if (!holds)
        skip(c, UINT64_MAX);
}

/* What follows is not checked, unless it is known. */
static void require_known(cursor *c, bool known)
{
    c->unknown = c->unknown || (!known && !c->over);
    require(c, known);
}

static bool is_wrong(const cursor *c) { return c->over && !c->unknown; }

static uint64_t hdf5_product(cursor *c, uint64_t a, uint64_t b)
{
    uint64_t v = 0;
    require(c, !__builtin_mul_overflow(a, b, &v));
    return v;
}

/* The next n bytes as a part of their own. */
static cursor part(cursor *c, uint64_t n)
{
    cursor in = *c;
    skip(c, n);
    in.n = c->over ? 0 : (size_t)n;
    in.over = c->over;
    in.unknown = c->unknown;
    return in;
}

/* A text with a NUL at its end, padded to a multiple of 8 bytes or not. */
static void name(cursor *c, bool padded)
{
    const uint8_t *nul = c->n ? memchr(c->p, 0, c->n) : NULL;
    const size_t n = nul ? (size_t)(nul - c->p) + 1 : 0;
    require(c, nul);
    skip(c, padded ? (n + 7) / 8 * 8 : n);
}

/* An integer, a float or bits of `size` bytes. libhdf5 copies the bits that it declares from element to
 * element, and an exponent into 64 bits. */
static void hdf5_number(cursor *c, bool is_float, uint64_t sign, uint64_t size)
{
    const uint64_t all = size < 64 ? 8 * size : 512, first = hdf5_take(c, 2), precision = hdf5_take(c, 2);
    require(c, precision && first + precision <= all);
    if (!is_float)
        return;
    const uint64_t exponent = hdf5_take(c, 1), exponent_bits = hdf5_take(c, 1), mantissa = hdf5_take(c, 1),
                   mantissa_bits = hdf5_take(c, 1);
    skip(c, 4);
    require(c, sign < all && exponent + exponent_bits <= all && mantissa + mantissa_bits <= all &&
                   exponent_bits && exponent_bits <= 32 && mantissa_bits);
}

/* Returns the bytes of an element. */
static uint64_t datatype(cursor *c)
{
    const uint64_t head = hdf5_take(c, 1), version = head >> 4, kind = head & 15, bits = hdf5_take(c, 3),
                   size = hdf5_take(c, 4), n = bits & 0xffff;
    const bool padded = version < 3;
    require_known(c, version >= 1 && version <= 4);
    require(c, c->depth++ < MAX_DEPTH);
    switch (kind) {
    case 0: /* an integer, a float, bits */
    case 1:
    case 4: hdf5_number(c, kind == 1, bits >> 8 & 0xff, size); break;
    case 2: /* a time */ skip(c, 2); break;
    case 3: /* a text, a reference */
    case 7: break;
    case 5: /* opaque: its tag */ skip(c, bits & 0xff); break;
    case 6: /* members: a name, an offset, a type */
        for (uint64_t i = 0; i < n && !c->over; i++) {
            name(c, padded);
            skip(c, version == 1                 ? 4 + 28 /* dimensions */
                    : version == 2 || size >> 24 ? 4
                    : size >> 16                 ? 3
                    : size >> 8                  ? 2
                                                 : 1);
            datatype(c);
        }
        break;
    case 8: { /* names and values of a type */
        const uint64_t each = datatype(c);
        for (uint64_t i = 0; i < n && !c->over; i++)
            name(c, padded);
        skip(c, hdf5_product(c, n, each));
        break;
    }
    case 9: /* any number of a type */ datatype(c); break;
    case 10: { /* an array */
        const uint64_t rank = hdf5_take(c, 1);
        require(c, rank <= MAX_RANK);
        skip(c, padded ? 3 + 8 * rank : 4 * rank);
        datatype(c);
        break;
    }
    default: require_known(c, false);
    }
    c->depth--;
    return size;
}

/* Returns the bytes of an element of a type with a name, which has a header of its own. */
static uint64_t named_type(cursor *c)
{
    const uint64_t version = hdf5_take(c, 1), kind = hdf5_take(c, 1);
    require(c, version < 3 || kind == 2); /* not in a table of shared messages */
    skip(c, version == 1 ? 6 + (uint64_t)c->in->file->length_bytes : 0);
    const uint64_t at = hdf5_take(c, c->in->file->offset_bytes);
    uint64_t bytes = 0;
    if (!c->over)
        type_at(c, &bytes, at);
    return bytes;
}

/* Returns the number of elements. */
static uint64_t dataspace(cursor *c)
{
    const uint64_t version = hdf5_take(c, 1), rank = hdf5_take(c, 1), flags = hdf5_take(c, 1),
                   kind = hdf5_take(c, 1);
    uint64_t n = version == 2 && kind == 2 ? 0 : 1;
    require_known(c, version >= 1 && version <= 2);
    require(c, rank <= MAX_RANK);
    skip(c, version == 1 ? 4 : 0);
    for (uint64_t d = 0; d < rank && !c->over; d++)
        n = hdf5_product(c, n, hdf5_take(c, c->in->file->length_bytes));
    skip(c, flags & 1 ? rank * (uint64_t)c->in->file->length_bytes : 0); /* the largest dimensions */
    return n;
}

static void note(ls_hdf5_attributes *a, const char *name)
{
    for (int i = 0; i < a->n; i++)
        a->there |= strcmp(a->names[i], name) ? 0 : 1u << i;
}

static void attribute(cursor *c)
{
    const uint64_t version = hdf5_take(c, 1), flag_byte = hdf5_take(c, 1),
                   flags = version == 1 ? 0 : flag_byte;
    uint64_t bytes[3];
    cursor parts[3]; /* the name, the type, the shape */
    for (int i = 0; i < 3; i++)
        bytes[i] = hdf5_take(c, 2);
    require_known(c, version >= 1 && version <= 3);
    skip(c, version == 3 ? 1 : 0);
    for (int i = 0; i < 3; i++) {
        parts[i] = part(c, bytes[i]);
        skip(c, version == 1 ? (8 - bytes[i] % 8) % 8 : 0);
    }
    const char *called = (const char *)parts[0].p;
    name(&parts[0], false);
    if (c->unknown)
        c->in->attributes->elsewhere = true; /* its name is not known */
    else if (!parts[0].over)
        note(c->in->attributes, called);
    const uint64_t each = flags & 1 ? named_type(&parts[1]) : datatype(&parts[1]), n = dataspace(&parts[2]);
    require(c, !(flags & 2)); /* a shape is not in a table of shared messages */
    for (int i = 0; i < 3; i++)
        require(c, !is_wrong(&parts[i]));
    for (int i = 0; i < 3; i++)
        require_known(c, !parts[i].unknown);
    skip(c, hdf5_product(c, each, n));
}

/* Where a heap and its indexes are; an address of all ones is none. */
static void attribute_storage(cursor *c)
{
    const uint64_t version = hdf5_take(c, 1), flags = hdf5_take(c, 1),
                   none = UINT64_MAX >> (64 - 8 * c->in->file->offset_bytes);
    c->in->attributes->elsewhere = c->in->attributes->elsewhere || version;
    require_known(c, version == 0);
    skip(c, flags & 1 ? 2 : 0);
    for (int i = 0; i < (flags & 2 ? 3 : 2); i++) {
        const uint64_t at = hdf5_take(c, c->in->file->offset_bytes);
        require(c, at == none || at < c->in->file->n);
        c->in->attributes->elsewhere = c->in->attributes->elsewhere || at != none;
    }
}

static void fill_value(cursor *c)
{
    const uint64_t version = hdf5_take(c, 1), flags = hdf5_take(c, version < 3 ? 3 : 1);
    require_known(c, version <= 3);
    if (version < 2 || (version == 2 && flags >> 16) || (version == 3 && flags & 0x20))
        skip(c, hdf5_take(c, 4));
}

static void filters(cursor *c)
{
    const uint64_t version = hdf5_take(c, 1), n = hdf5_take(c, 1);
    require_known(c, version >= 1 && version <= 2);
    skip(c, version == 1 ? 6 : 0);
    for (uint64_t i = 0; i < n && !c->over; i++) {
        const uint64_t id = hdf5_take(c, 2), name_bytes = version == 1 || id >= 256 ? hdf5_take(c, 2) : 0;
        hdf5_take(c, 2);
        const uint64_t values = hdf5_take(c, 2);
        if (name_bytes) {
            cursor text = part(c, name_bytes);
            name(&text, false);
            require(c, !text.over);
            skip(c, version == 1 ? (8 - name_bytes % 8) % 8 : 0);
        }
        skip(c, 4 * values + (version == 1 && values % 2 ? 4 : 0));
    }
}

/* Elements in the header itself. The code that reads elements elsewhere compares their size with the
 * shape. */
static void layout(cursor *c)
{
    const uint64_t version = hdf5_take(c, 1), a = hdf5_take(c, 1), b = version < 3 ? hdf5_take(c, 1) : 0;
    require_known(c, version <= 4);
    if (version >= 3 && a == 0)
        skip(c, hdf5_take(c, 2));
    else if (version < 3 && b == 0) {
        skip(c, 5 + 4 * a);
        skip(c, hdf5_take(c, 4));
    }
}

static const char IN_TABLE[] = "";

/* NULL, or what the message is, if it declares sizes that it does not have. `flags` 2: its contents are
 * shared: it is a type with a name, or IN_TABLE. */
static const char *hdf5_check(header *h, uint64_t type, uint64_t flags, cursor c)
{
    static const char *const NAMES[] = {
        [1] = "the shape",  [3] = "the type",     [4] = "the fill value", [5] = "the fill value",
        [8] = "the layout", [11] = "the filters", [12] = "an attribute",  [21] = "the attributes' storage"
    };
    const bool shared = flags & 2;
    if (type >= sizeof NAMES / sizeof *NAMES || !NAMES[type] || (h->type_only && type != 3))
        return NULL;
    if (shared && (type != 3 || (c.n > 1 && c.p[0] == 3 && c.p[1] == 1)))
        return IN_TABLE;
    if (shared && h->type_only)
        require(&c, false);
    else if (type == 3) {
        require(&c, !h->has_type); /* libhdf5 takes the first */
        h->has_type = true;
        h->type_bytes = shared ? named_type(&c) : datatype(&c);
        h->type_unknown = c.unknown;
    } else if (type == 1)
        dataspace(&c);
    else if (type == 4)
        skip(&c, hdf5_take(&c, 4));
    else if (type == 5)
        fill_value(&c);
    else if (type == 8)
        layout(&c);
    else if (type == 11)
        filters(&c);
    else if (type == 12)
        attribute(&c);
    else
        attribute_storage(&c);
    return is_wrong(&c) ? NAMES[type] : NULL;
}

static ls_status outside(const header *h, uint64_t at)
{
    return ls_fail(
        LS_E_FORMAT,
        "%s: its header has a block at byte %llu that is not part of the file: the file is damaged",
        h->file->what, (unsigned long long)at);
}

/* A continuation becomes a further block. */
static ls_status add_block(header *h, cursor *body)
{
    const uint64_t at = hdf5_take(body, h->file->offset_bytes), size = hdf5_take(body, h->file->length_bytes);
    if (body->over)
        return outside(h, at);
    struct block *blocks = ls_sys_grow(h->blocks, h->n_blocks, &h->room, sizeof *blocks);
    LS_TRY(ls_sys_have(blocks));
    h->blocks = blocks;
    h->blocks[h->n_blocks++] = (struct block){ at, size };
    return LS_OK;
}

/* The messages of one block. */
static ls_status messages(header *h, cursor c)
{
    const char *what = h->file->what;
    const size_t head = h->newer ? (size_t)h->newer : 8;
    h->bytes += c.n;
    if (h->bytes > h->file->n)
        return ls_fail(LS_E_FORMAT, "%s: the blocks of its header overlap: the file is damaged", what);
    while (c.n >= head) {
        const uint8_t *begin = c.p;
        const uint64_t type = hdf5_take(&c, h->newer ? 1 : 2), n = hdf5_take(&c, 2), flags = hdf5_take(&c, 1);
        skip(&c, head - (h->newer ? 4 : 5));
        cursor body = part(&c, n);
        ++*h->n_messages;
        const char *wrong = body.over ? "a message" : hdf5_check(h, type, flags, body);
        if (*h->n_messages > MAX_MESSAGES) /* before `wrong`, which a type with too many is */
            return ls_fail(LS_E_UNSUPPORTED,
                           "%s: its header has more than %d messages, such as attributes: copy the data set "
                           "without its attributes into a new file",
                           what, (int)MAX_MESSAGES);
        if (wrong == IN_TABLE)
            return ls_fail(LS_E_UNSUPPORTED,
                           "%s: a part of its header is in the file's table of shared messages, which is not "
                           "read: copy the data set into a new file",
                           what);
        if (wrong)
            return ls_fail(LS_E_FORMAT,
                           "%s: %s in its header, at byte %llu, declares sizes that it does not have: the "
                           "file is damaged",
                           what, wrong, (unsigned long long)(begin - h->file->p));
        if (type == 16)
            LS_TRY(add_block(h, &body));
    }
    return LS_OK;
}

/* Returns the messages of the first block. */
static cursor first_block(header *h, uint64_t at)
{
    cursor c = { .p = h->file->p, .n = h->file->n, .in = h };
    skip(&c, at);
    if (c.n < 4 || memcmp(c.p, "OHDR", 4)) { /* version 1: version, messages, references, bytes */
        skip(&c, 8);
        const uint64_t n = hdf5_take(&c, 4);
        skip(&c, 4);
        return part(&c, n);
    }
    skip(&c, 5);
    const uint64_t flags = hdf5_take(&c, 1);
    skip(&c, (flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0)); /* times; when attributes move to a heap */
    h->newer = flags & 4 ? 6 : 4;
    return part(&c, hdf5_take(&c, 1 << (flags & 3)));
}

static cursor next_block(const header *h, int i)
{
    cursor c = { .p = h->file->p, .n = h->file->n, .in = h };
    skip(&c, h->blocks[i].at);
    c = part(&c, h->blocks[i].n);
    if (h->newer) { /* a signature, messages, a checksum */
        skip(&c, 4);
        require(&c, c.n >= 4);
        c.n -= c.over ? 0 : 4;
    }
    return c;
}

static ls_status walk_blocks(header *h, uint64_t at)
{
    const cursor first = first_block(h, at);
    if (first.over)
        return outside(h, at);
    LS_TRY(messages(h, first));
    for (int i = 0; i < h->n_blocks; i++) {
        const cursor c = next_block(h, i);
        if (c.over)
            return outside(h, h->blocks[i].at);
        LS_TRY(messages(h, c));
    }
    return LS_OK;
}

static ls_status walk(header *h, uint64_t at)
{
    const ls_status s = walk_blocks(h, at);
    free(h->blocks);
    return s;
}

/* The bytes of an element of the type that has its header there. */
static void type_at(cursor *c, uint64_t *bytes, uint64_t at)
{
    header h = { .file = c->in->file,
                 .attributes = c->in->attributes,
                 .type_only = true,
                 .n_messages = c->in->n_messages };
    require(c, walk(&h, at) == LS_OK);
    require_known(c, !h.type_unknown);
    require(c, h.type_bytes);
    *bytes = h.type_bytes;
}

ls_status ls_hdf5_check_header(ls_hdf5_attributes *attributes, const ls_hdf5_bytes *file, uint64_t at)
{
    int n_messages = 0;
    header h = { .file = file, .attributes = attributes, .n_messages = &n_messages };
    attributes->there = 0;
    attributes->elsewhere = false;
    return walk(&h, at);
}
