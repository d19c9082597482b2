/* zip.h - zip archives: the container of PyTorch's files, whose entries are not compressed, and of NumPy's
 * .npz, whose entries may be. */
#pragma once
#include "base/arena.h"
#include "base/file.h"
#include "base/str.h"

typedef struct ls_zip_entry {
    const char *name;
    uint64_t offset, bytes; /* of its data as they lie inside the file */
    uint64_t whole;         /* bytes when they are inflated; `bytes` where they are stored as they are */
    bool deflated;
    uint32_t crc; /* as the archive says; ls_zip_verify compares it */
} ls_zip_entry;

typedef struct ls_zip {
    ls_zip_entry *entries; /* in the order of the archive's directory */
    int64_t count;
    const uint8_t *bytes;
    const char *path;
} ls_zip;

/* Reads the directory of the archive `path`, whose `size` bytes are at `bytes`. Every entry lies inside it.
 * deflated: whether entries may be compressed; else one that is fails with LS_E_UNSUPPORTED. */
ls_status ls_zip_read(ls_zip *out, ls_arena *arena, const uint8_t *bytes, size_t size, const char *path,
                      bool deflated);
/* A deflated entry in memory of e->whole bytes, malloc'ed. LS_E_FORMAT: it is damaged. */
ls_status ls_zip_inflate(void **out, const ls_zip *z, const ls_zip_entry *e);
/* The first n bytes of a deflated entry, n <= e->whole. LS_E_FORMAT: it is damaged. */
ls_status ls_zip_inflate_start(void *to, size_t n, const ls_zip *z, const ls_zip_entry *e);
/* Compares the bytes of every entry, of which none is deflated, with its CRC-32. */
ls_status ls_zip_verify(const ls_zip *z);

/* Writes an archive with the layout of torch.save, in one pass: the data of an entry begin at a multiple of
 * 64 bytes and are followed by sizes and CRC. */
typedef struct ls_zip_writer {
    ls_writer own, *out;      /* own: if the archive has a file of its own */
    uint64_t start;           /* where the archive begins in the file */
    ls_str folder, directory; /* the first part of all names, "FOLDER/"; the directory's entries so far */
    uint64_t count;
    struct {
        ls_str name;
        uint64_t offset, bytes, put;
        uint32_t crc;
    } now; /* the entry being written */
} ls_zip_writer;
/* Begins an archive in a file of its own; or after what a writer has written so far. */
ls_status ls_zip_create(ls_zip_writer *z, const char *path, const char *folder);
void ls_zip_start(ls_zip_writer *z, ls_writer *out, const char *folder);
ls_status ls_zip_begin(ls_zip_writer *z, const char *name, uint64_t bytes);
ls_status ls_zip_put(ls_zip_writer *z, const void *data, size_t n);
ls_status ls_zip_end(ls_zip_writer *z); /* after exactly the announced bytes */
/* The three functions above in one. */
ls_status ls_zip_add(ls_zip_writer *z, const char *name, const void *data, size_t n);
/* Ends an archive begun by ls_zip_start. Releases z, also on failure. */
ls_status ls_zip_finish(ls_zip_writer *z);
/* Ends an archive begun by ls_zip_create. Releases z, also on failure. */
ls_status ls_zip_commit(ls_zip_writer *z);
void ls_zip_abort(ls_zip_writer *z); /* for both */
