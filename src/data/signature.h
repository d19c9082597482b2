/* signature.h - what a file is by its first bytes, for messages about files that a reader does not take. */
#pragma once
#include <stddef.h>

/* "a Parquet file; write it as CSV ...", to say why a file is refused. NULL: no known kind. */
const char *ls_signature(const void *bytes, size_t n);
