/* classifier.c - inputs and outputs that image classifiers share (models.h names them). */
#include "classifier.h"

#include "graph/graph.h"
#include "lockstep/nn.h"
#include "models/task.h"

/* [channels, 1, 1] */
static ls_value of_channels(ls_graph *g, int64_t channels, double all, const double *each)
{
    enum { MOST = 64 };
    ls_value one[MOST];
    if (!each)
        return ls_fill(g, LS_TYPE(LS_F32, 1, 1, 1), all);
    if (channels < 1 || channels > MOST) {
        ls_graph_error(g, LS_E_SHAPE, "numbers for each of %lld channels: 1 to %d channels can have them",
                       (long long)channels, MOST);
        return (ls_value){ .id = -1 };
    }
    for (int64_t i = 0; i < channels; i++)
        one[i] = ls_fill(g, LS_TYPE(LS_F32, 1, 1, 1), each[i]);
    return ls_concat(g, 0, (int)channels, one);
}

ls_value ls_image_input(ls_graph *g, int64_t batch, int64_t channels, int64_t size, double mean, double std,
                        const double *means, const double *stds)
{
    const ls_value pixels = ls_input(g, "images", LS_TYPE(LS_U8, batch, channels, size, size));
    if (!means && !stds)
        return ls_normalize_pixels(g, pixels, mean, std);
    const ls_value x = ls_div_const(g, ls_cast(g, pixels, LS_F32), 255.0);
    return ls_div(g, ls_sub(g, x, of_channels(g, channels, mean, means)),
                  of_channels(g, channels, std, stds));
}

void ls_language_outputs(ls_graph *g, ls_value logits, ls_value targets, ls_value balance, double factor)
{
    const bool balanced = balance.id && factor > 0;
    targets = ls_reshape(g, targets, -1);
    ls_loss(g, balanced ? "cross_entropy" : "loss", ls_cross_entropy(g, logits, targets), 1, LS_BY_VALID,
            "targets");
    if (balanced)
        ls_loss(g, "balance", balance, factor, LS_BY_SAMPLE, NULL);
    else if (balance.id)
        ls_measure(g, "balance", balance, LS_MEAN, LS_BY_SAMPLE, NULL);
    ls_measure_against(g, "accuracy", LS_ACCURACY, logits, targets, LS_BY_VALID, "targets");
    ls_output(g, "logits", logits);
}

ls_value ls_classifier_rows(ls_graph *g, ls_value logits, ls_value labels, const ls_classifier_loss *loss)
{
    const ls_value rows = ls_cross_entropy_smooth(g, logits, labels, loss->label_smoothing);
    if (!loss->mixed || ls_graph_is_evaluation(g))
        return rows;
    const ls_type t = ls_value_type(g, labels);
    const ls_value other = ls_cross_entropy_smooth(g, logits, ls_input(g, "labels.mixed", t),
                                                   loss->label_smoothing),
                   weight = ls_input(g, "labels.weight", LS_TYPE(LS_F32, t.dims[0]));
    ls_wide_begin(g);
    const ls_value mixed = ls_add(g, other, ls_mul(g, weight, ls_sub(g, rows, other)));
    ls_wide_end(g);
    return mixed;
}

/* Columns of `numbers` [batch, n_outputs] as outputs [batch], with their losses. */
static void number_outputs(ls_graph *g, ls_value numbers, const ls_classifier_loss *loss)
{
    const ls_type t = ls_value_type(g, numbers);
    if (ls_graph_status(g) != LS_OK)
        return;
    if (t.ndim != 2 || t.dims[1] != loss->n_outputs) {
        ls_graph_error(g, LS_E_SHAPE,
                       "%d outputs, and the last layer computes %lld numbers: set classes to %d",
                       loss->n_outputs, (long long)(t.ndim == 2 ? t.dims[1] : 0), loss->n_outputs);
        return;
    }
    for (int i = 0; i < loss->n_outputs; i++)
        ls_output(g, loss->outputs[i].name, ls_reshape(g, ls_slice(g, numbers, 1, i, 1), t.dims[0]));
    const ls_status s = ls_task_declare(g, loss->n_losses, loss->losses, t.dims[0]);
    if (s != LS_OK && ls_graph_status(g) == LS_OK)
        ls_graph_error(g, s, "%s", ls_error_message());
}

void ls_classifier_outputs(ls_graph *g, ls_value logits, const ls_classifier_loss *loss)
{
    static const ls_classifier_loss PLAIN = { 0 };
    if (loss && loss->n_outputs) {
        number_outputs(g, logits, loss);
        return;
    }
    ls_type t = ls_value_type(g, logits);
    ls_value labels = ls_input(g, "labels", LS_TYPE(LS_I32, t.ndim == 2 ? t.dims[0] : 1));
    const ls_value rows = ls_classifier_rows(g, logits, labels, loss ? loss : &PLAIN);
    if (loss && loss->class_weights) {
        static const char FIELD[] = "labels.class_weight";
        const ls_value weight = ls_input(g, FIELD, LS_TYPE(LS_F32, t.ndim == 2 ? t.dims[0] : 1));
        ls_smooth_weighted_loss(g, "loss", 1, logits, labels, rows, weight, FIELD, loss->label_smoothing);
        ls_measure(g, "loss_unweighted", rows, LS_MEAN, LS_BY_VALID, "labels");
    } else {
        ls_loss(g, "loss", rows, 1, LS_BY_VALID, "labels");
    }
    ls_measure_against(g, "accuracy", LS_ACCURACY, logits, labels, LS_BY_VALID, "labels");
    ls_output(g, "logits", logits);
}
