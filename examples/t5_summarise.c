/* t5_summarise.c - tutorial 4 as a program: a T5 that learns to summarise, every block a unit that is sharded
 * over the ranks (FSDP), in bf16; AdamW, whose rate is cut after each epoch; the loss on other pairs, and the
 * checkpoint of the epoch where that was lowest. It ends with a summary, which rank 0 makes with beams.
 *
 *     cc t5_summarise.c $(pkg-config --cflags --libs lockstep) -o t5_summarise
 *     lockstep launch --workers 2 ./t5_summarise scitldr_train.csv scitldr_val.csv t5-base runs mine
 *     lockstep export runs/mine/checkpoints/best --to model.pt
 */
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

enum { EPOCHS = 2, BATCH = 4, SOURCE = 512, TARGET = 150 }; /* BATCH: pairs of a rank's batch */

/* A small one with fresh weights. The tutorial's t5-base has 12 layers, 12 heads of 64, hidden_size 768 and
 * mlp_size 3072; its weights are read with ls_weights_open and ls_trainer_load, behind ls_trainer_init. */
static const ls_t5_config MODEL = { .source_length = SOURCE,
                                    .target_length = TARGET,
                                    .vocab_size = 32128,
                                    .hidden_size = 64,
                                    .mlp_size = 256,
                                    .layers = 2,
                                    .decoder_layers = 2,
                                    .heads = 4,
                                    .head_dim = 16,
                                    .buckets = 32,
                                    .max_distance = 128,
                                    .norm_eps = 1e-6,
                                    .init_factor = 1,
                                    .tied = true,
                                    .pad_token = 0,
                                    .start_token = 0 };

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    return ls_t5_build(g, config, batch);
}

/* The mean loss of a target. Rank r of R looks at batches r, r+R, ...; all of them make the same number of
 * calls. */
static ls_status evaluate(double *out, ls_group *group, ls_trainer *t, const ls_dataset *set, int64_t limit)
{
    static int32_t sources[BATCH * SOURCE], targets[BATCH * TARGET];
    static float losses[BATCH * TARGET];
    const int64_t ranks = ls_group_size(group), n = limit && limit * BATCH < set->n ? limit * BATCH : set->n;
    const ls_order order = { .n = set->n, .global_batch = BATCH, .micro_batch = BATCH };
    double sums[2] = { 0 }; /* of losses, and how many */
    for (int64_t first = 0; first * BATCH < n; first += ranks) {
        const int64_t step = first + ls_group_rank(group);
        for (int64_t i = 0; i < BATCH * TARGET; i++)
            targets[i] = LS_IGNORE_LABEL;
        if (step * BATCH < n)
            LS_TRY(ls_order_fill(&order, set, 0, step, 0, (void *const[]){ sources, targets }));
        LS_TRY(ls_trainer_eval(t, sources, targets, losses, NULL, NULL));
        for (int64_t i = 0; i < BATCH * TARGET; i++) {
            sums[0] += (double)losses[i]; /* 0 where there is no target */
            sums[1] += targets[i] != LS_IGNORE_LABEL;
        }
    }
    LS_TRY(ls_group_all_reduce(group, sums, 2, LS_F64, LS_REDUCE_SUM));
    *out = sums[0] / sums[1];
    return LS_OK;
}

static ls_status train(ls_group *group, ls_run *run, const char *const *files, int64_t limit)
{
    const int ranks = ls_group_size(group);
    ls_dataset *set, *others;
    ls_loader *loader;
    ls_trainer *t;
    ls_share share;
    const ls_parallel fsdp = { LS_PARALLEL_DEFAULTS,
                               .mesh = { .n = 1, .axes = { { "dp", ranks } } },
                               .rank = ls_group_rank(group),
                               .data = LS_DATA_FSDP,
                               .units = "class:T5Block",
                               .reshard_after_forward = -1,
                               .ranks_per_host = ranks / ls_group_hosts(group) };
    /* stepped once an epoch */
    const ls_schedule cuts = { .kind = LS_SCHED_STEP, .step_size = 1, .gamma = 0.7 };
    LS_TRY(ls_pairs_open(&set, LS_SPLIT_TRAIN, files[0], files[2], SOURCE, TARGET, .source = "text",
                         .target = "headline", .samples = 1500, .eval_path = files[1],
                         .vocabulary = (int)MODEL.vocab_size));
    LS_TRY(ls_pairs_open(&others, LS_SPLIT_EVAL, files[0], files[2], SOURCE, TARGET, .source = "text",
                         .target = "headline", .samples = 300, .eval_path = files[1],
                         .vocabulary = (int)MODEL.vocab_size));
    printf("rank %d  %s\n", ls_group_rank(group), set->source);
    const ls_order order = {
        .n = set->n, .global_batch = BATCH * ranks, .micro_batch = BATCH, .shuffle = true, .drop_last = true
    };
    LS_TRY(ls_order_check(&order));
    LS_TRY(ls_parallel_share(&share, &fsdp, ranks));
    LS_TRY(ls_trainer_create(&t, build, &MODEL, .micro_batch = BATCH, .micro_batches = ranks,
                             .parallel = fsdp, .group = group, .param = LS_BF16,
                             .optimizer = { LS_OPTIMIZER_DEFAULTS, .kind = LS_ADAMW, .weight_decay = 0.01 }));
    LS_TRY(ls_loader_create(&loader, set, &order, .share = share));
    LS_TRY(ls_trainer_init(t, 0));
    const ls_run_contents all = { .trainer = t };
    const ls_run_checkpoint *last = ls_latest_checkpoint(run);
    if (last)
        LS_TRY(ls_run_load(run, last->path, &all));
    const int64_t steps = limit ? limit : ls_order_steps(&order);
    for (int64_t epoch = last ? last->epoch + 1 : 0; epoch < EPOCHS; epoch++) {
        double loss = 0, eval_loss = 0;
        LS_TRY(ls_loader_seek(loader, epoch, 0));
        for (int64_t k = 0; k < steps; k++) {
            ls_loader_step batch;
            ls_step_result r;
            bool done;
            LS_TRY(ls_loader_next(loader, &batch, &done));
            LS_TRY(ls_trainer_step_from(t, &batch, ls_schedule_rate(&cuts, 2e-3, epoch), &r));
            loss += r.loss / (double)steps;
        }
        LS_TRY(evaluate(&eval_loss, group, t, others, limit));
        printf("rank %d  epoch %lld  loss %.4f  evaluation %.4f\n", ls_group_rank(group), (long long)epoch,
               loss, eval_loss);
        LS_TRY(ls_report(run, ((ls_metric[]){ { "loss", loss }, { "eval_loss", eval_loss } }), 2, &all,
                         .step = (epoch + 1) * steps, .epoch = epoch));
    }
    ls_loader_destroy(&loader);
    ls_trainer_destroy(&t);
    ls_dataset_close(&set);
    ls_dataset_close(&others);
    return LS_OK;
}

