/* own_model.c - a model of one's own, trained and saved through the library, without the command:
 *
 *     cc own_model.c $(pkg-config --cflags --libs lockstep) -o own_model
 *     ./own_model mnist model.safetensors
 */
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

typedef struct config {
    int64_t size, hidden, classes;
} config;

/* images -> two layers -> class scores. The names become those of the saved tensors. */
static ls_status build(ls_graph *g, const void *context, int64_t batch)
{
    const config *c = context;
    ls_value images = ls_input(g, "images", LS_TYPE(LS_U8, batch, 1, c->size, c->size));
    ls_value x = ls_reshape(g, ls_normalize_pixels(g, images, 0.5, 0.5), batch, -1);
    x = ls_relu(g, ls_linear(g, "fc1", x, c->hidden));
    ls_value logits = ls_linear(g, "fc2", x, c->classes);
    ls_value labels = ls_input(g, "labels", LS_TYPE(LS_I32, batch));
    ls_loss(g, "loss", ls_cross_entropy(g, logits, labels), 1, LS_BY_VALID, "labels");
    ls_measure_against(g, "accuracy", LS_ACCURACY, logits, labels, LS_BY_VALID, "labels");
    ls_output(g, "logits", logits);
    return ls_graph_finish(g);
}

static ls_status train(const char *set_name, const char *path)
{
    ls_dataset *set = NULL;
    ls_loader *loader = NULL;
    ls_trainer *trainer = NULL;
    LS_TRY(ls_dataset_open(&set, set_name, LS_SPLIT_TRAIN));
    config c = { .size = set->fields[0].type.dims[1], .hidden = 128, .classes = set->fields[1].below };
    ls_order order = {
        .n = set->n, .global_batch = 64, .micro_batch = 64, .seed = 0, .shuffle = true, .drop_last = true
    };
    LS_TRY(ls_trainer_create(&trainer, build, &c, .micro_batch = 64));
    LS_TRY(ls_trainer_init(trainer, 0));
    LS_TRY(ls_loader_create(&loader, set, &order, .epochs = 1));
    printf("%s: %lld parameters\n", set->source, (long long)ls_trainer_parameter_count(trainer));
    ls_loader_step batch;
    ls_step_result r;
    for (bool done = false;;) {
        LS_TRY(ls_loader_next(loader, &batch, &done));
        if (done)
            break;
        LS_TRY(ls_trainer_step_from(trainer, &batch, 1e-3, &r));
        if (batch.step % 100 == 0)
            printf("step %4lld  loss %.4f  %.2f ms\n", (long long)batch.step, r.loss, 1e3 * r.seconds);
    }
    LS_TRY(ls_trainer_save(trainer, path));
    ls_loader_destroy(&loader);
    ls_trainer_destroy(&trainer);
    ls_dataset_close(&set);
    return LS_OK;
}

int main(int argc, char **argv)
{
    if (argc != 3 || train(argv[1], argv[2]) != LS_OK) {
        fprintf(stderr, "%s\n",
                argc != 3 ? "usage: own_model DATASET OUT.safetensors   (mnist, fashion-mnist, shapes)"
                          : ls_error_message());
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
