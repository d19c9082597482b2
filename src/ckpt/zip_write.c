/* zip_write.c - writes a zip archive in one pass, with the padding, flags and records of torch.save. Sizes
 * and offsets that do not fit in 32 bits go to zip64 fields. As in PyTorch's files, there always is a zip64
 * end record. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/check.h"
#include "ckpt/zip.h"

enum { ALIGNMENT = 64, FLAG_UTF8 = 0x800, FLAG_SIZES_FOLLOW = 8, NEEDS_ZIP64 = 45 };

static void zip_add(ls_str *s, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++, x >>= 8)
        ls_str_add_n(s, &(char){ (char)x }, 1);
}

static bool large(uint64_t x)
{
    return x >= UINT32_MAX; /* in a 32-bit field, UINT32_MAX means: see the zip64 field */
}

static uint64_t small(uint64_t x) { return large(x) ? UINT32_MAX : x; }

static unsigned flags(uint64_t bytes) { return FLAG_UTF8 | (bytes > 0 ? FLAG_SIZES_FOLLOW : 0); }

static ls_status zip_put(ls_zip_writer *z, ls_str *record)
{
    ls_status s = ls_str_status(record);
    if (s == LS_OK)
        s = ls_writer_put(z->out, record->data, record->len);
    ls_str_release(record);
    return s;
}

void ls_zip_start(ls_zip_writer *z, ls_writer *out, const char *folder)
{
    *z = (ls_zip_writer){ .out = out, .start = out->offset };
    ls_str_add(&z->folder, folder);
}

ls_status ls_zip_create(ls_zip_writer *z, const char *path, const char *folder)
{
    ls_writer own;
    LS_TRY(ls_writer_open(&own, path));
    ls_zip_start(z, &own, folder);
    z->own = own;
    z->out = &z->own;
    return LS_OK;
}

/* offsets count from the start of the archive */
static uint64_t position(const ls_zip_writer *z) { return z->out->offset - z->start; }

ls_status ls_zip_begin(ls_zip_writer *z, const char *name, uint64_t bytes)
{
    ls_str_clear(&z->now.name);
    ls_str_printf(&z->now.name, "%s/%s", ls_str_text(&z->folder), name);
    LS_TRY(ls_str_status(&z->folder));
    LS_TRY(ls_str_status(&z->now.name));
    z->now.offset = position(z);
    z->now.bytes = bytes;
    z->now.put = 0;
    z->now.crc = 0;
    size_t zip64 = large(bytes) ? 20 : 0;
    size_t padding = -(position(z) + 30 + z->now.name.len + zip64 + 4) % ALIGNMENT;
    ls_str h = { 0 };
    ls_str_add_n(&h, "PK\3\4", 4);
    zip_add(&h, zip64 ? NEEDS_ZIP64 : 0, 2);
    zip_add(&h, flags(bytes), 2);
    zip_add(&h, 0, 2 + 2 + 2 + 4); /* not compressed; no time, no date; the CRC follows the data */
    zip_add(&h, zip64 ? UINT32_MAX : 0, 4);
    zip_add(&h, zip64 ? UINT32_MAX : 0, 4);
    zip_add(&h, z->now.name.len, 2);
    zip_add(&h, zip64 + 4 + padding, 2);
    ls_str_add_n(&h, z->now.name.data, z->now.name.len);
    if (zip64) {
        zip_add(&h, 1, 2);
        zip_add(&h, 16, 2);
        zip_add(&h, bytes, 8);
        zip_add(&h, bytes, 8);
    }
    ls_str_add_n(&h, "FB", 2);
    zip_add(&h, padding, 2);
    for (size_t i = 0; i < padding; i++)
        ls_str_add_n(&h, "Z", 1);
    return zip_put(z, &h);
}

ls_status ls_zip_put(ls_zip_writer *z, const void *data, size_t n)
{
    if (n == 0)
        return LS_OK;
    z->now.crc = (uint32_t)crc32_z(z->now.crc, data, n);
    z->now.put += n;
    return ls_writer_put(z->out, data, n);
}

