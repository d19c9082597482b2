/* test_args.c - options of the command line, and that the table of verbs is complete. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "cli/doctor.h"
#include "recipe/machine_file.h"
#include "recipe/recipe_fields.h"
#include "support/support.h"

static ls_args a;

static ls_status parse(const char *verb, int n, const char *const *words)
{
    ls_args_release(&a);
    LS_TRY(ls_args_parse(&a, ls_verb_find(verb), n, (char **)words));
    return ls_args_check(&a);
}
#define PARSE(verb, ...)                                                         \
    parse(verb, (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), \
          (const char *const[]){ __VA_ARGS__ })

static void options_and_words_in_any_order(void **state)
{
    (void)state;
    ASSERT_OK(PARSE("train", "--set", "train.epochs=3", "r.yaml", "--workers=2", "-qv", "--set=a=b=c",
                    "--profile=5:6", "--dry-run"));
    assert_int_equal(a.n_words, 1);
    assert_string_equal(a.words[0], "r.yaml");
    assert_int_equal(a.n_sets, 3);
    assert_string_equal(a.sets[0], "train.epochs=3");
    assert_string_equal(a.sets[1], "workers=2");
    assert_string_equal(a.sets[2], "a=b=c");
    assert_true(ls_args_has(&a, "--quiet") && ls_args_has(&a, "--verbose") && ls_args_has(&a, "--dry-run"));
    assert_false(ls_args_has(&a, "--no-progress"));
    assert_string_equal(ls_args_value(&a, "--profile"), "5:6");
    ls_recipe_arg arg = ls_args_recipe(&a);
    assert_string_equal(arg.name, "r.yaml");
    assert_int_equal(arg.n_sets, 3);
    ASSERT_OK(PARSE("train", "r", "--profile"));
    assert_true(ls_args_has(&a, "--profile"));
    assert_null(ls_args_value(&a, "--profile"));
    /* the last of two words: what lies behind is not asked */
    ASSERT_OK(parse("train", 2, (const char *const[]){ "r", "--profile", "5:6" }));
    assert_true(ls_args_has(&a, "--profile"));
    assert_null(ls_args_value(&a, "--profile"));
    ASSERT_OK(PARSE("train", "--profile", "11:20", "r")); /* the next word, if it can be nothing else */
    assert_string_equal(ls_args_value(&a, "--profile"), "11:20");
    assert_string_equal(a.words[0], "r");
    ASSERT_OK(PARSE("train", "--profile", "2nd.yaml"));
    assert_null(ls_args_value(&a, "--profile"));
    assert_string_equal(a.words[0], "2nd.yaml");
    ASSERT_OK(PARSE("plan", "r", "--isa", "avx2", "--threads", "4"));
    assert_string_equal(a.sets[0], "isa=avx2");
    assert_string_equal(a.sets[1], "threads=4");
    ASSERT_OK(PARSE("predict", "run", "a.png", "--", "--b.png"));
    assert_int_equal(a.n_words, 3);
    assert_string_equal(a.words[2], "--b.png");
    ASSERT_OK(PARSE("predict", "run", "-")); /* a word, no option */
    assert_int_equal(a.n_words, 2);
    assert_string_equal(a.words[1], "-");
    ASSERT_OK(PARSE("eval", "-vv", "run"));
    assert_int_equal(ls_args_count(&a, "--verbose"), 2);
    ASSERT_OK(PARSE("train", "--help")); /* help needs no recipe */
}

