/* manifest.h - manifest.json: what files a checkpoint has, and a checksum for every piece of them. Private to src/ckpt.
 *
 *     {"format":"lockstep checkpoint","version":1,"files":[
 *     {"name":"config.json","size":250,"pieces":[[0,250,"1f2e3d4c5b6a7988"]]},
 *     ...],
 *     "digest":"0123456789abcdef"}
 *
 * A piece is [offset, length, xxh3 of these bytes (64 bits, seed 0, hexadecimal)]; pieces follow one another from 0 to the file's size and
 * are at most 8 MiB when written here. `digest` is the xxh3 of all bytes of manifest.json before the line that holds it. */
#pragma once
#include "ckpt/checkpoint.h"

#define LS_MANIFEST "manifest.json"
#define LS_MANIFEST_PIECE ((uint64_t)8 << 20)

/* Reads the `n` named files of `dir` and writes its manifest. */
ls_status ls_manifest_write(const char *dir, int n, const char *const *names);
/* See ls_checkpoint_verify. */
ls_status ls_manifest_check(const char *dir, ls_verify how, int *files);
