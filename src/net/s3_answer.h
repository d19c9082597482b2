/* s3_answer.h - what an S3 server answers: lists, and errors, in XML. */
#pragma once
#include "net/s3.h"

/* The text of the first element of this name from `xml` on, its entities resolved; malloc'ed, NULL: none. */
char *ls_s3_element(const char *xml, const char *name);
/* Appends a page of a list to `out`; *token: malloc'ed, what asks for the next page; NULL: this was the last.
 */
ls_status ls_s3_read_list(ls_s3_list *out, char **token, const char *xml, const char *prefix,
                          const char *url);
/* The failure that an answer with an error is, in one message: what was tried, what the server says, what to
 * do. */
ls_status ls_s3_refusal(const char *bucket, const char *prefix, const char *key, const char *what,
                        long answer, const char *xml);
