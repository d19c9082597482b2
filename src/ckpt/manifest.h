/* manifest.h - manifest.json: the files of a checkpoint, and a checksum for every piece of them. Private to
 * src/ckpt.
 *
 *     {"format":"lockstep checkpoint","version":1,"files":[
 *     {"name":"config.json","size":250,"pieces":[[0,250,"1f2e3d4c5b6a7988"]]},
 *     ...],
 *     "digest":"0123456789abcdef"}
 *
 * A piece is [offset, length, xxh3 of these bytes (64 bits, seed 0, hexadecimal)]. The pieces of a file
 * follow one another from 0 to its size; Lockstep writes pieces of at most 8 MiB. `digest` is the xxh3 of all
 * bytes of manifest.json before the line that contains it. */
#pragma once
#include "base/str.h"
#include "ckpt/checkpoint.h"

#define LS_MANIFEST "manifest.json"
#define LS_MANIFEST_PIECE ((uint64_t)8 << 20)

/* A manifest in memory. To write one, ranks that list the same files in the same order may collect their
 * pieces. */
typedef struct ls_piece {
    uint64_t file, offset, length, sum;
} ls_piece;
typedef struct ls_manifest {
    struct ls_manifest_file {
        char name[64];
        uint64_t size;
    } * files;
    int n_files;
    ls_piece *pieces; /* in any order */
    int64_t n, room;
    const ls_sparse *sparse; /* brings bytes before they are verified; NULL: they are there */
    bool *proved;            /* [n], if it was read: the piece's bytes have been verified */
} ls_manifest;
/* *file receives its number. LS_E_MEMORY. */
ls_status ls_manifest_add_file(ls_manifest *m, const char *name, uint64_t size, int *file);
/* LS_E_MEMORY. */
ls_status ls_manifest_add(ls_manifest *m, int64_t n, const ls_piece *pieces);
void ls_manifest_sort(ls_manifest *m); /* by file and offset */
/* The text of manifest.json. Sorts the pieces. LS_E_ARG, with file and bytes, if the pieces do not cover
 * every byte exactly once. */
ls_status ls_manifest_text(ls_str *out, ls_manifest *m);
void ls_manifest_release(ls_manifest *m);

/* Reads the manifest of a folder and checks everything except the files' bytes: its own digest, that every
 * file exists with its size, and that pieces are in order. */
ls_status ls_manifest_read(ls_manifest *out, const char *dir);
/* Verifies bytes. FULL: each of `parts` callers verifies every parts-th piece, beginning with number `part`.
 * LOADED: everything except the data of tensors. */
ls_status ls_manifest_check(ls_manifest *m, const char *dir, ls_verify how, int part, int parts);
/* Verifies the pieces that contain bytes [from, to) of file `path`, which is mapped at `bytes`, unless they
 * have been verified. */
ls_status ls_manifest_prove(ls_manifest *m, const char *path, const uint8_t *bytes, uint64_t from,
                            uint64_t to);

/* Everything that ls_ranges_load takes from `w` (may be NULL) is verified with `m`, which must live longer
 * than `w`. */
void ls_weights_prove(ls_weights *w, ls_manifest *m);
ls_manifest *ls_weights_proof(const ls_weights *w, const ls_weight *t); /* of its tensor t; NULL: none */
