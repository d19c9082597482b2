/* outputs_own.h - parts of `lockstep predict --out FILE`: what is computed, and how a row of it is written.
 * Private to outputs_*.c. */
#pragma once
#include "base/str.h"
#include "base/file.h"
#include "outputs_command.h"
#include "split_choice.h"
#include "step/predictor.h"

enum { LS_OUTPUTS_MOST = 16 };

/* What is written of an output. The numbers of classes become their probabilities, and the class with the
 * highest one is written, too; so does the score of one class. Only where no --output asks for the numbers.
 */
typedef enum ls_shown_as { LS_AS_NUMBERS, LS_AS_CLASSES, LS_AS_SCORE } ls_shown_as;

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
    ls_dataset *named;               /* its labels have the names of classes; NULL: they have none */
    bool *broken;                    /* [batch]: images that cannot be read, which have no prediction */
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
/* The output's name; of what became a probability "NAME.probability". */
const char *ls_outputs_column(char out[160], const ls_outputs *j, int k);
/* Element i. `nan`: what a number that is not finite becomes; NULL: as C prints it. */
void ls_outputs_number(ls_str *out, const ls_tensor *t, int64_t i, const char *nan);
/* The names of the columns: "y", or "y.0", "y.1", .. of an output with several numbers a sample. */
void ls_outputs_header(const ls_outputs *j, ls_str *out);
ls_status ls_outputs_line(const ls_outputs *j, ls_str *out, int64_t sample, int64_t row, bool json);
