/* files.h - temporary folders, IDX and gzip files for the data tests. Failures of the helpers fail the
 * running test. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "lockstep/data.h"
#include "support/support.h"

/* A fresh folder; LOCKSTEP_CACHE becomes its `cache`, LOCKSTEP_DATA is unset. The caller frees; remove_tree
 * deletes. */
char *make_folder(void);
void remove_tree(char *dir);                       /* frees dir too */
const char *in(const char *dir, const char *name); /* DIR/NAME in one of a few static buffers */

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;
bytes make_idx(int rank, const uint32_t *dims,
               const uint8_t *data); /* data NULL: sample i of a rank-3 file is filled with i + pixel */
bytes make_gzip(bytes plain);
void write_bytes(const char *path, bytes b);
void free_bytes(bytes *b);
/* The four files of a named set in DIR: n images of h x w, label of sample i is i % classes. gzip as asked.
 */
void write_set(const char *dir, int train, int eval, int h, int w, int classes, bool gzip);

/* The call failed with this status and its message holds both texts. */
#define assert_fails(status, call, text1, text2)                                                         \
    do {                                                                                                 \
        ls_status got_ = (call);                                                                         \
        if (got_ != (status) || !strstr(ls_error_message(), (text1)) ||                                  \
            !strstr(ls_error_message(), (text2)))                                                        \
            fail_msg("%s: got %s \"%s\", wanted %s with \"%s\" and \"%s\"", #call, ls_status_name(got_), \
                     got_ == LS_OK ? "" : ls_error_message(), ls_status_name(status), (text1), (text2)); \
    } while (0)
#define assert_ok(call)                                    \
    do {                                                   \
        if ((call) != LS_OK)                               \
            fail_msg("%s: %s", #call, ls_error_message()); \
    } while (0)
