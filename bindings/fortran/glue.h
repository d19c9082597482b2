/* glue.h - what Fortran passes, as the library takes it: texts, lists of dimensions and arrays come as
 * descriptors (ISO_Fortran_binding.h), handles by address, arguments that are not given as NULL. */
#pragma once
#include <ISO_Fortran_binding.h>
#include <lockstep/lockstep.h>

enum { LSF_TEXT = 4096 }; /* bytes of a name or a path, with its end */

/* A text without the blanks at its end; "" for one that is not given. Too long: "" and false. */
bool lsf_text(char out[LSF_TEXT], const CFI_cdesc_t *text);
/* Text i, from 0 on, of a list of them. */
bool lsf_text_at(char out[LSF_TEXT], const CFI_cdesc_t *texts, CFI_index_t i);

/* An array, its dimensions in the library's order: the last one of Fortran's is the first. LS_E_ARG names
 * `what` for one that is not of numbers, not allocated, or whose elements do not lie in steps of their size.
 */
ls_status lsf_tensor(ls_tensor *out, const CFI_cdesc_t *values, const char *what);

/* default integers, the last one first; returns how many. More than LS_MAX_DIMS: LS_MAX_DIMS + 1. */
int lsf_dims(int64_t out[LS_MAX_DIMS], const CFI_cdesc_t *dims);

/* type(ls_trainer): the handle, and how its steps are made, for loaders. */
typedef struct lsf_trainer {
    ls_trainer *at;
    int64_t micro_batch, micro_batches;
    ls_share share;
} lsf_trainer;

typedef struct lsf_step_result { /* type(ls_step_result) */
    double loss, grad_norm, loss_scale, seconds;
    int64_t count;
    bool skipped;
    int skip;
} lsf_step_result;
lsf_step_result lsf_step_result_of(const ls_step_result *r);

typedef struct lsf_checkpoint { /* type(lsf_checkpoint) */
    const char *path, *text;
    int64_t step, epoch;
} lsf_checkpoint;

/* Fortran's builder, called by one of C's: the config of lsf_build is an lsf_builder, which lives during the
 * call that builds. */
typedef struct lsf_builder {
    void (*build)(ls_graph *g, int batch);
} lsf_builder;
ls_status lsf_build(ls_graph *g, const void *config, int64_t batch);

#define LSF_TEXT_OF(name, text)                                                                        \
    char name[LSF_TEXT];                                                                               \
    if (!lsf_text(name, text))                                                                         \
    return ls_fail(LS_E_ARG, "%s: " #name " has %zu characters, at most %d are allowed", __func__ + 4, \
                   (text)->elem_len, LSF_TEXT - 1)
