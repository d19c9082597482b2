/* run.h - runs for the tests of this folder. */
#pragma once
#include "base/json.h"
#include "record/metrics.h"

ls_recipe *make_recipe(const char *storage, const char *extra);

/* The whole file "storage/one/NAME". */
char *file_of_run(const char *storage, const char *name);

json_t *parse_json(const char *text, size_t n);

/* Row number `i` of metrics.jsonl. */
json_t *metrics_row(const char *storage, int i);

const char *text_of(const json_t *o, const char *key);

void run_in_child(void (*body)(const char *), const char *storage);