static void wrong_usage_says_what_is_right(void **state)
{
    (void)state;
    ASSERT_FAILS(PARSE("train", "--rezume=auto", "r"), LS_E_USAGE, "lockstep train has no option --rezume",
                 "--resume");
    ASSERT_FAILS(PARSE("train", "r", "-z"), LS_E_USAGE, "no option -z");
    /* keys, and names of torchrun and of other programs */
    ASSERT_FAILS(PARSE("train", "r", "--nproc_per_node=4"), LS_E_USAGE, "did you mean --workers?");
    ASSERT_FAILS(PARSE("launch", "--nproc-per-node", "4", "p"), LS_E_USAGE, "did you mean --workers?");
    ASSERT_FAILS(PARSE("launch", "--max_restarts", "4", "p"), LS_E_USAGE, "did you mean --max-failures?");
    ASSERT_FAILS(PARSE("train", "r", "--batch-size", "4"), LS_E_USAGE,
                 "did you mean --set train.global_batch=VALUE? (the samples");
    ASSERT_FAILS(PARSE("train", "r", "--lr", "4"), LS_E_USAGE, "did you mean --set optimizer.lr=VALUE?");
    ASSERT_FAILS(PARSE("train", "r", "--bf16"), LS_E_USAGE, "did you mean --set precision.param=bf16?");
    ASSERT_FAILS(PARSE("train", "r", "--model=vit"), LS_E_USAGE, "did you mean --set model.type=VALUE?");
    ASSERT_FAILS(PARSE("train", "r", "--nnodes", "2"), LS_E_USAGE, "use `lockstep train RECIPE --hosts");
    ASSERT_FAILS(PARSE("train", "r", "--pin-memory"), LS_E_USAGE, "--pin-memory; not needed, leave it out");
    ASSERT_FAILS(PARSE("runs", "--lr", "4"), LS_E_USAGE, "no option --lr");
    ASSERT_FAILS(PARSE("eval", "s3://bucket/run"), LS_E_USAGE,
                 "eval: s3://bucket/run: s3:// is not supported; what is: a path in a file system");
    ASSERT_FAILS(PARSE("export", "run", "--to", "http://host/model.pt"), LS_E_USAGE,
                 "--to: http://host/model.pt: ");
    ASSERT_FAILS(PARSE("train", "r", "--resume", "file:///runs/a"), LS_E_USAGE, "--resume: file:///runs/a: ");
    /* an address may be where one is wanted */
    ASSERT_OK(PARSE("train", "r", "--set", "data.mirror=https://host/data/"));
    ASSERT_FAILS(PARSE("runs", "--set", "a=b"), LS_E_USAGE, "lockstep runs has no option --set");
    ASSERT_FAILS(PARSE("train", "r", "--set"), LS_E_USAGE, "--set needs a value", "KEY=VALUE");
    ASSERT_FAILS(PARSE("train", "r", "--dry-run=yes"), LS_E_USAGE, "--dry-run takes no value");
    ASSERT_FAILS(PARSE("train", "-q"), LS_E_USAGE, "lockstep train needs RECIPE");
    ASSERT_FAILS(PARSE("train", "a", "b"), LS_E_USAGE, "unexpected argument 'b'");
    ASSERT_FAILS(PARSE("export", "a", "b.pt"), LS_E_USAGE,
                 "unexpected argument 'b.pt'; did you mean --to b.pt?");
    ASSERT_FAILS(PARSE("export", "a", "b", "--to", "c.pt"), LS_E_USAGE, "unexpected argument 'b' (usage");
    ASSERT_FAILS(ls_verb_unknown("evaluate"), LS_E_USAGE, "did you mean `lockstep eval`?");
    ASSERT_FAILS(ls_verb_unknown("tarin"), LS_E_USAGE, "did you mean `lockstep train`?");
    ASSERT_FAILS(ls_verb_unknown("xyzzy-plugh"), LS_E_USAGE, "lockstep --help");
}

/* (inlined, gcc 12 takes the stream's pointer to `text` for one that outlives it) */
__attribute__((noinline)) static char *help_of(const ls_verb *v)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    v ? ls_help_verb(f, v) : ls_help_table(f);
    fclose(f);
    return text;
}

/* Rows of each kind, which no verb need have. */
typedef struct row_opts {
    bool flag, second;
    const char *text, *folder;
    int narrow;
    int64_t wide, bytes;
    double real;
    ls_ending choice;
    ls_dtype dtype;
} row_opts;
#define AT(member) LS_OPTION_AT(row_opts, member)
#define LIST(...) \
    (const char *const[]) { __VA_ARGS__, NULL }
