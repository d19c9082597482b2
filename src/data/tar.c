/* tar.c - see tar.h. A header is a block of 512 bytes: name [0, 100), size [124, 136), checksum [148, 156),
 * type 156, magic [257, 263), prefix of the name [345, 500). The fuzzer feeds all of it. */
#include "data/tar.h"

#include <string.h>

enum { BLOCK = 512, LONGEST = 4096 }; /* bytes of a name */

/* An octal number with spaces around it or, if the first bit is set, one in base 256. */
static bool tar_number(uint64_t *out, const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    size_t i = 0;
    if (p[0] & 0x80) {
        for (i = 1; i < n; i++) {
            if (v >> 55)
                return false;
            v = v << 8 | p[i];
        }
        *out = v;
        return p[0] == 0x80;
    }
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) {
        if (v >> 60)
            return false;
        v = v << 3 | (uint64_t)(p[i] - '0');
    }
    *out = v;
    return i == n || p[i] == ' ' || p[i] == 0;
}

static bool zeros(const uint8_t *p)
{
    for (int i = 0; i < BLOCK; i++)
        if (p[i])
            return false;
    return true;
}

/* The sum of the header's bytes, where those of the checksum itself count as spaces. */
static bool sum_is_right(const uint8_t *p)
{
    uint64_t said, sum = 0;
    for (int i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : p[i];
    return tar_number(&said, p + 148, 8) && said == sum;
}

static size_t length_in(const uint8_t *p, size_t most)
{
    const void *nul = memchr(p, 0, most);
    return nul ? (size_t)((const uint8_t *)nul - p) : most;
}

static void set_name(ls_tar *t, const uint8_t *h)
{
    ls_str_clear(&t->name);
    if (!memcmp(h + 257, "ustar", 6) && h[345]) {
        ls_str_add_n(&t->name, (const char *)h + 345, length_in(h + 345, 155));
        ls_str_add(&t->name, "/");
    }
    ls_str_add_n(&t->name, (const char *)h, length_in(h, 100));
}

/* Records of pax, "LENGTH KEY=VALUE\n": takes the path and the size of the next file. */
static ls_status take_pax(ls_tar *t, const uint8_t *p, size_t n, size_t at, bool *named, uint64_t *size)
{
    for (size_t i = 0; i < n;) {
        size_t length = 0, k = i;
        while (k < n && k - i < 10 && p[k] >= '0' && p[k] <= '9')
            length = 10 * length + (size_t)(p[k++] - '0');
        if (k == i || k == n || p[k] != ' ' || length > n - i || length < k - i + 2 ||
            p[i + length - 1] != '\n')
            return ls_fail(LS_E_FORMAT, "%s: damaged pax record at offset %zu", t->what, at + i);
        const char *key = (const char *)p + k + 1;
        const size_t room = length - (k + 1 - i) - 1;
        if (room > 5 && !memcmp(key, "path=", 5)) {
            ls_str_clear(&t->name);
            ls_str_add_n(&t->name, key + 5, room - 5 < LONGEST ? room - 5 : LONGEST);
            *named = true;
        }
        if (room > 5 && !memcmp(key, "size=", 5)) {
            *size = 0;
            for (size_t j = 5; j < room && j < 20; j++) {
                if (key[j] < '0' || key[j] > '9')
                    return ls_fail(LS_E_FORMAT, "%s: damaged pax record at offset %zu", t->what, at + i);
                *size = 10 * *size + (uint64_t)(key[j] - '0');
            }
        }
        i += length;
    }
    return LS_OK;
}

/* An archive ends in two blocks of zeros, and most writers fill a record of 10240 bytes with them. One is
 * enough here, as for GNU tar: all files stand before it. Without one the archive was cut between two files.
 * Readers of tar stop at the zeros: what follows would be left out. It is a second archive, most likely. */
static ls_status check_end(const ls_tar *t)
{
    if (t->at == t->n)
        return ls_fail(LS_E_FORMAT,
                       "%s: truncated at offset %zu: the blocks of zeros that end a tar archive are missing; "
                       "get the file again",
                       t->what, t->n);
    for (size_t i = t->at; i < t->n; i++)
        if (t->p[i])
            return ls_fail(LS_E_FORMAT,
                           "%s: the tar archive ends at offset %zu, and more data follow at offset %zu: if "
                           "archives were joined, name each as a file of its own",
                           t->what, t->at, i);
    return LS_OK;
}

ls_status ls_tar_next(ls_tar *t, ls_tar_file *out, bool *end)
{
    bool named = false; /* a header before the file's own says its name */
    uint64_t pax_size = UINT64_MAX;
    *end = false;
    for (;;) {
        const size_t at = t->at;
        uint64_t size;
        if (at == t->n) /* an empty file has no t->p either */
            return check_end(t);
        const uint8_t *h = t->p + at;
        if (t->n - at >= BLOCK && zeros(h)) {
            *end = true;
            return check_end(t);
        }
        if (t->n - t->at < BLOCK)
            return ls_fail(LS_E_FORMAT,
                           "%s: truncated at offset %zu, inside a header of tar; get the file again", t->what,
                           t->n);
        if (!sum_is_right(h) || !tar_number(&size, h + 124, 12))
            return ls_fail(LS_E_FORMAT,
                           "%s: no header of tar at offset %zu; is this an uncompressed tar archive?",
                           t->what, at);
        const char type = (char)h[156];
        const bool file = type == '0' || type == 0 || type == '7';
        if (file && pax_size != UINT64_MAX)
            size = pax_size;
        if (type >= '1' && type <= '6') /* links, devices and folders have no data */
            size = 0;
        if (size > t->n - at - BLOCK)
            return ls_fail(
                LS_E_FORMAT,
                "%s: truncated at offset %zu: the file at offset %zu has %llu bytes; get the file again",
                t->what, t->n, at, (unsigned long long)size);
        const size_t whole = ((size_t)size + BLOCK - 1) / BLOCK * BLOCK, left = t->n - at - BLOCK;
        t->at += BLOCK + (whole < left ? whole : left);
        if (type == 'L') {
            ls_str_clear(&t->name);
            ls_str_add_n(&t->name, (const char *)h + BLOCK,
                         length_in(h + BLOCK, size < LONGEST ? size : LONGEST));
            named = true;
        } else if (type == 'x') {
            LS_TRY(take_pax(t, h + BLOCK, (size_t)size, at + BLOCK, &named, &pax_size));
        } else if (!file) {
            named = type == 'K' || type == 'g' ? named : false;
            pax_size = type == 'K' || type == 'g' ? pax_size : UINT64_MAX;
        } else {
            if (!named)
                set_name(t, h);
            LS_TRY(ls_str_status(&t->name));
            *out = (ls_tar_file){ .name = ls_str_text(&t->name), .offset = at + BLOCK, .size = (size_t)size };
            return LS_OK;
        }
    }
}
