/* zip.h - the container of PyTorch's files: a zip archive whose entries are stored as they are. Private to
 * src/ckpt. */
#pragma once
#include "base/arena.h"
#include "base/file.h"
#include "base/str.h"

typedef struct ls_zip_entry {
    const char *name;
    uint64_t offset, bytes; /* of its data, inside the file */
    uint32_t crc;           /* what the archive says; ls_zip_verify compares */
} ls_zip_entry;

typedef struct ls_zip {
    ls_zip_entry *entries; /* in the order of the archive's directory */
    int64_t count;
    const uint8_t *bytes;
    const char *path;
} ls_zip;

/* Reads the directory of the archive that the `size` bytes at `bytes`, which are file `path`, must be. Every
 * entry lies inside it. */
ls_status ls_zip_read(ls_zip *out, ls_arena *arena, const uint8_t *bytes, size_t size, const char *path);
/* Compares the bytes of every entry with its CRC-32. */
ls_status ls_zip_verify(const ls_zip *z);

/* Writes an archive as torch.save lays it out: every entry's data begin at a multiple of 64 bytes, sizes and
 * CRC follow them. One pass. */
typedef struct ls_zip_writer {
    ls_writer own, *out;      /* own: of a file that is this archive alone */
    uint64_t start;           /* of the archive, in the file */
    ls_str folder, directory; /* every entry's name begins with FOLDER/; the directory's entries so far */
    uint64_t count;
    struct {
        ls_str name;
        uint64_t offset, bytes, put;
        uint32_t crc;
    } now; /* the entry being written */
} ls_zip_writer;
/* a file of its own; or behind what a writer has so far: */
ls_status ls_zip_create(ls_zip_writer *z, const char *path, const char *folder);
void ls_zip_start(ls_zip_writer *z, ls_writer *out, const char *folder);
ls_status ls_zip_begin(ls_zip_writer *z, const char *name, uint64_t bytes);
ls_status ls_zip_put(ls_zip_writer *z, const void *data, size_t n);
ls_status ls_zip_end(ls_zip_writer *z); /* after exactly the announced bytes */
/* the three above in one */
ls_status ls_zip_add(ls_zip_writer *z, const char *name, const void *data, size_t n);
/* ends one that ls_zip_start began; releases z also when it fails */
ls_status ls_zip_finish(ls_zip_writer *z);
/* ends one that ls_zip_create made; releases z also when it fails */
ls_status ls_zip_commit(ls_zip_writer *z);
void ls_zip_abort(ls_zip_writer *z); /* either */
