/* text_model.h - compares models of text with Hugging Face's: logits, loss, gradients and steps of training.
 * A golden file has "ids" and "targets" of five batches, and the results of several configurations by their
 * names. */
#pragma once
#include "lockstep/trainer.h"

typedef struct text_model {
    const char *golden; /* name of the file */
    ls_build_fn build;
    int batch;               /* rows of a batch */
    int64_t source, targets; /* tokens of a row of "ids" and of "targets" */
} text_model;

typedef struct text_case {
    const char *name;
    const void *config;
    const char *block; /* class of its blocks */
    int parameters;    /* how many Hugging Face's model has */
} text_case;

/* Logits, loss and every gradient of the first batch: on ref in f64 (within `tolerance`) and on cpu in f32 at
 * every level, as built and after the passes of a training step. */
void text_model_gradients(const text_model *m, int n, const text_case *cases, double tolerance);

/* Losses of five steps of AdamW: on ref in f64, and on cpu at every level in f32, bf16 and f16. In f32 the
 * bits do not depend on threads, units and recomputation. */
void text_model_steps(const text_model *m, int n, const text_case *cases);
