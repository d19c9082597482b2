/* generate.c - how fast a language model takes in a prompt and makes tokens, the way bench/torch_generate.py
 * times transformers.
 *
 *   bench_generate FOLDER [--threads 1] [--dtype f32|bf16] [--prompt 512] [--tokens 16] [--repeat 3]
 * [--serve]
 *
 * FOLDER is one of Hugging Face's or a run. Prints a JSON line: seconds from the model's file to a generator,
 * those of `repeat` prompts, one after the other (the first touches memory that no other did), and of a token
 * behind the last. --serve answers every line of stdin with such a line, so that bench/run.py
 * can let programs take turns; there the generator is made once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lockstep/lockstep.h"

typedef struct bench {
    const char *folder;
    int threads, prompt, tokens, repeat;
    ls_dtype dtype;
    ls_generator *g;
    int32_t *ids;
    double open;
} bench;

static ls_status make(bench *b)
{
    const double start = ls_now();
    LS_TRY(ls_generator_open(&b->g, b->folder, .threads = b->threads, .param = b->dtype,
                             .places = b->prompt + b->tokens));
    b->open = ls_now() - start;
    for (int i = 0; i < b->prompt; i++)
        b->ids[i] = (int32_t)(((unsigned)i * 2654435761u >> 8) % (unsigned)ls_generator_vocabulary(b->g));
    return LS_OK;
}

static ls_status measure(bench *b)
{
    const float *logits;
    printf("{\"open\": %.4f, \"prompt\": [", b->open);
    for (int k = 0; k < b->repeat; k++) {
        ls_generator_rewind(b->g, 0);
        const double start = ls_now();
        LS_TRY(ls_generator_feed(b->g, b->ids, b->prompt, &logits));
        printf("%s%.4f", k ? ", " : "", ls_now() - start);
    }
    const double start = ls_now();
    for (int k = 0; k < b->tokens; k++)
        LS_TRY(ls_generator_feed(b->g, b->ids + k, 1, &logits));
    printf("], \"token\": %.5f}\n", b->tokens ? (ls_now() - start) / b->tokens : 0);
    fflush(stdout);
    return LS_OK;
}

static ls_status run(bench *b, bool serve)
{
    char line[64];
    LS_TRY(make(b));
    if (!serve)
        return measure(b);
    puts("{\"ready\": true}");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        LS_TRY(measure(b));
    return LS_OK;
}

int main(int argc, char **argv)
{
    bench b = { .threads = 1, .dtype = LS_F32, .prompt = 512, .tokens = 16, .repeat = 3 };
    bool serve = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--serve"))
            serve = true;
        else if (!strcmp(argv[i], "--threads"))
            b.threads = atoi(value), i++;
        else if (!strcmp(argv[i], "--dtype"))
            b.dtype = strcmp(value, "bf16") ? LS_F32 : LS_BF16, i++;
        else if (!strcmp(argv[i], "--prompt"))
            b.prompt = atoi(value), i++;
        else if (!strcmp(argv[i], "--tokens"))
            b.tokens = atoi(value), i++;
        else if (!strcmp(argv[i], "--repeat"))
            b.repeat = atoi(value), i++;
        else
            b.folder = argv[i];
    }
    b.ids = malloc(sizeof *b.ids * (size_t)(b.prompt > b.tokens ? b.prompt : b.tokens));
    const ls_status s = b.folder && b.ids ? run(&b, serve) : LS_E_USAGE;
    if (s != LS_OK)
        fprintf(stderr, "bench_generate: %s\n", b.folder ? ls_error_message() : "which folder?");
    ls_generator_destroy(&b.g);
    free(b.ids);
    return s != LS_OK;
}
