/* generate.c - a language model continues a text, through the library:
 *
 *     cc generate.c $(pkg-config --cflags --libs lockstep) -o generate
 *     ./generate runs/my-llama/checkpoints/latest bytes "Once upon a time"
 *
 * The model is a checkpoint, or a Hugging Face folder; the tokenizer a tokenizer.json, a folder with one, or
 * `bytes`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

/* Whole characters only: a token may end within one. */
static bool print(void *stream, int32_t id)
{
    const char *text;
    size_t bytes;
    if (ls_text_stream_add(stream, id, &text, &bytes) != LS_OK)
        return false;
    fwrite(text, 1, bytes, stdout);
    return fflush(stdout) == 0;
}

static ls_status speak(ls_generator *g, const ls_tokenizer *t, ls_text_stream *stream, const char *prompt)
{
    ls_tokens ids = { 0 };
    ls_generated made;
    const int32_t end = ls_tokenizer_id(t, "<|endoftext|>");
    LS_TRY(ls_tokenizer_encode(t, prompt, strlen(prompt), true, &ids));
    for (int64_t i = 0; i < ids.n; i++)
        print(stream, ids.ids[i]);
    const ls_generate_opts o = {
        LS_GENERATE_DEFAULTS, .prompt = ids.ids, .n_prompt = ids.n, .tokens = 40,
        .ends = &end,         .n_ends = 1,       .on_token = print, .context = stream
    };
    ls_status s = ls_generate(g, &o, &made);
    free(ids.ids);
    if (s == LS_OK)
        fprintf(stderr, "\n%lld tokens, %.0f a second\n", (long long)made.tokens,
                (double)made.tokens / made.seconds);
    return s;
}

int main(int argc, char **argv)
{
    ls_generator *g = NULL;
    ls_tokenizer *t = NULL;
    ls_text_stream *stream = NULL;
    if (argc != 4) {
        fprintf(stderr, "usage: %s FOLDER TOKENIZER PROMPT\n", argv[0]);
        return 2;
    }
    ls_status s = ls_tokenizer_open(&t, argv[2]);
    if (s == LS_OK)
        s = ls_text_stream_create(&stream, t);
    if (s == LS_OK)
        s = ls_generator_open(&g, argv[1]);
    if (s == LS_OK)
        s = speak(g, t, stream, argv[3]);
    if (s != LS_OK)
        fprintf(stderr, "%s\n", ls_error_message());
    ls_text_stream_destroy(&stream);
    ls_generator_destroy(&g);
    ls_tokenizer_close(&t);
    return s != LS_OK;
}