static const ls_option_row ROWS[] = {
    { "--flag", LS_OPTION_FLAG, NULL, AT(flag), .help = "." },
    { "--text", LS_OPTION_TEXT, "TEXT", AT(text), .excludes = LIST("--flag", "--folder *.csv"), .help = "." },
    { "--folder", LS_OPTION_FOLDER, "DIR", AT(folder), "auto", .words = LIST("auto", "never"), .help = "." },
    { "--narrow", LS_OPTION_INT, "N", AT(narrow), "3", -1, 9, .help = "." },
    { "--wide", LS_OPTION_INT, "N", AT(wide), NULL, 0, INFINITY, .help = "." },
    { "--bytes", LS_OPTION_BYTES, "SIZE", AT(bytes), .help = "." },
    { "--real", LS_OPTION_REAL, "X", AT(real), "0.5", 0, 2, .above = true, .help = "." },
    { "--choice", LS_OPTION_CHOICE, NULL, AT(choice), .words = LIST("a", "b", "c"), .help = "." },
    { "--second", LS_OPTION_CHOICE, NULL, AT(second), .words = LIST("no", "yes"), .help = "." },
    { "--dtype", LS_OPTION_DTYPE, "TYPE", AT(dtype), .words = LIST("f32", "bf16"), .help = "." },
    { "--needs", LS_OPTION_TEXT, "X", .needs = LIST("--narrow", "--folder *.npy *.csv", "--folder !never"),
      .why = "else nothing", .help = "." },
    { 0 }
};
static const ls_verb VERB = { .name = "rows", .words = "", .options = ROWS };

static ls_status take(row_opts *o, int n, const char *const *words)
{
    ls_args_release(&a);
    *o = (row_opts){ .wide = 7 };
    LS_TRY(ls_args_parse(&a, &VERB, n, (char **)words));
    LS_TRY(ls_args_check(&a));
    return ls_args_take(&a, ROWS, o);
}
#define TAKE(...)                                                             \
    take(&o, (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), \
         (const char *const[]){ __VA_ARGS__ })

static void rows_set_the_members_of_their_struct(void **state)
{
    (void)state;
    row_opts o;
    ASSERT_OK(take(&o, 0, NULL));
    assert_false(o.flag);
    assert_null(o.text);
    assert_string_equal(o.folder, "auto");
    assert_int_equal(o.narrow, 3);
    assert_int_equal(o.wide, 7); /* no default: it stays */
    assert_true(o.real == 0.5);
    ASSERT_OK(TAKE("--flag", "--folder", "x", "--narrow=-1", "--wide", "9007199254740993", "--bytes", "2KiB",
                   "--real", "2", "--choice", "c", "--second", "yes", "--dtype", "bf16"));
    assert_true(o.flag && o.second);
    assert_string_equal(o.folder, "x");
    assert_int_equal(o.narrow, -1);
    assert_int_equal(o.wide, 9007199254740993);
    assert_int_equal(o.bytes, 2048);
    assert_true(o.real == 2);
    assert_int_equal(o.choice, 2);
    assert_int_equal(o.dtype, LS_BF16);
    ASSERT_OK(TAKE("--text", "a", "--text", "b", "--narrow", "1", "--narrow", "2"));
    assert_string_equal(o.text, "b"); /* the last counts */
    assert_int_equal(o.narrow, 2);
}

