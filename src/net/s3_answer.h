/* s3_answer.h - what an S3 server answers: lists, and errors, in XML. */
#pragma once
#include "net/http.h"
#include "net/s3.h"

/* The text of the first element of this name from `xml` on, its entities resolved; malloc'ed, NULL: none. */
char *ls_s3_element(const char *xml, const char *name);
/* A part of a text: what lies in an element that holds others. */
typedef struct ls_s3_part {
    const char *from, *to;
} ls_s3_part;
/* The next element of this name in *rest, from which it is taken; false: there is none. */
bool ls_s3_next(ls_s3_part *out, ls_s3_part *rest, const char *name);
/* As ls_s3_element, within the part only. */
char *ls_s3_element_of(ls_s3_part part, const char *name);
/* Appends a page of a list to `out`; *token: malloc'ed, what asks for the next page; NULL: this was the last.
 */
ls_status ls_s3_read_list(ls_s3_list *out, char **token, const char *xml, const char *prefix,
                          const char *url);
/* The failure that the answer to `r` is, in one message: what was tried, what the server says, what to do. */
ls_status ls_s3_refusal(const char *bucket, const char *prefix, const char *key, const char *what,
                        const ls_http *r, const char *xml);
