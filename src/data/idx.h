/* idx.h - IDX files, the format of MNIST: big-endian header (two zero bytes, type 0x08 = u8, number of
 * dimensions, their sizes as u32), then the bytes in row-major order, and nothing after them. Plain or gzip,
 * told apart by their first bytes, not by the name. */
#pragma once
#include "base/file.h"

/* Views bytes that somebody else owns. */
typedef struct ls_idx {
    int rank;
    int64_t dims[3];
    const uint8_t *data; /* [dims] */
    size_t bytes;        /* product of the dims */
} ls_idx;

/* rank 3: images [n, height, width]; rank 1: labels [n]. `what` (a path) begins every message. Never reads
 * beyond `size`. */
ls_status ls_idx_parse(ls_idx *out, const void *bytes, size_t size, int rank, const char *what);
/* Inflates one gzip member that must hold exactly one IDX file: *out is malloc'ed. The header is inflated
 * first, so memory is bounded by what it claims, and that by what `size` bytes of deflate can hold. */
ls_status ls_idx_inflate(uint8_t **out, size_t *out_size, const void *bytes, size_t size, int rank,
                         const char *what);
bool ls_idx_is_gzip(const void *bytes, size_t size);

/* An IDX file in memory: a mapping of the file, of its inflated copy in the cache, or heap memory where there
 * is no cache. */
typedef struct ls_idx_file {
    ls_idx idx;
    ls_mapping map;
    uint8_t *heap;
    uint64_t digest; /* xxh3 of the inflated IDX bytes: the same for x and x.gz */
} ls_idx_file;

/* The last bytes of an inflated copy in the cache, behind its IDX bytes. */
typedef struct ls_idx_footer {
    uint64_t magic, source; /* source: xxh3 of the gzip file */
    uint64_t digest, hash;  /* xxh3 of the IDX bytes, and of this footer up to here */
} ls_idx_footer;
ls_idx_footer ls_idx_footer_of(const void *idx, size_t size, uint64_t source);
ls_status ls_idx_open(ls_idx_file *out, const char *path, int rank);
void ls_idx_close(ls_idx_file *f); /* harmless twice */
