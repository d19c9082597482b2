/* s3.h - objects in a bucket of Amazon S3, or of a server that speaks its language (MinIO, Ceph, SeaweedFS).
 * A place is named s3://BUCKET/PREFIX; objects are named by their path below it. Requests are
 *
 *     ENDPOINT/BUCKET/PREFIX/KEY         GET, PUT, DELETE
 *     ENDPOINT/BUCKET?list-type=2&...    the list of objects
 *     ...?uploads, ?partNumber=&uploadId=  the parts of a large object: it is there, whole, when all are
 *
 * after docs.aws.amazon.com/AmazonS3/latest/API. A request that got no answer, or that the server could not
 * take then (5xx, 429), is repeated a few times. A redirection is an error, which names the bucket's region:
 * the keys are for ENDPOINT. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "lockstep/status.h"

typedef struct ls_s3 ls_s3;

bool ls_s3_is(const char *place); /* begins with s3:// */

/* Reads the place's name and the keys, without a request: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
 * AWS_SESSION_TOKEN, else the section AWS_PROFILE (default) of ~/.aws/credentials
 * (AWS_SHARED_CREDENTIALS_FILE); AWS_REGION or AWS_DEFAULT_REGION (us-east-1); AWS_ENDPOINT_URL_S3 or
 * AWS_ENDPOINT_URL (Amazon's). LS_E_USAGE: no keys, or no name of a bucket. Local. */
ls_status ls_s3_open(ls_s3 **out, const char *place);
void ls_s3_close(ls_s3 **s);

/* After a request to stop (base/stop.h) a call ends as soon as nothing has come or gone for so many seconds,
 * repeats nothing, and is LS_E_STOPPED. 0, as after ls_s3_open: at once. */
void ls_s3_set_patience(ls_s3 *s, double seconds);

typedef struct ls_s3_object {
    char *key; /* below the place */
    int64_t bytes;
} ls_s3_object;

typedef struct ls_s3_list {
    size_t n;
    ls_s3_object *at; /* by key, in the order of their bytes */
} ls_s3_list;

/* All objects whose key begins with `below`. Messages of all calls name the object and say what the server
 * said. LS_E_USAGE: the bucket or the keys are refused; LS_E_IO: the network, or the server cannot;
 * LS_E_STOPPED. Local. */
ls_status ls_s3_list_all(ls_s3_list *out, ls_s3 *s, const char *below);
void ls_s3_list_release(ls_s3_list *l);

/* Writes an object of these bytes, or of a file's. A file of more than LS_S3_PART bytes goes in parts; an
 * upload that fails is taken back, so that the server keeps no half one. Local. */
enum { LS_S3_PART = 16 << 20 };
ls_status ls_s3_put(ls_s3 *s, const char *key, const void *data, size_t n);
ls_status ls_s3_put_file(ls_s3 *s, const char *key, const char *path);
/* Takes back the uploads below `below` that nobody finished: those of killed processes. */
ls_status ls_s3_clean(ls_s3 *s, const char *below);

/* The object as text: malloc'ed, NUL behind the last byte. */
ls_status ls_s3_get(char **out, size_t *size, ls_s3 *s, const char *key);
/* `n` of its bytes, from byte `from` on; malloc'ed. */
ls_status ls_s3_get_part(char **out, ls_s3 *s, const char *key, uint64_t from, size_t n);
/* Into a file, which appears when it has all its bytes. Its folder exists. */
ls_status ls_s3_get_file(ls_s3 *s, const ls_s3_object *o, const char *path);
ls_status ls_s3_remove(ls_s3 *s, const char *key); /* also when there is none */
