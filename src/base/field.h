/* field.h - which option a failure is about. A function that takes options in a struct (ls_parallel,
 * ls_trainer_opts, ls_text_options, ls_order) refuses a value with ls_fail_field. Its message begins with the
 * member's name ("units: ..."), because a C program has written that name. If a recipe filled the struct, the
 * caller asks ls_error_field for the field and puts the recipe's key and line in its place. */
#pragma once
#include "lockstep/status.h"

typedef enum ls_option {
    LS_FIELD_NONE,
    /* ls_parallel */
    LS_FIELD_MESH,
    LS_FIELD_DATA,
    LS_FIELD_UNITS,
    LS_FIELD_RESHARD_AFTER_FORWARD,
    LS_FIELD_GATHER,
    LS_FIELD_OFFLOAD,
    LS_FIELD_DEVICE_MEMORY,
    LS_FIELD_SYNCHRONIZE,
    LS_FIELD_REDUCE,
    LS_FIELD_SYNC_BATCH_NORM,
    LS_FIELD_TENSOR,
    LS_FIELD_SEQUENCE,
    LS_FIELD_BUCKET_BYTES,
    /* ls_trainer_opts */
    LS_FIELD_DEVICE,
    LS_FIELD_FREEZE,
    LS_FIELD_GROUPS,
    LS_FIELD_RECOMPUTE,
    LS_FIELD_PARAM,
    LS_FIELD_MODULES,
    LS_FIELD_CAST_FORWARD_INPUTS,
    LS_FIELD_PADDING,
    LS_FIELD_METRICS,
    /* ls_order */
    LS_FIELD_GLOBAL_BATCH,
    /* data sets: members of their options, and arguments of the functions that open them */
    LS_FIELD_PATH,
    LS_FIELD_TOKENIZER,
    LS_FIELD_END_TOKEN,
    LS_FIELD_SEQ_LENGTH,
    LS_FIELD_SOURCE,
    LS_FIELD_TARGET,
    LS_FIELD_EVAL_FRACTION,
    LS_FIELD_IMAGE_SIZE,
    LS_FIELD_IN_CHANNELS,
    LS_FIELD_CLASSES,
    LS_FIELD_VOCABULARY,
    LS_FIELD_COUNT
} ls_option;

const char *ls_field_name(ls_option f); /* the member's name: "units" */

/* ls_fail with the message "NAME: ...", where NAME is ls_field_name(f). Local. */
ls_status ls_fail_field(ls_status code, ls_option f, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The field whose name begins this thread's latest message; LS_FIELD_NONE if none does. Local. */
ls_option ls_error_field(void);