static void rows_refuse_what_is_not_allowed(void **state)
{
    (void)state;
    row_opts o;
    ASSERT_FAILS(TAKE("--narrow", "10"), LS_E_USAGE, "--narrow 10: a whole number from -1 to 9 is needed");
    ASSERT_FAILS(TAKE("--narrow", "-2"), LS_E_USAGE, "--narrow -2: ");
    ASSERT_FAILS(TAKE("--narrow", "2x"), LS_E_USAGE, "--narrow 2x: ");
    ASSERT_FAILS(TAKE("--narrow", ""), LS_E_USAGE, "--narrow : ");
    ASSERT_FAILS(TAKE("--wide", "-1"), LS_E_USAGE, "--wide -1: a whole number from 0 up is needed");
    ASSERT_FAILS(TAKE("--wide", "99999999999999999999"), LS_E_USAGE, "--wide 99999999999999999999: ");
    ASSERT_FAILS(TAKE("--real", "0"), LS_E_USAGE, "--real 0: a number above 0 up to 2 is needed");
    ASSERT_FAILS(TAKE("--real", "2.1"), LS_E_USAGE, "--real 2.1: ");
    ASSERT_FAILS(TAKE("--real", "nan"), LS_E_USAGE, "--real nan: ");
    ASSERT_FAILS(TAKE("--real", "1,5"), LS_E_USAGE, "--real 1,5: ");
    ASSERT_FAILS(TAKE("--bytes", "0"), LS_E_USAGE, "--bytes 0: write a size, as 8GiB");
    ASSERT_FAILS(TAKE("--bytes", "8M"), LS_E_USAGE, "--bytes 8M: ");
    ASSERT_FAILS(TAKE("--choice", "d"), LS_E_USAGE, "--choice d: a, b or c is needed");
    ASSERT_FAILS(TAKE("--second", "YES"), LS_E_USAGE, "--second YES: no or yes is needed");
    ASSERT_FAILS(TAKE("--dtype", "f16"), LS_E_USAGE, "--dtype f16: f32 or bf16 is needed");
    ASSERT_FAILS(TAKE("--folder", "http://host/x"), LS_E_USAGE, "--folder: http://host/x: ");
    ASSERT_FAILS(TAKE("--choice"), LS_E_USAGE, "--choice needs a value: --choice a|b|c");
    ASSERT_OK(TAKE("--text", "http://host/x"));
}

static void rows_need_and_exclude_others(void **state)
{
    (void)state;
    row_opts o;
    static const char NEEDS[] = "--needs needs --narrow N, --folder DIR.npy or DIR.csv";
    ASSERT_FAILS(TAKE("--needs", "x"), LS_E_USAGE, NEEDS, ": else nothing");
    ASSERT_FAILS(TAKE("--needs", "x", "--narrow", "3"), LS_E_USAGE, NEEDS,
                 ", not --narrow 3"); /* its default */
    ASSERT_FAILS(TAKE("--needs", "x", "--folder", "never"), LS_E_USAGE, NEEDS, ", not --folder never");
    ASSERT_FAILS(TAKE("--needs", "x", "--folder", "auto"), LS_E_USAGE, NEEDS);
    ASSERT_OK(TAKE("--needs", "x", "--narrow", "4"));
    ASSERT_OK(TAKE("--folder", "a.csv", "--needs", "x"));
    ASSERT_OK(TAKE("--folder", "a", "--needs", "x"));
    ASSERT_FAILS(TAKE("--flag", "--text", "x"), LS_E_USAGE, "--text and --flag: give one of them");
    ASSERT_FAILS(TAKE("--text", "x", "--folder", "a.csv"), LS_E_USAGE,
                 "--text and --folder a.csv: give one of them");
    ASSERT_OK(TAKE("--text", "x", "--folder", "a.npy"));
}

/* Every row of every verb: its member has the size of its kind, its default and its words are allowed, and
 * what it names is there. */
