/* zip.c - reads the directory of a zip archive. Every number in it comes from outside: after ls_zip_read each
 * entry lies inside the file. It reads what PyTorch and NumPy write: one file, with entries that are stored
 * or deflated and not encrypted, and zip64 fields for large numbers. */
#include "ckpt/zip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/stop.h"
#include "base/sys.h"
#include "ckpt/safetensors.h"

/* bytes of the records, without names and extra fields */
enum { END = 22, LOCATOR = 20, END64 = 56, ENTRY = 46, LOCAL = 30 };

typedef struct directory {
    uint64_t offset, size, count;
} directory;

static uint64_t zip_number(const uint8_t *p, int bytes)
{
    uint64_t x = 0;
    for (int i = bytes - 1; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

static bool is(const uint8_t *p, const char signature[5]) { return memcmp(p, signature, 4) == 0; }

static ls_status zip_damaged(const char *path, const char *what)
{
    return ls_fail(LS_E_FORMAT, "%s: %s: the file is damaged or cut; copy it again or save it again", path,
                   what);
}

/* The end record is the last 22 bytes of the file. If a zip64 end record precedes it, that one counts. */
static ls_status find_directory(directory *d, const uint8_t *bytes, size_t size, const char *path)
{
    if (size < END || !is(bytes + size - END, "PK\5\6"))
        return zip_damaged(path, "it begins like a zip archive and does not end like one");
    const uint8_t *end = bytes + size - END;
    uint64_t limit = size - END;
    *d = (directory){ .count = zip_number(end + 10, 2),
                      .size = zip_number(end + 12, 4),
                      .offset = zip_number(end + 16, 4) };
    if (size >= END + LOCATOR + END64 && is(end - LOCATOR, "PK\6\7")) {
        uint64_t at = zip_number(end - LOCATOR + 8, 8);
        if (at > size - END - LOCATOR - END64 || !is(bytes + at, "PK\6\6"))
            return zip_damaged(path, "its zip64 end record is not where it is said to be");
        *d = (directory){ .count = zip_number(bytes + at + 32, 8),
                          .size = zip_number(bytes + at + 40, 8),
                          .offset = zip_number(bytes + at + 48, 8) };
        limit = at;
    }
    if (d->size > limit || d->offset > limit - d->size || d->count > d->size / ENTRY)
        return zip_damaged(path, "its directory does not lie inside it");
    return LS_OK;
}

/* Sizes and offsets that do not fit in 32 bits are in the zip64 extra field, in this order. */
static bool read_zip64(const uint8_t *extra, uint64_t n, uint64_t *const values[3])
{
    for (uint64_t at = 0; n - at >= 4;) {
        uint64_t id = zip_number(extra + at, 2), length = zip_number(extra + at + 2, 2);
        at += 4;
        if (length > n - at)
            return false;
        for (int i = 0; id == 1 && i < 3; i++)
            if (*values[i] == UINT32_MAX) {
                if (length < 8)
                    return false;
                *values[i] = zip_number(extra + at, 8);
                at += 8;
                length -= 8;
            }
        at += length;
    }
    return true;
}

static ls_status read_entry(ls_zip_entry *e, uint64_t *at, const directory *d, const ls_zip *z,
                            ls_arena *arena, bool deflated)
{
    const uint8_t *p = z->bytes + *at;
    uint64_t left = d->offset + d->size - *at;
    if (left < ENTRY || !is(p, "PK\1\2"))
        return zip_damaged(z->path, "its directory ends early");
    uint64_t flags = zip_number(p + 8, 2), method = zip_number(p + 10, 2), packed = zip_number(p + 20, 4),
             bytes = zip_number(p + 24, 4), local = zip_number(p + 42, 4);
    uint64_t name = zip_number(p + 28, 2), extra = zip_number(p + 30, 2), comment = zip_number(p + 32, 2);
    if (left < ENTRY + name + extra + comment || memchr(p + ENTRY, 0, name))
        return zip_damaged(z->path, "its directory ends early");
    char *text = ls_arena_alloc(arena, name + 1), shown[128], what[256];
    LS_TRY(ls_sys_have(text));
    memcpy(text, p + ENTRY, name);
    *at += ENTRY + name + extra + comment;
    ls_shown_name(shown, text);
    const bool packs = method == 8 && deflated;
    if (flags & 1 || (method != 0 && !packs))
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: its entry %s is %s; torch.save and numpy.savez store entries as they are: save "
                       "it again with those",
                       z->path, shown, flags & 1 ? "encrypted" : "compressed");
    bool fields = read_zip64(p + ENTRY + name, extra, (uint64_t *const[]){ &bytes, &packed, &local });
    uint64_t start = 0;
    if (fields && (packs || packed == bytes) && local < d->offset && d->offset - local >= LOCAL &&
        is(z->bytes + local, "PK\3\4"))
        start = local + LOCAL + zip_number(z->bytes + local + 26, 2) +
                /* (extra fields here may differ from those in the directory) */
                zip_number(z->bytes + local + 28, 2);
    if (start == 0 || start > d->offset || packed > d->offset - start) {
        snprintf(what, sizeof what, "its entry %s is not where the directory says", shown);
        return zip_damaged(z->path, what);
    }
    *e = (ls_zip_entry){ .name = text,
                         .offset = start,
                         .bytes = packed,
                         .whole = bytes,
                         .deflated = packs,
                         .crc = (uint32_t)zip_number(p + 16, 4) };
    return LS_OK;
}

ls_status ls_zip_read(ls_zip *out, ls_arena *arena, const uint8_t *bytes, size_t size, const char *path,
                      bool deflated)
{
    directory d = { 0 };
    LS_TRY(find_directory(&d, bytes, size, path));
    ls_zip z = { .entries = LS_ARENA_ARRAY(arena, ls_zip_entry, d.count + 1),
                 .count = (int64_t)d.count,
                 .bytes = bytes,
                 .path = path };
    uint64_t at = d.offset;
    LS_TRY(ls_arena_status(arena));
    for (int64_t i = 0; i < z.count; i++)
        LS_TRY(read_entry(&z.entries[i], &at, &d, &z, arena, deflated));
    *out = z;
    return LS_OK;
}

/* Inflates to exactly e->whole bytes at `to`. False: the data are damaged. */
static ls_status inflate_to(uint8_t *to, bool *sound, const ls_zip *z, const ls_zip_entry *e)
{
    enum { PART = 1 << 24 };
    z_stream s = { .next_in = (Bytef *)(uintptr_t)(z->bytes + e->offset) };
    const uint8_t *in_end = z->bytes + e->offset + e->bytes, *to_end = to + e->whole;
    uint8_t beyond; /* where a byte goes that should not be there */
    int r = Z_OK;
    if (inflateInit2(&s, -15) != Z_OK) /* no header: zip has its own */
        return ls_fail(LS_E_MEMORY, "%s: zlib cannot start inflating", z->path);
    s.next_out = to;
    ls_status status = LS_OK;
    while (r == Z_OK && (status = ls_stop_check("inflating %s", z->path)) == LS_OK) {
        const size_t in = (size_t)(in_end - s.next_in), left = (size_t)(to_end - s.next_out);
        const bool full = left == 0;
        s.avail_in = (uInt)(in < PART ? in : PART);
        s.avail_out = (uInt)(full ? 1 : left < PART ? left : PART);
        if (full)
            s.next_out = &beyond;
        r = inflate(&s, Z_NO_FLUSH);
        if (full && s.next_out != &beyond)
            r = Z_DATA_ERROR;
        else if (full)
            s.next_out = (Bytef *)(uintptr_t)to_end;
    }
    *sound = r == Z_STREAM_END && s.next_out == to_end;
    inflateEnd(&s);
    return status;
}

static ls_status damaged_entry(const ls_zip *z, const ls_zip_entry *e)
{
    char shown[128];
    return ls_fail(LS_E_FORMAT, "%s: its entry %s is damaged; use another copy", z->path,
                   ls_shown_name(shown, e->name));
}

ls_status ls_zip_inflate_start(void *to, size_t n, const ls_zip *z, const ls_zip_entry *e)
{
    enum { PART = 1 << 24 }; /* of input: far more than n bytes of output need */
    z_stream s = { .next_in = (Bytef *)(uintptr_t)(z->bytes + e->offset),
                   .avail_in = (uInt)(e->bytes < PART ? e->bytes : PART),
                   .next_out = to,
                   .avail_out = (uInt)n };
    if (inflateInit2(&s, -15) != Z_OK)
        return ls_fail(LS_E_MEMORY, "%s: zlib cannot start inflating", z->path);
    const int r = inflate(&s, Z_SYNC_FLUSH);
    inflateEnd(&s);
    return s.avail_out == 0 && (r == Z_OK || r == Z_STREAM_END || r == Z_BUF_ERROR) ? LS_OK
                                                                                    : damaged_entry(z, e);
}

ls_status ls_zip_inflate(void **out, const ls_zip *z, const ls_zip_entry *e)
{
    char shown[128];
    bool sound = e->whole / 1040 <= e->bytes; /* deflate makes no more than 1032 bytes of one */
    uint8_t *to = sound ? ls_sys_malloc(e->whole ? e->whole : 1) : NULL;
    *out = NULL;
    if (sound && !to)
        return ls_fail(LS_E_MEMORY, "%s: no memory for the %" PRIu64 " inflated bytes of %s", z->path,
                       e->whole, ls_shown_name(shown, e->name));
    const ls_status s = sound ? inflate_to(to, &sound, z, e) : LS_OK;
    if (s == LS_OK && sound && (uint32_t)crc32_z(0, to, e->whole) == e->crc) {
        *out = to;
        return LS_OK;
    }
    free(to);
    return s != LS_OK ? s : damaged_entry(z, e);
}

ls_status ls_zip_verify(const ls_zip *z)
{
    for (int64_t i = 0; i < z->count; i++) {
        const ls_zip_entry *e = &z->entries[i];
        char shown[128];
        uint32_t crc = 0;
        for (uint64_t at = 0, part; at < e->bytes; at += part) {
            LS_TRY(ls_stop_check("checking %s", z->path));
            part = e->bytes - at < 1 << 24 ? e->bytes - at : 1 << 24;
            crc = (uint32_t)crc32_z(crc, z->bytes + e->offset + at, part);
        }
        if (crc != e->crc)
            return ls_fail(LS_E_FORMAT,
                           "%s: bytes %" PRIu64 " to %" PRIu64 " (%s) are damaged: their CRC-32 is %08" PRIx32
                           ", the file says %08" PRIx32 "; use another copy",
                           z->path, e->offset, e->offset + e->bytes - 1, ls_shown_name(shown, e->name), crc,
                           e->crc);
    }
    return LS_OK;
}