static void add_to_directory(ls_zip_writer *z)
{
    ls_str *d = &z->directory, extra = { 0 };
    uint64_t bytes = z->now.bytes, offset = z->now.offset;
    if (large(bytes)) {
        zip_add(&extra, bytes, 8);
        zip_add(&extra, bytes, 8);
    }
    if (large(offset))
        zip_add(&extra, offset, 8);
    ls_str_add_n(d, "PK\1\2", 4);
    zip_add(d, 0, 2);
    zip_add(d, extra.len ? NEEDS_ZIP64 : 0, 2);
    zip_add(d, flags(bytes), 2);
    zip_add(d, 0, 2 + 2 + 2);
    zip_add(d, z->now.crc, 4);
    zip_add(d, small(bytes), 4);
    zip_add(d, small(bytes), 4);
    zip_add(d, z->now.name.len, 2);
    zip_add(d, extra.len ? extra.len + 4 : 0, 2);
    zip_add(d, 0, 2 + 2 + 2 + 4); /* no comment, first part, no attributes */
    zip_add(d, small(offset), 4);
    ls_str_add_n(d, z->now.name.data, z->now.name.len);
    if (extra.len) {
        zip_add(d, 1, 2);
        zip_add(d, extra.len, 2);
        ls_str_append(d, &extra);
    }
    ls_str_release(&extra);
    z->count++;
}

ls_status ls_zip_end(ls_zip_writer *z)
{
    LS_CHECK(z->now.put == z->now.bytes, "%s: %" PRIu64 " bytes announced, %" PRIu64 " written",
             z->now.name.data, z->now.bytes, z->now.put);
    add_to_directory(z);
    if (z->now.bytes == 0)
        return LS_OK;
    ls_str d = { 0 };
    ls_str_add_n(&d, "PK\7\10", 4);
    zip_add(&d, z->now.crc, 4);
    zip_add(&d, z->now.bytes, large(z->now.bytes) ? 8 : 4);
    zip_add(&d, z->now.bytes, large(z->now.bytes) ? 8 : 4);
    return zip_put(z, &d);
}

ls_status ls_zip_add(ls_zip_writer *z, const char *name, const void *data, size_t n)
{
    LS_TRY(ls_zip_begin(z, name, n));
    LS_TRY(ls_zip_put(z, data, n));
    return ls_zip_end(z);
}

static ls_status put_directory(ls_zip_writer *z)
{
    uint64_t offset = position(z), size = z->directory.len, end = offset + size;
    ls_str *d = &z->directory;
    ls_str_add_n(d, "PK\6\6", 4); /* zip64 end record */
    zip_add(d, 44, 8);
    zip_add(d, 0x031e, 2);
    zip_add(d, NEEDS_ZIP64, 2);
    zip_add(d, 0, 4 + 4);
    zip_add(d, z->count, 8);
    zip_add(d, z->count, 8);
    zip_add(d, size, 8);
    zip_add(d, offset, 8);
    ls_str_add_n(d, "PK\6\7", 4); /* where the zip64 end record is */
    zip_add(d, 0, 4);
    zip_add(d, end, 8);
    zip_add(d, 1, 4);
    ls_str_add_n(d, "PK\5\6", 4);
    zip_add(d, 0, 2 + 2);
    zip_add(d, z->count < UINT16_MAX ? z->count : UINT16_MAX, 2);
    zip_add(d, z->count < UINT16_MAX ? z->count : UINT16_MAX, 2);
    zip_add(d, small(size), 4);
    zip_add(d, small(offset), 4);
    zip_add(d, 0, 2);
    return zip_put(z, d);
}

static void zip_release(ls_zip_writer *z)
{
    ls_str_release(&z->folder);
    ls_str_release(&z->directory);
    ls_str_release(&z->now.name);
}

ls_status ls_zip_finish(ls_zip_writer *z)
{
    ls_status s = put_directory(z);
    zip_release(z);
    return s;
}

ls_status ls_zip_commit(ls_zip_writer *z)
{
    ls_status s = ls_zip_finish(z);
    if (s == LS_OK)
        s = ls_writer_commit(&z->own);
    else
        ls_writer_abort(&z->own);
    return s;
}

void ls_zip_abort(ls_zip_writer *z)
{
    if (z->out == &z->own)
        ls_writer_abort(&z->own);
    zip_release(z);
}
