/* idx.c - parses IDX files and inflates gzip, both in memory. The fuzzer feeds all of it: no input may cause
 * a read outside the given bytes, and each error says where it is and what was expected. */
#include "data/idx.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/stop.h"
#include "base/sys.h"
#include "data/array_room.h"

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static size_t header_size(int rank) { return 4 + 4 * (size_t)rank; }

enum { PART = 1 << 24 }; /* bytes between two checks for a request to stop */

#define AGAIN "get the file again" /* advice if bytes are missing or wrong */

static ls_status parse_header(ls_idx *out, const uint8_t *p, size_t size, int rank, const char *what)
{
    const char *kind = rank == 3 ? "images [n, height, width]" : "labels [n]";
    *out = (ls_idx){ .rank = rank };
    if (size < 4)
        return ls_fail(LS_E_FORMAT,
                       "%s: %zu bytes at offset 0, an IDX file starts with a header of %zu; " AGAIN, what,
                       size, header_size(rank));
    if (p[0] != 0 || p[1] != 0)
        return ls_fail(
            LS_E_FORMAT,
            "%s: not an IDX file: bytes %02x %02x %02x %02x at offset 0, expected 00 00 08 %02x (%s); " AGAIN,
            what, p[0], p[1], p[2], p[3], (unsigned)rank, kind);
    if (p[2] != 0x08)
        return ls_fail(
            LS_E_FORMAT,
            "%s: IDX element type 0x%02x at offset 2, expected 0x08 (unsigned bytes); convert the file", what,
            p[2]);
    if (p[3] != rank)
        return ls_fail(
            LS_E_FORMAT,
            "%s: IDX file with %u dimensions (offset 3), expected %d: %s; are images and labels swapped?",
            what, p[3], rank, kind);
    if (size < header_size(rank))
        return ls_fail(LS_E_FORMAT, "%s: truncated at offset %zu inside the IDX header of %zu bytes; " AGAIN,
                       what, size, header_size(rank));
    uint64_t total = 1;
    for (int i = 0; i < rank; i++) {
        uint32_t d = big_endian(p + 4 + 4 * i);
        if (d == 0)
            return ls_fail(LS_E_FORMAT,
                           "%s: IDX dimension %d is 0 (offset %d), the file holds nothing; " AGAIN, what, i,
                           4 + 4 * i);
        out->dims[i] = (int64_t)d;
        if (__builtin_mul_overflow(total, (uint64_t)d, &total) || total > (uint64_t)1 << 47)
            return ls_fail(LS_E_FORMAT, "%s: IDX header claims more than 2^47 bytes (offset %d); " AGAIN,
                           what, 4 + 4 * i);
    }
    out->bytes = (size_t)total;
    return LS_OK;
}

ls_status ls_idx_parse(ls_idx *out, const void *bytes, size_t size, int rank, const char *what)
{
    const uint8_t *p = bytes;
    LS_TRY(parse_header(out, p, size, rank, what));
    size_t expected = header_size(rank) + out->bytes;
    if (size < expected)
        return ls_fail(LS_E_FORMAT, "%s: truncated at offset %zu, the IDX header promises %zu bytes; " AGAIN,
                       what, size, expected);
    if (size > expected)
        return ls_fail(
            LS_E_FORMAT,
            "%s: %zu bytes after the end of the data at offset %zu (the IDX header promises %zu); " AGAIN,
            what, size - expected, expected, expected);
    out->data = p + header_size(rank);
    return LS_OK;
}

bool ls_idx_is_gzip(const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    return size >= 2 && p[0] == 0x1f && p[1] == 0x8b;
}

bool ls_gzip_ended(const uint8_t *bytes, size_t size)
{
    size_t i = 0;
    while (i < size && !bytes[i])
        i++;
    return i == size;
}

/* Inflates until there are `n` bytes; fewer are an error. at_end: checks that the member ends there, and its
 * CRC. */
