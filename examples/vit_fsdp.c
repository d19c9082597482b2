/* vit_fsdp.c - tutorial 1 as a program: a vision transformer on Fashion-MNIST, every encoder block a unit
 * that is sharded over the ranks, gathered when it computes and dropped behind it (FSDP2), computed in f16
 * and offloaded, as in the tutorial; a report each epoch, with a checkpoint that every rank writes its slices
 * of; a profile of the first six steps; and at the end the whole model as full-model.pt.
 *
 *     cc vit_fsdp.c $(pkg-config --cflags --libs lockstep) -o vit_fsdp
 *     lockstep launch --workers 2 ./vit_fsdp fashion-mnist runs mine
 *     lockstep predict runs/mine/checkpoints/latest --count 9 --out predictions.png
 */
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

enum { EPOCHS = 5, GLOBAL_BATCH = 128 };
static const ls_vit_config MODEL = { .image_size = 28,
                                     .patch_size = 7,
                                     .in_channels = 1,
                                     .layers = 10,
                                     .heads = 2,
                                     .hidden_size = 128,
                                     .mlp_size = 128,
                                     .classes = 10,
                                     .mean = 0.5,
                                     .std = 0.5 };
static const char CONFIG[] = /* so that the command knows what the weights are of */
    "{\"model\": {\"type\": \"vit\", \"image_size\": 28, \"patch_size\": 7, \"in_channels\": 1, \"layers\": "
    "10, \"heads\": 2, \"hidden_size\": 128, \"mlp_size\": 128, "
    "\"classes\": 10}, \"data\": {\"type\": \"fashion-mnist\"}}\n";

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    return ls_vit_build(g, config, batch);
}

/* Rank r of R looks at batches r, r+R, ... of the test set; all of them make the same number of calls. */
static ls_status accuracy(double *out, ls_group *group, ls_trainer *t, const ls_dataset *set, int64_t batch,
                          int64_t limit)
{
    const int64_t ranks = ls_group_size(group), n = limit && limit * batch < set->n ? limit * batch : set->n;
    uint8_t *images = malloc((size_t)batch * ls_type_bytes(&set->fields[0].type));
    int32_t *labels = malloc(sizeof *labels * (size_t)batch), *said = malloc(sizeof *said * (size_t)batch);
    const ls_order order = { .n = set->n, .global_batch = batch, .micro_batch = batch };
    int64_t right = 0;
    ls_status s = images && labels && said ? LS_OK : LS_E_MEMORY;
    for (int64_t first = 0; first * batch < n && s == LS_OK; first += ranks) {
        const int64_t step = first + ls_group_rank(group);
        for (int64_t i = 0; i < batch; i++)
            labels[i] = LS_IGNORE_LABEL;
        if (step * batch < n)
            s = ls_order_fill(&order, set, 0, step, 0, (void *const[]){ images, labels });
        if (s == LS_OK)
            s = ls_trainer_eval(t, images, labels, NULL, said, NULL);
        for (int64_t i = 0; i < batch; i++)
            right += said[i] == labels[i];
    }
    if (s == LS_OK)
        s = ls_group_all_reduce(group, &right, 1, LS_I64, LS_REDUCE_SUM);
    *out = (double)right / (double)n;
    free(images);
    free(labels);
    free(said);
    return s;
}

/* Rank 0 copies the weights of the last checkpoint, tensor by tensor, to what torch.load opens. */
static ls_status export_model(ls_group *group, ls_run *run, const char *storage, const char *name)
{
    char path[4096];
    const ls_run_checkpoint *last = ls_latest_checkpoint(run);
    ls_weights *w;
    if (!last || ls_group_rank(group))
        return LS_OK;
    snprintf(path, sizeof path, "%s/%s/full-model.pt", storage, name);
    LS_TRY(ls_weights_open(&w, last->path));
    const ls_status s = ls_weights_export(w, path, .replace = true);
    ls_weights_close(&w);
    return s;
}

