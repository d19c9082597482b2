/* outputs_own.h - parts of `lockstep predict --out FILE`: what is computed, and how a row of it is written.
 * Private to outputs_*.c. */
#pragma once
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "outputs_command.h"
#include "recipe/data_row.h"
#include "screen/table.h"
#include "split_choice.h"
#include "step/predictor.h"

enum { LS_OUTPUTS_MOST = 16 };

/* What is written of an output. The numbers of classes become their probabilities, and the class with the
 * highest one is written, too; so does the score of one class. Only where no --output asks for the numbers.
 */
typedef enum ls_shown_as {
    LS_AS_NUMBERS,
    LS_AS_CLASSES,
    LS_AS_SCORE,
    LS_AS_WORDS /* the class of each word of a text, which its first token has; it is the only output */
} ls_shown_as;

/* The target of an output: what the data set has, of a batch. */
typedef struct ls_outputs_target {
    int field, valid;     /* of the set: the target; whether each of its numbers is there. -1: none */
    ls_tensor values;     /* type of a sample; data: of a batch */
    const void *is_valid; /* 0 or 1 for each of them */
    void *own[2];         /* memory of both, if no input or other target has it */
} ls_outputs_target;

typedef struct ls_outputs {
    const ls_predict_opts *o;
    const ls_ui *ui;
    ls_saved_model saved;
    ls_setup setup;
    ls_predictor *predictor;
    ls_dataset *set;
    int64_t n, batch;       /* samples: all; at once */
    ls_split_choice choice; /* of the n samples; unused: those from 0 on */
    int n_inputs, n_outputs;
    ls_named_tensor inputs[LS_OUTPUTS_MOST],
        outputs[LS_OUTPUTS_MOST];    /* types of a sample; data: of a batch */
    ls_shown_as as[LS_OUTPUTS_MOST]; /* of outputs */
    ls_outputs_target targets[LS_OUTPUTS_MOST];
    ls_array_words words; /* LS_AS_WORDS: of all rows of the file */
    bool paths;           /* the terminal shows the paths of files */
    int n_targets;        /* outputs that have one */
    ls_dataset *named;    /* its labels have the names of classes; NULL: they have none */
    int64_t *worst;       /* of --wrong: samples of the split, the worst mistake first */
    bool *broken;         /* [batch]: images that cannot be read, which have no prediction */
    ls_writer file;
} ls_outputs;

bool ls_outputs_kind(const ls_outputs *j, const char *end); /* whether --out ends so */

/* What is written of output k. */
ls_shown_as ls_outputs_shown_as(const ls_outputs *j, int k);
/* Makes probabilities of n samples. */
void ls_outputs_probabilities(ls_outputs *j, int64_t n);
/* Numbers of broken images become NaN, those of an integer output LS_IGNORE_LABEL. */
void ls_outputs_clear_broken(ls_outputs *j, int64_t n);
/* The class with the highest probability, of an output of classes. */
int64_t ls_outputs_class(const ls_outputs *j, int k, int64_t row);
/* The texts that the classes of output k have in a table, "a,b,c"; NULL: numbers. */
const char *ls_outputs_texts(const ls_outputs *j, int k);
/* The name of a class of output k, or its number. */
void ls_outputs_add_class(ls_str *out, const ls_outputs *j, int k, int64_t class);
/* The output's name; of what became a probability "NAME.probability". */
const char *ls_outputs_column(char out[160], const ls_outputs *j, int k);
/* Element i. `nan`: what a number that is not finite becomes; NULL: as C prints it. */
void ls_outputs_number(ls_str *out, const ls_tensor *t, int64_t i, const char *nan);
/* The names of the columns: "y", or "y.0", "y.1", .. of an output with several numbers a sample. */
void ls_outputs_header(const ls_outputs *j, ls_str *out);
/* Sample `row` of the batch. */
ls_status ls_outputs_line(const ls_outputs *j, ls_str *out, int64_t sample, int64_t row, bool json);

/* outputs_words.c: a class for each word. A word that the text was cut before has none. */
bool ls_outputs_has_words(const ls_outputs *j);
ls_status ls_outputs_words_open(ls_outputs *j); /* when the set is open */
void ls_outputs_words_header(const ls_outputs *j, ls_str *out);
/* Sample `row` of the batch: of CSV a line for each word, of JSON a line with a list. */
ls_status ls_outputs_words_line(const ls_outputs *j, ls_str *out, int64_t sample, int64_t row, bool json);
/* A row of the terminal's table for each word, and the list. */
ls_status ls_outputs_words_show(const ls_outputs *j, ls_table *table, ls_json *json, const char *name,
                                int64_t sample, int64_t row);

/* outputs_targets.c: what samples of the data set have for an output of classes or numbers. Files of new
 * rows, .npy and --output have none. */
ls_status ls_outputs_targets_open(ls_outputs *j); /* when the set is open and the inputs have memory */
void ls_outputs_targets_release(ls_outputs *j);
void ls_outputs_targets_aim(const ls_outputs *j, int64_t row, void **to); /* for ls_dataset.read */
/* "target", or "target.NAME" if there are several, of numbers, and if an output has the name. */
const char *ls_outputs_target_column(char out[160], const ls_outputs *j, int k);
/* Element e of the target of output k; `missing`: what is written of one that is not there. */
void ls_outputs_add_target(ls_str *out, const ls_outputs *j, int k, int64_t row, int64_t e,
                           const char *missing);
void ls_outputs_targets_json(const ls_outputs *j, ls_json *json, int64_t row);
void ls_outputs_targets_csv(const ls_outputs *j, ls_str *out, int64_t row);
void ls_outputs_targets_header(const ls_outputs *j, ls_str *out);
/* The first output whose mistakes can be told: one class a sample. -1: none. */
int ls_outputs_judged(const ls_outputs *j);
/* Whether output k predicts another class than the target. *counts: it has a target, whose probability is
 * *of_true. */
bool ls_outputs_mistake(const ls_outputs *j, int k, int64_t row, bool *counts, float *of_true);