static void check_row(const ls_option_row *rows, const ls_option_row *o)
{
    static const size_t SIZES[] = { [LS_OPTION_FLAG] = sizeof(bool),   [LS_OPTION_TEXT] = sizeof(char *),
                                    [LS_OPTION_FILE] = sizeof(char *), [LS_OPTION_FOLDER] = sizeof(char *),
                                    [LS_OPTION_REAL] = sizeof(double), [LS_OPTION_BYTES] = sizeof(int64_t),
                                    [LS_OPTION_DTYPE] = sizeof(int) };
    if (o->size && o->kind == LS_OPTION_INT)
        assert_true(o->size == sizeof(int64_t) || (o->size == sizeof(int) && o->max <= INT32_MAX));
    else if (o->size && o->kind == LS_OPTION_CHOICE)
        assert_true(o->size == sizeof(int) || (o->size == sizeof(bool) && !o->words[2]));
    else if (o->size)
        assert_int_equal(o->size, SIZES[o->kind]);
    assert_true(o->help && (o->kind == LS_OPTION_FLAG || o->value || o->words));
    if (o->kind == LS_OPTION_INT || o->kind == LS_OPTION_REAL)
        assert_true(o->max > o->min);
    if (o->fallback)
        ASSERT_OK(ls_option_read(o, o->fallback, NULL));
    for (int i = 0; o->words && o->words[i]; i++)
        ASSERT_OK(ls_option_read(o, o->words[i], NULL));
    if (o->key && *o->key)
        assert_true(ls_key_find(o->key) >= 0);
    const char *const *const lists[] = { o->needs, o->excludes };
    for (int l = 0; l < 2; l++)
        for (int i = 0; lists[l] && lists[l][i]; i++)
            assert_non_null(ls_option_find(rows, lists[l][i], strcspn(lists[l][i], " ")));
}

static void every_row_is_whole(void **state)
{
    (void)state;
    for (const ls_verb *v = LS_VERBS; v->name; v++)
        for (const ls_option_row *o = v->options; o && o->name; o++)
            check_row(v->options, o);
    for (const ls_option_row *o = LS_RECIPE_OPTIONS; o->name; o++)
        check_row(LS_RECIPE_OPTIONS, o);
    for (const ls_option_row *o = LS_COMMON_OPTIONS; o->name; o++)
        check_row(LS_COMMON_OPTIONS, o);
    /* the defaults of texts are those of the library */
    ls_predict_opts o = { 0 };
    const ls_generate_opts how = ls_generate_opts_default();
    ASSERT_OK(PARSE("predict", "run"));
    ASSERT_OK(ls_args_take(&a, ls_verb_find("predict")->options, &o));
    assert_int_equal(o.how.tokens, how.tokens);
    assert_true(o.how.length_penalty == how.length_penalty && o.how.least == how.least);
    assert_true(o.how.sampling.temperature == how.sampling.temperature);
    assert_true(o.how.early_stopping == how.early_stopping && o.how.sampling.seed == how.sampling.seed);
}

static void options_of_verbs_need_and_exclude_others(void **state)
{
    (void)state;
    ASSERT_FAILS(PARSE("plan", "r", "--memory", "8GiB"), LS_E_USAGE, "--memory needs --search");
    ASSERT_FAILS(PARSE("plan", "r", "--compare", "a=1", "--measure"), LS_E_USAGE,
                 "--compare and --measure: give one of them: ");
    ASSERT_FAILS(PARSE("predict", "r", "--prompt", "x", "--top-k", "3", "--temperature", "0.0"), LS_E_USAGE,
                 "--top-k needs --temperature T, not --temperature 0.0");
    ASSERT_FAILS(PARSE("chat", "r", "--top-p", "0.5"), LS_E_USAGE, "--top-p needs --temperature T");
    ASSERT_FAILS(PARSE("predict", "r", "--prompt", "x", "--beams", "2", "--temperature", "1"), LS_E_USAGE,
                 "--beams and --temperature: give one of them: beam search does not sample");
    ASSERT_OK(PARSE("predict", "r", "--prompt", "x", "--beams", "1", "--temperature", "1"));
    ASSERT_FAILS(PARSE("predict", "r", "--tokens", "3", "--out", "x.csv"), LS_E_USAGE,
                 "--tokens needs --prompt TEXT or --out FILE.jsonl, not --out x.csv");
    ASSERT_OK(PARSE("predict", "r", "--tokens", "3", "--out", "x.jsonl"));
    ASSERT_FAILS(PARSE("predict", "r", "--show", "--out", "x.csv"), LS_E_USAGE, "--show and --out x.csv: ");
    ASSERT_OK(PARSE("predict", "r", "--show", "--out", "x.png"));
    ASSERT_FAILS(PARSE("export", "r", "--to", "x.pt", "--optimizer"), LS_E_USAGE,
                 "--optimizer needs --to FILE.dcp or --format dcp, not --to x.pt");
    ASSERT_FAILS(PARSE("export", "r", "--to", "x.dcp", "--optimizer", "--ema"), LS_E_USAGE,
                 "--ema and --optimizer: give one of them: PyTorch's");
    ASSERT_FAILS(PARSE("train", "r", "--resume", "never", "--prefix", "app."), LS_E_USAGE,
                 "--prefix needs --resume CHECKPOINT, not --resume never");
    ASSERT_FAILS(PARSE("launch", "--rsh", "x", "p"), LS_E_USAGE,
                 "--rsh needs --hosts A:N,B:N or --hostfile FILE");
}

