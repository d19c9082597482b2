/* manifest.h - manifest.json: what files a checkpoint has, and a checksum for every piece of them. Private to
 * src/ckpt.
 *
 *     {"format":"lockstep checkpoint","version":1,"files":[
 *     {"name":"config.json","size":250,"pieces":[[0,250,"1f2e3d4c5b6a7988"]]},
 *     ...],
 *     "digest":"0123456789abcdef"}
 *
 * A piece is [offset, length, xxh3 of these bytes (64 bits, seed 0, hexadecimal)]; pieces follow one another
 * from 0 to the file's size and are at most 8 MiB when written here. `digest` is the xxh3 of all bytes of
 * manifest.json before the line that holds it. */
#pragma once
#include "base/str.h"
#include "ckpt/checkpoint.h"

#define LS_MANIFEST "manifest.json"
#define LS_MANIFEST_PIECE ((uint64_t)8 << 20)

/* What was written, from which the manifest is made. Ranks that list the same files in the same order may put
 * their pieces together. */
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
    bool *proved; /* [n] of one that was read: pieces whose bytes have been compared */
} ls_manifest;
/* *file: its number. LS_E_MEMORY. */
ls_status ls_manifest_add_file(ls_manifest *m, const char *name, uint64_t size, int *file);
/* LS_E_MEMORY. */
ls_status ls_manifest_add(ls_manifest *m, int64_t n, const ls_piece *pieces);
void ls_manifest_sort(ls_manifest *m); /* pieces by file and place */
/* The text of manifest.json. LS_E_ARG, naming file and bytes, where the pieces do not cover every byte
 * exactly once. Sorts them. */
ls_status ls_manifest_text(ls_str *out, ls_manifest *m);
void ls_manifest_release(ls_manifest *m);

/* From a folder. Everything is checked but the bytes of the files: the manifest's own digest, that every file
 * is there with its size, that pieces are in order. */
ls_status ls_manifest_read(ls_manifest *out, const char *dir);
/* Compares bytes. FULL: of `parts` callers each every parts-th piece, beginning with number `part`. LOADED:
 * all files but the data of tensors. */
ls_status ls_manifest_check(ls_manifest *m, const char *dir, ls_verify how, int part, int parts);
/* Compares the pieces that hold bytes [from, to) of file `path`, which is mapped at `bytes`, where that has
 * not been done. */
ls_status ls_manifest_prove(ls_manifest *m, const char *path, const uint8_t *bytes, uint64_t from,
                            uint64_t to);

/* Whatever ls_ranges_load takes from `w` (may be NULL) is proved by `m`, which must outlive it. */
void ls_weights_prove(ls_weights *w, ls_manifest *m);
ls_manifest *ls_weights_proof(const ls_weights *w); /* NULL: none */
