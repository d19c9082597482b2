/* idx.h - IDX files, the format of MNIST: a big-endian header (two zero bytes, the type 0x08 = u8, the number
 * of dimensions, and each size as u32), then the bytes in row-major order, and nothing else. A file may be
 * gzip; its first bytes tell, not its name. */
#pragma once
#include "base/file.h"

/* A parsed file. It points into bytes that the caller owns. */
typedef struct ls_idx {
    int rank;
    int64_t dims[3];
    const uint8_t *data; /* [dims] */
    size_t bytes;        /* product of the dimensions */
} ls_idx;

/* rank 3: images [n, height, width]; rank 1: labels [n]. Messages begin with `what` (a path). Never reads
 * beyond `size`. */
ls_status ls_idx_parse(ls_idx *out, const void *bytes, size_t size, int rank, const char *what);
/* Inflates a gzip member that must contain exactly one IDX file. *out is malloc'ed. The header is inflated
 * first, so memory is limited by the size that it claims, which in turn must be possible for `size` bytes of
 * deflate. */
ls_status ls_idx_inflate(uint8_t **out, size_t *out_size, const void *bytes, size_t size, int rank,
                         const char *what);
bool ls_idx_is_gzip(const void *bytes, size_t size);
/* Whether these bytes behind a member of gzip are none, or only zeros. */
bool ls_gzip_ended(const uint8_t *bytes, size_t size);

/* An IDX file in memory: a mapping of the file, a mapping of its inflated copy in the cache, or (without a
 * cache) heap memory. */
typedef struct ls_idx_file {
    ls_idx idx;
    ls_mapping map;
    uint8_t *heap;
    uint64_t digest; /* xxh3 of the inflated bytes: the same for x and x.gz */
} ls_idx_file;

/* The end of an inflated copy in the cache, after the IDX bytes. */
typedef struct ls_idx_footer {
    uint64_t magic, source; /* source: xxh3 of the gzip file */
    uint64_t digest, hash;  /* xxh3 of the IDX bytes; xxh3 of this footer up to here */
} ls_idx_footer;
ls_idx_footer ls_idx_footer_of(const void *idx, size_t size, uint64_t source);
ls_status ls_idx_open(ls_idx_file *out, const char *path, int rank);
void ls_idx_close(ls_idx_file *f); /* may be called twice */