static ls_status train(ls_group *group, ls_run *run, const char *data, int64_t epochs, int64_t limit)
{
    const int ranks = ls_group_size(group);
    ls_dataset *set, *test;
    ls_loader *loader;
    ls_trainer *t;
    ls_share share;
    const ls_parallel fsdp = { LS_PARALLEL_DEFAULTS,
                               .mesh = { .n = 1, .axes = { { "dp", ranks } } },
                               .rank = ls_group_rank(group),
                               .data = LS_DATA_FSDP,
                               .units = "class:EncoderBlock",
                               .reshard_after_forward = -1,
                               .reduce = LS_F16,
                               .offload = LS_OFFLOAD_CPU,
                               .ranks_per_host = ranks / ls_group_hosts(group) };
    LS_TRY(ls_dataset_open(&set, data, LS_SPLIT_TRAIN));
    LS_TRY(ls_dataset_open(&test, data, LS_SPLIT_EVAL));
    const ls_order order = { .n = set->n,
                             .global_batch = GLOBAL_BATCH,
                             .micro_batch = GLOBAL_BATCH / ranks,
                             .shuffle = true,
                             .drop_last = true };
    LS_TRY(ls_parallel_share(&share, &fsdp, ranks));
    LS_TRY(ls_trainer_create(&t, build, &MODEL, .micro_batch = order.micro_batch, .micro_batches = ranks,
                             .param = LS_F16, .parallel = fsdp, .group = group));
    LS_TRY(ls_loader_create(&loader, set, &order, .share = share));
    LS_TRY(ls_trainer_init(t, 0));
    const ls_run_contents all = { .trainer = t, .config = CONFIG };
    const ls_run_checkpoint *last = ls_latest_checkpoint(run);
    if (last)
        LS_TRY(ls_run_load(run, last->path, &all));
    const int64_t steps = limit ? limit : ls_order_steps(&order);
    LS_TRY(ls_run_profile(run, t, .active = 6));
    for (int64_t epoch = last ? last->epoch + 1 : 0; epoch < epochs; epoch++) {
        double loss = 0, right;
        LS_TRY(ls_loader_seek(loader, epoch, 0));
        for (int64_t k = 0; k < steps; k++) {
            ls_loader_step batch;
            ls_step_result r;
            bool done;
            LS_TRY(ls_loader_next(loader, &batch, &done));
            LS_TRY(ls_trainer_step_from(t, &batch, 1e-3, &r));
            LS_TRY(ls_run_profile_step(run));
            loss += r.loss / (double)steps;
        }
        LS_TRY(accuracy(&right, group, t, test, order.micro_batch, limit));
        printf("rank %d  epoch %lld  loss %.4f  accuracy %.4f\n", ls_group_rank(group), (long long)epoch,
               loss, right);
        LS_TRY(ls_report(run, ((ls_metric[]){ { "loss", loss }, { "eval_accuracy", right } }), 2, &all,
                         .step = (epoch + 1) * steps, .epoch = epoch));
    }
    LS_TRY(ls_run_profile_end(run));
    ls_loader_destroy(&loader);
    ls_trainer_destroy(&t);
    ls_dataset_close(&set);
    ls_dataset_close(&test);
    return LS_OK;
}

int main(int argc, char **argv)
{
    ls_group *group = NULL;
    ls_run *run = NULL;
    if (argc < 4) {
        fprintf(stderr, "usage: vit_fsdp DATASET STORAGE NAME [EPOCHS [STEPS-PER-EPOCH]]   (fashion-mnist, "
                        "shapes)\n");
        return 2;
    }
    ls_status s = ls_group_from_environment(&group);
    if (s == LS_OK)
        s = ls_run_open(&run, argv[2], argv[3], group, .config = CONFIG);
    if (s == LS_OK) {
        s = train(group, run, argv[1], argc > 4 ? atoll(argv[4]) : EPOCHS, argc > 5 ? atoll(argv[5]) : 0);
        if (s == LS_OK)
            s = export_model(group, run, argv[2], argv[3]);
        s = ls_run_finish(&run, s, NULL);
    }
    if (s != LS_OK)
        fprintf(stderr, "%s\n", ls_error_message());
    ls_group_destroy(&group);
    return s == LS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
