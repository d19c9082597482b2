/* export_model.h - the weights of a folder for other programs, in the format that the name of the target
 * says. */
#pragma once
#include "ckpt/export_format.h"
#include "gguf_model.h"
#include "lockstep/weights.h"

typedef struct ls_export_how {
    ls_export_format format;
    ls_gguf_mix mix;
    const char *prefix; /* of names in a DCP directory; NULL: none */
    const ls_weights_export_opts *opts;
} ls_export_how;
/* Writes `w`, which lies in the folder or file `from`. A folder gets config.json and the files of the
 * tokenizer that `from` has. A target that is there is replaced with opts->replace: a folder only if it has
 * nothing but a model. */
ls_status ls_export_model(ls_weights *w, const char *from, const char *to, const ls_export_how *how);
/* "checkpoint.dcp: 4 tensors, a DCP directory" */
void ls_export_said(ls_str *out, int64_t tensors, const char *to, ls_export_format format);