static void help_has_ranges_words_and_what_is_needed(void **state)
{
    (void)state;
    char *predict = help_of(ls_verb_find("predict")), *plan = help_of(ls_verb_find("plan")),
         *table = help_of(NULL);
    ASSERT_CONTAINS(predict, "(from 1 to 1024; default 1;");
    ASSERT_CONTAINS(predict, "--early-stopping false|true|never");
    ASSERT_CONTAINS(predict, "with --temperature: sample from the K most");
    ASSERT_CONTAINS(plan, "short for --set threads=N (from 0 to 4096)");
    ASSERT_CONTAINS(table, "\ttext\tauto generic avx2 ");
    ASSERT_CONTAINS(
        table, "(f32, bf16 or f16; default: unchanged; not with --to FILE.gguf)\ttext\tf32 bf16 f16\t\n");
    free(predict);
    free(plan);
    free(table);
}

static void too_many_options_are_refused(void **state)
{
    (void)state;
    const char *words[2 * LS_MAX_ARGS + 4];
    for (int i = 0; i < 2 * LS_MAX_ARGS + 4; i++)
        words[i] = "-q";
    ASSERT_FAILS(parse("train", LS_MAX_ARGS + 1, words), LS_E_USAGE, "more than");
    for (int i = 0; i < 2 * LS_MAX_ARGS + 4; i++)
        words[i] = "w";
    ASSERT_FAILS(parse("predict", LS_MAX_ARGS + 1, words), LS_E_USAGE, "more than");
}

static void every_verb_has_help_and_examples(void **state)
{
    (void)state;
    static const char *const CONTRACT[] = { "train",  "eval",    "predict", "plan", "explain",
                                            "export", "inspect", "recipe",  "runs", "doctor" };
    char *table = help_of(NULL);
    for (size_t i = 0; i < sizeof CONTRACT / sizeof CONTRACT[0]; i++) {
        const ls_verb *v = ls_verb_find(CONTRACT[i]);
        assert_non_null(v);
        char *help = help_of(v), line[64];
        assert_true(v->run && *v->summary && *v->about);
        for (const ls_option_row *o = v->options; o->name; o++)
            ASSERT_CONTAINS(help, o->name);
        ASSERT_CONTAINS(help, v->recipe ? "--set KEY=VALUE" : "--quiet");
        snprintf(line, sizeof line, "  lockstep %s", v->name);
        ASSERT_CONTAINS(strstr(help, "Examples:"), line);
        snprintf(line, sizeof line, "verb\t%s\t", v->name);
        ASSERT_CONTAINS(table, line);
        free(help);
    }
    free(table);
}

/* Splits a line of a shell at spaces outside of quotes, up to a comment or an operator. Returns how many
 * words; they lie in `line`. */
static int shell_words(char *line, char *words[LS_MAX_ARGS])
{
    int n = 0;
    for (char *p = line; *p;) {
        p += strspn(p, " ");
        if (!*p || *p == '#' || *p == '>' || *p == '&')
            return n;
        words[n++] = p;
        char *to = p, quote = 0;
        for (; *p && (quote || *p != ' '); p++)
            if (quote ? *p == quote : *p == '"' || *p == '\'')
                quote = quote ? 0 : *p;
            else
                *to++ = *p;
        p += *p == ' ';
        *to = 0;
    }
    return n;
}

