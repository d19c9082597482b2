/* qwen_2d.c - tutorial 3 as a program: a Qwen2 of Hugging Face's on lines of text, over a mesh of two axes:
 * the linear layers of a decoder layer are split over axis tp (tensor parallelism), what a rank then has of
 * each decoder layer is sharded over axis dp (FSDP2). A report with a checkpoint each epoch.
 *
 *     cc qwen_2d.c $(pkg-config --cflags --libs lockstep) -o qwen_2d
 *     lockstep launch --workers 4 ./qwen_2d Qwen2.5-0.5B wikitext-2/train.txt runs mine 20
 *         20 steps an epoch; 0: all. A last word 2 goes on to a second epoch.
 *     lockstep export runs/mine --to mine.safetensors
 */
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

enum { TP = 2, SEQ_LENGTH = 512, BATCH_PER_DATA_RANK = 1 };

typedef struct task {
    const char *folder, *text, *tokenizer;
    int64_t steps, epochs; /* steps of an epoch; 0: all */
    ls_decoder_config model;
    ls_group *group;
    ls_run *run;
} task;

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    return ls_decoder_build(g, config, batch);
}

/* The sizes in the folder's config.json, as a recipe that names the folder gets them. */
static ls_status read_config(task *t)
{
    static const char recipe[] =
        "model: {type: qwen2}\ndata: {type: text, train_text: given, tokenizer: given}\n";
    char init[4096];
    ls_recipe *r;
    snprintf(init, sizeof init, "model.init=%s", t->folder);
    LS_TRY(ls_recipe_load_text(&r, recipe, sizeof recipe - 1, "qwen_2d", 1, (const char *[]){ init }));
    const int64_t heads = r->model.heads, kv_heads = r->model.kv_heads, head_dim = r->model.head_dim;
    t->model = (ls_decoder_config){ .seq_length = SEQ_LENGTH,
                                    .vocab_size = r->model.vocab_size,
                                    .hidden_size = r->model.hidden_size,
                                    .mlp_size = r->model.mlp_size,
                                    .layers = r->model.layers,
                                    .heads = heads,
                                    .kv_heads = kv_heads ? kv_heads : heads,
                                    .head_dim = head_dim ? head_dim : r->model.hidden_size / heads,
                                    .norm_eps = r->model.norm_eps,
                                    .rope_theta = r->model.rope_theta,
                                    .init_deviation = r->model.init_deviation,
                                    .tied = r->model.tied,
                                    .qkv_bias = true,
                                    .block = "Qwen2DecoderLayer" };
    ls_recipe_destroy(&r);
    return LS_OK;
}

static ls_status train_epochs(const task *t, ls_trainer *trainer, ls_loader *loader, int64_t steps)
{
    const ls_run_contents all = { .trainer = trainer };
    const ls_run_checkpoint *last = ls_latest_checkpoint(t->run);
    if (last)
        LS_TRY(ls_run_load(t->run, last->path, &all));
    for (int64_t epoch = last ? last->epoch + 1 : 0; epoch < t->epochs; epoch++) {
        double loss = 0;
        LS_TRY(ls_loader_seek(loader, epoch, 0));
        for (int64_t k = 0; k < steps; k++) {
            ls_loader_step batch;
            ls_step_result r;
            bool done;
            LS_TRY(ls_loader_next(loader, &batch, &done));
            LS_TRY(ls_trainer_step_from(trainer, &batch, 1e-5, &r));
            loss += r.loss / (double)steps;
            if (ls_group_rank(t->group) == 0 && k % 5 == 0)
                printf("epoch %lld  step %lld of %lld  loss %.6f\n", (long long)epoch, (long long)k + 1,
                       (long long)steps, r.loss);
        }
        LS_TRY(ls_report(t->run, (&(ls_metric){ "loss", loss }), 1, &all, .step = (epoch + 1) * steps,
                         .epoch = epoch));
    }
    return LS_OK;
}

static ls_status train(task *t)
{
    const int ranks = ls_group_size(t->group), tp = ranks % TP ? 1 : TP, dp = ranks / tp;
    ls_dataset *set;
    ls_loader *loader;
    ls_trainer *trainer;
    ls_weights *weights;
    ls_share share;
    const ls_parallel mesh = { LS_PARALLEL_DEFAULTS,
                               .mesh = { .n = 2, .axes = { { "dp", dp }, { "tp", tp } } },
                               .rank = ls_group_rank(t->group),
                               .data = LS_DATA_FSDP,
                               .units = "class:Qwen2DecoderLayer",
                               .reduce = LS_BF16,
                               .ranks_per_host = ranks / ls_group_hosts(t->group) };
    LS_TRY(read_config(t));
    LS_TRY(ls_text_open(&set, LS_SPLIT_TRAIN, t->text, t->tokenizer, SEQ_LENGTH,
                        .eval_path = t->text /* nothing is held out */, .documents = LS_DOCUMENTS_LINE,
                        .pack = false, .vocabulary = (int)t->model.vocab_size));
    const ls_order order = { .n = set->n,
                             .global_batch = BATCH_PER_DATA_RANK * dp,
                             .micro_batch = BATCH_PER_DATA_RANK,
                             .seed = 42,
                             .shuffle = true,
                             .drop_last = true };
    /* by data rank: the ranks of a tp group compute the same rows */
    LS_TRY(ls_parallel_share(&share, &mesh, dp));
    LS_TRY(ls_trainer_create(&trainer, build, &t->model, .micro_batch = order.micro_batch,
                             .micro_batches = dp, .mean_of_means = true, .param = LS_BF16,
                             .optimizer = { LS_OPTIMIZER_DEFAULTS, .kind = LS_ADAMW, .weight_decay = 0.01 },
                             .parallel = mesh, .group = t->group));
    LS_TRY(ls_loader_create(&loader, set, &order, .share = share));
    LS_TRY(ls_trainer_init(trainer, 42));
    LS_TRY(ls_weights_open(&weights, t->folder));
    LS_TRY(ls_trainer_load(trainer, weights));
    ls_weights_close(&weights);
    const ls_status s = train_epochs(t, trainer, loader, t->steps ? t->steps : ls_order_steps(&order));
    ls_loader_destroy(&loader);
    ls_trainer_destroy(&trainer);
    ls_dataset_close(&set);
    return s;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: qwen_2d FOLDER TEXT STORAGE NAME [STEPS-PER-EPOCH [EPOCHS [TOKENIZER]]]\n");
        return 2;
    }
    task t = { .folder = argv[1],
               .text = argv[2],
               .tokenizer = argc > 7 ? argv[7] : argv[1],
               .steps = argc > 5 ? atoll(argv[5]) : 0,
               .epochs = argc > 6 ? atoll(argv[6]) : 1 };
    ls_status s = ls_group_from_environment(&t.group);
    if (s == LS_OK)
        s = ls_run_open(&t.run, argv[3], argv[4], t.group);
    if (s == LS_OK)
        s = ls_run_finish(&t.run, train(&t), NULL);
    if (s != LS_OK)
        fprintf(stderr, "%s\n", ls_error_message());
    ls_group_destroy(&t.group);
    return s == LS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
