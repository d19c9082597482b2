/* classifier.c - inputs and outputs that image classifiers share (models.h names them). */
#include "classifier.h"

#include "lockstep/nn.h"

ls_value ls_image_input(ls_graph *g, int64_t batch, int64_t channels, int64_t size, double mean, double std)
{
    return ls_normalize_pixels(g, ls_input(g, "images", LS_TYPE(LS_U8, batch, channels, size, size)), mean,
                               std);
}

void ls_language_outputs(ls_graph *g, ls_value logits, ls_value targets)
{
    targets = ls_reshape(g, targets, -1);
    ls_loss(g, "loss", ls_cross_entropy(g, logits, targets), 1, LS_BY_VALID, "targets");
    ls_measure_against(g, "accuracy", LS_ACCURACY, logits, targets, LS_BY_VALID, "targets");
    ls_output(g, "logits", logits);
}

void ls_classifier_outputs(ls_graph *g, ls_value logits)
{
    ls_type t = ls_value_type(g, logits);
    ls_value labels = ls_input(g, "labels", LS_TYPE(LS_I32, t.ndim == 2 ? t.dims[0] : 1));
    ls_loss(g, "loss", ls_cross_entropy(g, logits, labels), 1, LS_BY_VALID, "labels");
    ls_measure_against(g, "accuracy", LS_ACCURACY, logits, labels, LS_BY_VALID, "labels");
    ls_output(g, "logits", logits);
}