static ls_status inflate_some(z_stream *z, const uint8_t *base, size_t size, uint8_t *to, size_t n,
                              bool at_end, const char *what)
{
    size_t done = 0;
    uint8_t spare;
    for (;;) {
        size_t in_left = size - (size_t)(z->next_in - base);
        uInt in = (uInt)(in_left < PART ? in_left : PART), room = (uInt)(n - done < PART ? n - done : PART);
        LS_TRY(ls_stop_check("inflating %s", what));
        bool probing = room == 0; /* all wanted bytes are there: does the member end, or continue? */
        z->avail_in = in;
        z->next_out = probing ? &spare : to + done;
        z->avail_out = probing ? 1 : room;
        int r = inflate(z, Z_NO_FLUSH);
        size_t got = (probing ? 1 : room) - z->avail_out, at = (size_t)(z->next_in - base);
        if (probing && got)
            return ls_fail(
                LS_E_FORMAT,
                "%s: inflates to more than the %lu bytes its IDX header promises (gzip offset %zu); " AGAIN,
                what, (unsigned long)(z->total_out - 1), at);
        done += probing ? 0 : got;
        if (r == Z_STREAM_END) {
            if (done < n)
                return ls_fail(LS_E_FORMAT,
                               "%s: the gzip data ends at offset %zu after %lu inflated bytes, %zu more were "
                               "promised; " AGAIN,
                               what, at, (unsigned long)z->total_out, n - done);
            return LS_OK;
        }
        if (r == Z_MEM_ERROR)
            return ls_fail(LS_E_MEMORY, "%s: out of memory while inflating", what);
        if (r != Z_OK && r != Z_BUF_ERROR)
            return ls_fail(LS_E_FORMAT,
                           "%s: damaged gzip data at offset %zu (%s), after %lu inflated bytes; " AGAIN, what,
                           at, z->msg ? z->msg : "no reason given", (unsigned long)z->total_out);
        if (!at_end && done == n)
            return LS_OK;
        if (at == size && got == 0)
            return ls_fail(LS_E_FORMAT,
                           "%s: gzip data truncated at offset %zu, after %lu inflated bytes; " AGAIN, what,
                           size, (unsigned long)z->total_out);
    }
}

ls_status ls_idx_inflate(uint8_t **out, size_t *out_size, const void *bytes, size_t size, int rank,
                         const char *what)
{
    *out = NULL;
    *out_size = 0;
    if (!ls_idx_is_gzip(bytes, size))
        return ls_fail(LS_E_FORMAT, "%s: not a gzip file (no 1f 8b at offset 0)", what);
    z_stream z = { .next_in = (Bytef *)(uintptr_t)bytes };
    if (inflateInit2(&z, 15 + 16) != Z_OK) /* 15: the largest window; 16: gzip only */
        return ls_fail(LS_E_MEMORY, "%s: zlib cannot start inflating", what);

    ls_status s;
    uint8_t head[16] = { 0 }, *all = NULL;
    ls_idx idx;
    LS_TRY_TO(s, inflate_some(&z, bytes, size, head, 4, false, what), done);
    if (head[0] == 0 && head[1] == 0 && head[2] == 8 &&
        head[3] == rank) /* (else parse_header reports the first four bytes) */
        LS_TRY_TO(s, inflate_some(&z, bytes, size, head + 4, header_size(rank) - 4, false, what), done);
    LS_TRY_TO(s, parse_header(&idx, head, header_size(rank), rank, what), done);
    /* The best possible compression of deflate is 1032 : 1 (two bits for a match of 258 bytes). */
    if (idx.bytes / 1032 > size) {
        s = ls_fail(LS_E_FORMAT,
                    "%s: IDX header promises %zu bytes, a gzip file of %zu bytes cannot hold them; " AGAIN,
                    what, idx.bytes, size);
        goto done;
    }
    all = idx.bytes < ls_array_room_left() ? ls_sys_malloc(header_size(rank) + idx.bytes) : NULL;
    if (!all) {
        s = ls_fail(LS_E_MEMORY, "%s: no memory for %zu inflated bytes", what, idx.bytes);
        goto done;
    }
    memcpy(all, head, header_size(rank));
    LS_TRY_TO(s, inflate_some(&z, bytes, size, all + header_size(rank), idx.bytes, true, what), done);
    size_t end = (size_t)(z.next_in - (const uint8_t *)bytes);
    if (!ls_gzip_ended((const uint8_t *)bytes + end, size - end)) {
        s = ls_fail(LS_E_FORMAT, "%s: %zu bytes after the end of the gzip data at offset %zu; " AGAIN, what,
                    size - end, end);
        goto done;
    }
    *out = all;
    *out_size = header_size(rank) + idx.bytes;
    all = NULL;
done:
    free(all);
    inflateEnd(&z);
    return s;
}
