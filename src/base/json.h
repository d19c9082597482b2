/* json.h - writes JSON as a stream, without building a tree. ls_json_parse reads it with jansson. */
#pragma once
#include <jansson.h>
#include "str.h"

/* The writer adds commas and escapes. Keys may be NULL in arrays. Numbers that are not finite become null. */
typedef struct ls_json {
    ls_str out;
    int depth;
    bool first[32];
} ls_json;
void ls_json_object(ls_json *j, const char *key);
void ls_json_array(ls_json *j, const char *key);
void ls_json_close_object(ls_json *j);
void ls_json_close_array(ls_json *j);
void ls_json_text(ls_json *j, const char *key, const char *value); /* value NULL: null */
void ls_json_int(ls_json *j, const char *key, int64_t value);
void ls_json_f32(ls_json *j, const char *key, float value);  /* reads back as the same float */
void ls_json_f64(ls_json *j, const char *key, double value); /* reads back as the same double */
void ls_json_bool(ls_json *j, const char *key, bool value);
void ls_json_raw(ls_json *j, const char *key, const char *json);

/* Ends the document with a line end, writes it to `path`, whose folder is made, and releases j. */
ls_status ls_json_write(ls_json *j, const char *path);

/* Parses a whole document. Duplicate keys are errors; more than ten million values are LS_E_UNSUPPORTED.
 * Messages begin with `what` (a path) and give line and column. Free the result with json_decref. */
ls_status ls_json_parse(json_t **out, const char *text, size_t n, const char *what);