static bool print_token(void *context, int32_t id)
{
    const char *text;
    size_t bytes;
    if (ls_text_stream_add(context, id, &text, &bytes) != LS_OK)
        return false;
    fwrite(text, 1, bytes, stdout);
    return true;
}

/* What the best checkpoint writes for the first of the other pairs. */
static ls_status write_summary(ls_dataset *others, ls_text_stream *text, const ls_weights *weights)
{
    static int32_t source[SOURCE], target[TARGET];
    int64_t tokens = SOURCE;
    ls_generated made;
    ls_generator *g;
    LS_TRY(others->read(others, 0, (void *const[]){ source, target }));
    while (tokens > 0 && source[tokens - 1] == MODEL.pad_token)
        tokens--;
    LS_TRY(ls_generator_create_t5(&g, &MODEL, weights, .places = 64, .beams = 4));
    printf("summary: ");
    const ls_generate_opts how = {
        LS_GENERATE_DEFAULTS,    .prompt = source,    .n_prompt = tokens,        .tokens = 64,
        .no_repeat = 3,          .length_penalty = 2, .ends = others->end_token, .n_ends = 1,
        .on_token = print_token, .context = text
    };
    const ls_status s = ls_generate(g, &how, &made);
    printf("\n");
    ls_generator_destroy(&g);
    return s;
}

static ls_status summarise(const char *folder, const char *const *files)
{
    ls_dataset *others = NULL;
    ls_tokenizer *tokenizer = NULL;
    ls_text_stream *text = NULL;
    ls_weights *weights = NULL;
    ls_status s = ls_pairs_open(&others, LS_SPLIT_EVAL, files[0], files[2], SOURCE, TARGET, .source = "text",
                                .target = "headline", .samples = 1, .eval_path = files[1]);
    if (s == LS_OK)
        s = ls_tokenizer_open(&tokenizer, files[2]);
    if (s == LS_OK)
        s = ls_text_stream_create(&text, tokenizer);
    if (s == LS_OK)
        s = ls_weights_open(&weights, folder);
    if (s == LS_OK)
        s = write_summary(others, text, weights);
    ls_weights_close(&weights);
    ls_text_stream_destroy(&text);
    ls_tokenizer_close(&tokenizer);
    ls_dataset_close(&others);
    return s;
}

int main(int argc, char **argv)
{
    ls_group *group = NULL;
    ls_run *run = NULL;
    if (argc < 6) {
        fprintf(stderr, "usage: t5_summarise TRAIN EVAL TOKENIZER STORAGE NAME [STEPS-PER-EPOCH]   (CSV with "
                        "columns text and headline)\n");
        return 2;
    }
    ls_status s = ls_group_from_environment(&group);
    if (s == LS_OK)
        s = ls_run_open(&run, argv[4], argv[5], group, .best = "eval_loss");
    const char *const files[] = { argv[1], argv[2], argv[3] };
    if (s == LS_OK)
        s = ls_run_finish(&run, train(group, run, files, argc > 6 ? atoll(argv[6]) : 0), NULL);
    if (s == LS_OK && ls_group_rank(group) == 0) {
        char best[1024];
        snprintf(best, sizeof best, "%s/%s/checkpoints/best", argv[4], argv[5]);
        s = summarise(best, files);
    }
    if (s != LS_OK)
        fprintf(stderr, "%s\n", ls_error_message());
    ls_group_destroy(&group);
    return s == LS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
