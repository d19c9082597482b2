/* source_hash.h - the xxh3 of a file's content. It is remembered in the cache by path, size, times and inode,
 * so that a start does not read files again that have not changed. Each hash is a file in a folder `known`,
 * which may be deleted at any time. */
#pragma once
#include "lockstep/status.h"

/* A key that identifies a file's content without reading it. 0: the file is too young to be sure, because a
 * change within the same tick of the clock leaves its times as they are. */
uint64_t ls_source_key(const char *path);
uint64_t ls_source_recall(const char *known, uint64_t key); /* 0: not remembered */
/* A failure is only logged. Does nothing if the cache is frozen. */
void ls_source_remember(const char *known, uint64_t key, uint64_t hash);
/* The hash: remembered, or else computed and remembered. */
ls_status ls_source_hash(uint64_t *out, const char *path, const char *known);
/* The path DIR/HASH.EXT, with the hash in hexadecimal; malloc'ed. */
char *ls_hash_path(const char *dir, uint64_t hash, const char *extension);
