/* text_folder.h - a folder with texts and a cache, for the tests of text. */
#pragma once
#include "base/log.h"
#include "data/corpus.h"
#include "data/tokens.h"

enum { END = 256 }; /* of the tokenizer `bytes` */

extern char *text_folder;
extern int tokenized;
extern char logged[4096];

void count_progress(void *context, const char *file, int64_t done, int64_t total, double rate);

int make_text_folder(void **state);

int drop_text_folder(void **state);

const char *put(const char *name, const char *text);

#define OPEN(set, split, path, length, ...)                                                           \
    ls_text_open((set), (split), (path), "bytes", (length), .threads = 2, .progress = count_progress, \
                 ##__VA_ARGS__)

/* What the samples of a set say, as text: ids "abc|" (| an end, also as padding), targets "bc|." (. ignored).
 */
const char *sample_text(const ls_dataset *set, int64_t i);

int files_in_cache(const char *ending);