static void examples_have_options_and_words_of_their_verb(void **state)
{
    (void)state;
    for (const ls_verb *v = LS_VERBS; v->name; v++) {
        char *text = strdup(v->examples), *rest = text, *line, *words[LS_MAX_ARGS];
        while ((line = strsep(&rest, "\n"))) {
            const int n = shell_words(line, words);
            int at = 0; /* behind mpirun */
            while (at < n && strcmp(words[at], "lockstep"))
                at++;
            assert_true(at + 1 < n && !strcmp(words[at + 1], v->name));
            ASSERT_OK(parse(v->name, n - at - 2, (const char *const *)words + at + 2));
        }
        free(text);
    }
}

static int release(void **state)
{
    (void)state;
    ls_args_release(&a);
    return 0;
}

/* `doctor --write-machine` writes a file that `plan --machine` reads as the same machine. */
static void a_measured_machine_is_a_file(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s", ls_test_path("here.yaml"));
    const ls_calibration c = { .hardware = "Some \"CPU\" 3",
                               .device = "cpu",
                               .arch = "avx2",
                               .threads = 2,
                               .flops = 1e11,
                               .all_flops = 2e11,
                               .gemm_efficiency = 1.02,
                               .bytes_memory = 9e9,
                               .all_memory = 18e9,
                               .op_overhead = 1e-7 };
    const ls_collective_speed wires[LS_COLLECTIVE_SPEEDS] = {
        [LS_SPEED_HOST] = { .latency = 2e-6, .bandwidth = 4e9 },
        [LS_SPEED_NETWORK] = { .latency = 1e-4, .bandwidth = 1e8, .alone = 6e7, .busy = 0.25 }
    };
    ASSERT_OK(ls_doctor_write_machine(path, &c, 4, false, wires));
    ls_machine m;
    ls_arena arena;
    ls_arena_init(&arena);
    ASSERT_OK(ls_machine_load(&m, &arena, path));
    assert_int_equal(m.host.ranks, 4);
    assert_float_equal(m.device.flops, 2e11, 1);
    assert_float_equal(m.device.efficiency, 1, 0);
    assert_float_equal(m.device.bandwidth, 2e10, 1);
    assert_float_equal(m.network.bandwidth, 1e8, 1);
    assert_float_equal(m.network.alone, 6e7, 1);
    assert_float_equal(m.network.busy, 0.25, 1e-9);
    assert_float_equal(m.link.latency, 2e-6, 1e-12);
    assert_int_equal(m.host.memory % (1 << 20), 0); /* not 25.276510208GB */
    assert_null(strstr(m.source, "too slow"));
    ASSERT_OK(ls_doctor_write_machine(path, &c, 4, true, wires)); /* on a machine that was not quiet */
    ASSERT_OK(ls_machine_load(&m, &arena, path));
    ASSERT_CONTAINS(m.source, "while other programs used the cores: too slow");
    ASSERT_FAILS(ls_doctor_write_machine("/nowhere/x.yaml", &c, 4, false, wires), LS_E_IO, "--write-machine",
                 "/nowhere");
    ls_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_words_in_any_order),
        cmocka_unit_test(wrong_usage_says_what_is_right),
        cmocka_unit_test(rows_set_the_members_of_their_struct),
        cmocka_unit_test(rows_refuse_what_is_not_allowed),
        cmocka_unit_test(rows_need_and_exclude_others),
        cmocka_unit_test(every_row_is_whole),
        cmocka_unit_test(options_of_verbs_need_and_exclude_others),
        cmocka_unit_test(help_has_ranges_words_and_what_is_needed),
        cmocka_unit_test(too_many_options_are_refused),
        cmocka_unit_test(every_verb_has_help_and_examples),
        cmocka_unit_test(a_measured_machine_is_a_file),
        cmocka_unit_test(examples_have_options_and_words_of_their_verb),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
