/* source_hash.h - the xxh3 of a file's content, remembered in the cache under (path, size, times, inode), so
 * that a start does not read again what has not changed. Each in a folder `known`, which may be deleted at
 * any time. */
#pragma once
#include "lockstep/status.h"

/* What identifies a file's content without reading it; 0 if the file is too young to be sure: one that
 * changes within a tick of the clock keeps its times. */
uint64_t ls_source_key(const char *path);
uint64_t ls_source_recall(const char *known, uint64_t key); /* 0: none */
/* a failure is only logged; nothing when the cache is frozen */
void ls_source_remember(const char *known, uint64_t key, uint64_t hash);
/* The hash: recalled, else computed and remembered. */
ls_status ls_source_hash(uint64_t *out, const char *path, const char *known);
/* DIR/HASH.EXT with the hash in hex; malloc'ed. */
char *ls_hash_path(const char *dir, uint64_t hash, const char *extension);
