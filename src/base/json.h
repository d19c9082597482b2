/* json.h - writing JSON text in order, without a tree. Reading uses jansson through ls_json_parse. */
#pragma once
#include <jansson.h>
#include "str.h"

/* A tiny streaming writer: keys may be NULL inside arrays. Commas and escapes are its business. Non-finite
 * numbers become null. */
typedef struct ls_json {
    ls_str out;
    int depth;
    bool first[32];
} ls_json;
void ls_json_object(ls_json *j, const char *key);
void ls_json_array(ls_json *j, const char *key);
void ls_json_close_object(ls_json *j);
void ls_json_close_array(ls_json *j);
void ls_json_text(ls_json *j, const char *key, const char *value); /* NULL value: null */
void ls_json_int(ls_json *j, const char *key, int64_t value);
void ls_json_f32(ls_json *j, const char *key, float value);  /* round-trips */
void ls_json_f64(ls_json *j, const char *key, double value); /* round-trips */
void ls_json_bool(ls_json *j, const char *key, bool value);
void ls_json_raw(ls_json *j, const char *key, const char *json);

/* Parses a whole document; duplicate keys are errors; the message names `what` (a path), line and column.
 * Free with json_decref. */
ls_status ls_json_parse(json_t **out, const char *text, size_t n, const char *what);
