/* s3_keys.h - with which keys, and where, S3 is asked: what Amazon's own tools read. */
#pragma once
#include "lockstep/status.h"

typedef struct ls_s3_keys {
    char *endpoint, *region, *key, *secret, *session; /* session may be NULL */
} ls_s3_keys;

/* As ls_s3_open says; `place` is for the message. LS_E_USAGE when there are none. Local. */
ls_status ls_s3_keys_find(ls_s3_keys *out, const char *place);
void ls_s3_keys_release(ls_s3_keys *k);
