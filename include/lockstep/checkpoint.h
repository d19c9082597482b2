/* checkpoint.h - a program's own arrays, sharded into blocks over the ranks: each rank saves its block, and
 * any number of ranks load the arrays again.
 *
 *     double rows[4 + 2][512]; -- 4 rows of a field of this rank's, between two that are its neighbours'
 *     const ls_type mine = LS_TYPE(LS_F64, 4, 512);
 *     const ls_array field = { "temperature", LS_TYPE(LS_F64, 512, 512), .start = { 4 * rank },
 *                              .block = ls_tensor_of(rows[1], &mine) };
 *     LS_TRY(ls_arrays_save("step-100", 1, &field, group, .text = "{\"t\": 0.25}"));
 *     ...
 *     LS_TRY(ls_arrays_load("step-100", 1, &field, group)); -- other blocks, any number of ranks
 *
 * What is written is a checkpoint (docs/checkpoint.md): whole arrays in model.safetensors, whatever blocks
 * they came from, or on request a file for each rank, with checksums of all bytes; the folder is there when
 * it is whole. The calls are collective: every rank of the group makes them, with the same names and types in
 * the same order. What one rank cannot do fails on all, and then the group has failed. A group of NULL is one
 * rank. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "group.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_array {
    const char *name;
    ls_type type;               /* of the whole array */
    int64_t start[LS_MAX_DIMS]; /* where this rank's block begins in it */
    /* its sizes and its memory, of the array's element type; with strides where ghost cells lie around it. A
     * size of 0: nothing */
    ls_tensor block;
} ls_array;

typedef struct ls_arrays_save_opts {
    const char *text;  /* where the program stands, in its own words (UTF-8); rank 0's is kept. NULL: none */
    uint64_t max_file; /* bytes; more are written as several files. 0: no limit */
    bool per_rank;     /* each rank writes a file of its own, however large, with its blocks */
} ls_arrays_save_opts;
#define LS_ARRAYS_SAVE_DEFAULTS .text = NULL, .max_file = (uint64_t)5 << 30, .per_rank = false
LS_API ls_arrays_save_opts ls_arrays_save_opts_default(void);

/* Makes the folder `dir`, which must not be there. Together the ranks' blocks are every element of each array
 * once, or each is all of it (a scalar always is: then rank 0's is written): else LS_E_ARG. Strided blocks
 * are copied first, all at once. Left-overs of interrupted saves in the folder around it are deleted. */
LS_API ls_status ls_arrays_save_with(const char *dir, int64_t n, const ls_array *arrays, ls_group *g,
                                     const ls_arrays_save_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_arrays_save(...) ls_arrays_save_with(__VA_ARGS__)
#else
#define ls_arrays_save(dir, n, arrays, group, ...)                \
    LS_QUIETLY(ls_status,                                         \
               ls_arrays_save_with((dir), (n), (arrays), (group), \
                                   &(ls_arrays_save_opts){ LS_ARRAYS_SAVE_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* The same, in the background, as PyTorch's async_save: returns when every rank has copied its blocks, and a
 * thread of each rank writes the copies. From then on the caller may change, and free, all that it gave but
 * the group, which it may use; the copy of a rank is as large as its blocks, and lives until ls_arrays_wait.
 * Every rank calls that once; only then the folder gets its name, so a process that ends before leaves none.
 * Until then no other save may begin in the folder around `dir`: LS_E_ARG. */
typedef struct ls_arrays_saving ls_arrays_saving;
LS_API ls_status ls_arrays_save_async_with(ls_arrays_saving **out, const char *dir, int64_t n,
                                           const ls_array *arrays, ls_group *g,
                                           const ls_arrays_save_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_arrays_save_async(...) ls_arrays_save_async_with(__VA_ARGS__)
#else
#define ls_arrays_save_async(out, dir, n, arrays, group, ...)                  \
    LS_QUIETLY(ls_status,                                                      \
               ls_arrays_save_async_with((out), (dir), (n), (arrays), (group), \
                                         &(ls_arrays_save_opts){ LS_ARRAYS_SAVE_DEFAULTS, ##__VA_ARGS__ }))
#endif
/* The thread of this rank has written, or failed: ls_arrays_wait waits for no more than other ranks. Local.
 */
LS_API bool ls_arrays_written(const ls_arrays_saving *s);
/* Waits until every rank has written, and ends the save. What a thread could not do is this call's failure.
 * *save becomes NULL; where it is NULL already, nothing is to be done. Collective. */
LS_API ls_status ls_arrays_wait(ls_arrays_saving **save);

typedef struct ls_arrays_load_opts {
    bool partial; /* the checkpoint may hold more than these arrays */
    bool convert; /* float types may differ: converted, rounding to nearest even */
    bool verify;  /* what is read is compared with its checksums */
} ls_arrays_load_opts;
#define LS_ARRAYS_LOAD_DEFAULTS .partial = false, .convert = false, .verify = true
LS_API ls_arrays_load_opts ls_arrays_load_opts_default(void);

/* Fills the ranks' blocks, which may overlap and need not be everything: each rank reads what it asks for.
 * `dir` is a checkpoint, of whatever ranks and of whichever program, or anything that ls_weights_open opens
 * (a DCP directory of PyTorch, a file), which has no checksums. LS_E_SHAPE: the message lists all arrays that
 * do not fit, and no block was changed. */
LS_API ls_status ls_arrays_load_with(const char *dir, int64_t n, const ls_array *arrays, ls_group *g,
                                     const ls_arrays_load_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_arrays_load(...) ls_arrays_load_with(__VA_ARGS__)
#else
#define ls_arrays_load(dir, n, arrays, group, ...)                \
    LS_QUIETLY(ls_status,                                         \
               ls_arrays_load_with((dir), (n), (arrays), (group), \
                                   &(ls_arrays_load_opts){ LS_ARRAYS_LOAD_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* The text of a checkpoint, "" where none was saved; free it. Local. */
LS_API ls_status ls_arrays_text(char **text, const char *dir);

#ifdef __cplusplus
}
#endif
