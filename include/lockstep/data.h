/* data.h - data sets, the order of their samples, the loader that feeds a step, and pictures in and out.
 *
 * A data set is a function from index to a sample, and a sample is a list of named fields: "images" u8
 * [channels, height, width] and "labels" i32 [], or "ids" i32 [tokens] and "targets" i32 [tokens]. An input
 * of the model takes the field of its name. The order of an epoch is a pure function of (seed, epoch,
 * position), so any process can start at any step and any rank can find its samples without talking to the
 * others. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif

#include "graph.h"
#include "parallel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- data sets */

typedef enum ls_split { LS_SPLIT_TRAIN, LS_SPLIT_EVAL } ls_split;

/* Random crops of training images. */
typedef enum ls_crop {
    LS_CROP_NONE,
    LS_CROP_PADDED, /* torchvision's RandomCrop(size, padding): the image moves; what it leaves is black */
    LS_CROP_RESIZED /* its RandomResizedCrop: a box of the image, resized to the model's size */
} ls_crop;

/* A file that a data set was made of. */
typedef struct ls_dataset_part {
    const char *what; /* "images", "labels", "text", "tokenizer" */
    const char *path; /* where it was found */
    uint64_t digest;  /* xxh3 of its content; of an IDX file, inflated */
} ls_dataset_part;

/* A field of every sample. */
typedef struct ls_field {
    const char *name;
    ls_type type;   /* of one sample */
    int64_t below;  /* of integers: all are below it: classes, ids. 0: not known */
    bool ignorable; /* of integers: LS_IGNORE_LABEL may stand for one that does not count; padding has it */
    const char *const *names; /* [below], of classes; NULL: they have none */
} ls_field;

typedef struct ls_dataset ls_dataset;
struct ls_dataset {
    const char *name; /* "fashion-mnist"; "shapes" when the built-in set stands in */
    /* one line for logs and results: where the samples come from; for the built-in set also which set was not
     * found */
    const char *source;
    bool builtin; /* the procedural set: every result must say so */
    ls_split split;
    int64_t n;
    int n_fields; /* the library's own sets have 2, the input and the target; packed documents positions, too
                   */
    const ls_field *fields;
    const int32_t *end_token; /* of text: the id that ends one; NULL: none is known */
    /* Sample i, 0 <= i < n: field k into to[k], memory of its type; NULL: it is not wanted. Any thread, any
     * order. */
    ls_status (*read)(const ls_dataset *set, int64_t i, void *const *to);
    /* How many entries of field k, an ignorable one, count in sample i. With it the ranks need no message to
     * know the divisor of a step's loss; NULL: they send one. */
    int64_t (*count)(const ls_dataset *set, int64_t i, int k);
    void (*close)(ls_dataset *set); /* frees everything, the struct too */
    /* For training: as `read`, but with random changes that follow from `draw` alone, a number for each
     * (seed, epoch, sample). NULL: samples are trained on as they are. */
    ls_status (*read_drawn)(const ls_dataset *set, int64_t i, uint64_t draw, void *const *to);
    /* Then, for each micro-batch: changes of its first `rows` rows that need several samples, as mixup does.
     * `to` as of ls_order_fill; `draw` is a number for each (seed, epoch, step, micro-batch). NULL: none. */
    void (*mix)(const ls_dataset *set, uint64_t draw, int64_t rows, void *const *to);
    int threads; /* threads of a loader that are worth reading with, where a sample takes long; 0: one */
    /* of all that the samples follow from: sets with the same one have the same samples; 0: not known */
    uint64_t digest;
    const ls_dataset_part *parts; /* [n_parts], for messages about sets that differ; NULL: none */
    int n_parts;
    /* Returns the name of sample i's file, malloc'ed; NULL: no memory. Local. The member is NULL where
     * samples are not files. */
    char *(*file)(const ls_dataset *set, int64_t i);
};

typedef struct ls_dataset_options {
    /* folder of the set, or one with NAME/; "": LOCKSTEP_DATA, cache, download, built-in set */
    const char *path;
    const char *images, *labels; /* type "idx" only: the two files of this split */
    /* 0: the set's own; else labels must be below it ("idx": 0 counts the labels) */
    int classes;
    bool download; /* may fetch a missing set into the cache */
    bool fallback; /* may use the built-in set when no other set is available */
    /* "": the known mirrors; else a URL of a folder with the four files (http, https, file) */
    const char *mirror;
    /* Called while a file is fetched, about ten times a second and at its end; total is 0 while unknown.
     * NULL: none. */
    void (*progress)(void *context, const char *file, int64_t bytes, int64_t total, double bytes_per_second);
    void *context;
} ls_dataset_options;
#define LS_DATASET_DEFAULTS \
    .path = "", .images = "", .labels = "", .classes = 0, .download = true, .fallback = true, .mirror = ""
LS_API ls_dataset_options ls_dataset_options_default(void);

/* Opens one split. type: "mnist", "fashion-mnist", "idx" or "shapes" (the built-in set by its name). Local.
 *     ls_dataset_open(&set, "mnist", LS_SPLIT_TRAIN, .path = folder)
 * Errors: LS_E_FORMAT damaged files (path, offset), LS_E_IO missing or unreadable, LS_E_USAGE wrong type or
 * path, LS_E_SHAPE number of classes. */
LS_API ls_status ls_dataset_open_with(ls_dataset **out, const char *type, ls_split split,
                                      const ls_dataset_options *options LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_dataset_open(...) ls_dataset_open_with(__VA_ARGS__)
#else
#define ls_dataset_open(out, type, split, ...)                         \
    LS_QUIETLY(ls_status, ls_dataset_open_with((out), (type), (split), \
                                               &(ls_dataset_options){ LS_DATASET_DEFAULTS, ##__VA_ARGS__ }))
#endif
/* harmless on NULL. A set that loaders read is freed with the last of them */
LS_API void ls_dataset_close(ls_dataset **set);

/* The field of that name, or NULL. Local. */
LS_API const ls_field *ls_dataset_field(const ls_dataset *set, const char *name);
/* LS_E_SHAPE with both sizes if images do not fit a model with this input and this many classes. Local. */
LS_API ls_status ls_dataset_check(const ls_dataset *set, int channels, int height, int width, int classes);
/* "mnist, fashion-mnist, idx, shapes": for help and messages. */
LS_API const char *ls_dataset_types(void);
/* Whether `type` is one of them. */
LS_API bool ls_dataset_type_known(const char *type);
/* Sizes that are known without any file, so that `plan` needs no data. False for "idx". Counts are of the
 * real set. */
LS_API bool ls_dataset_sizes(const char *type, int64_t *train, int64_t *eval, int *channels, int *height,
                             int *width, int *classes);

/* ---- text */

typedef enum ls_documents {
    LS_DOCUMENTS_FILE,  /* a document is a file, */
    LS_DOCUMENTS_LINE,  /* a line, */
    LS_DOCUMENTS_BLANK, /* what lies between blank lines, */
    LS_DOCUMENTS_JSON   /* a text in each line's JSON object */
} ls_documents;

/* What a sample is. */
typedef enum ls_pack_choice {
    LS_PACK_NONE,     /* a document, padded with end tokens */
    LS_PACK_STREAM,   /* a window of the concatenated documents; a token sees all before it, also those of
                       * other documents */
    LS_PACK_DOCUMENTS /* whole documents side by side. A further field `positions` i32 [seq_length], 0 at the
                       * first token of each, keeps them apart in ls_rope and ls_packed_attention */
} ls_pack_choice;

/* What becomes of a document that is longer than a sample. */
typedef enum ls_too_long {
    LS_TOO_LONG_CUT,  /* its first tokens */
    LS_TOO_LONG_DROP, /* it is left out */
    LS_TOO_LONG_SPLIT /* several documents */
} ls_too_long;

typedef struct ls_text_options {
    /* files of the evaluation split; "": eval_fraction of the documents, the same ones for every seed */
    const char *eval_path;
    double eval_fraction;
    ls_documents documents;
    const char *field;     /* LS_DOCUMENTS_JSON: the text's name in the object */
    const char *end_token; /* as the tokenizer writes it; "": the usual ones are tried */
    ls_pack_choice pack;
    int vocabulary; /* the model's; ids must be below it. 0: any */
    int threads;    /* that tokenize; 0: as many as there are cores */
    /* Called while text is tokenized, and at its end; total: of all files, as they lie on disk. NULL: none.
     */
    void (*progress)(void *context, const char *file, int64_t bytes, int64_t total, double bytes_per_second);
    void *context;
    /* This percentage of the source's rows, from the first one on, is trained on; rounded to the nearest
     * whole number, a half to the even one. A row is a line with LS_DOCUMENTS_LINE, also a blank line, which
     * is then left out; else it is a document. */
    double train_percentage;
    ls_too_long too_long; /* not with LS_PACK_STREAM */
} ls_text_options;
#define LS_TEXT_DEFAULTS                                                                             \
    .eval_path = "", .eval_fraction = 0.05, .documents = LS_DOCUMENTS_FILE, .field = "text",         \
    .end_token = "", .pack = LS_PACK_STREAM, .vocabulary = 0, .threads = 0, .train_percentage = 100, \
    .too_long = LS_TOO_LONG_CUT
LS_API ls_text_options ls_text_options_default(void);

/* Text for a model that predicts the next token: a sample is ids i32 [seq_length] and targets i32
 * [seq_length], target t being what follows id t, or LS_IGNORE_LABEL; with LS_PACK_DOCUMENTS also positions.
 * `path`: a file, plain or gzip, or a pattern (* ? [...] {a,b}), relative to the working folder or to
 * LOCKSTEP_DATA; `tokenizer`: as ls_tokenizer_open takes it, found alike. Tokens are kept in the cache, and
 * made only when they are not there: docs/text.md. Local.
 *
 *     ls_text_open(&set, LS_SPLIT_TRAIN, "books/{a,b}.txt.gz", "bytes", 512, .documents = LS_DOCUMENTS_BLANK)
 *
 * Errors: LS_E_USAGE no such file, no text, less text than a window, an end token or a split that cannot be;
 * LS_E_FORMAT with file and offset or line; LS_E_SHAPE a vocabulary above the model's; LS_E_IO, also when the
 * cache cannot be written. */
LS_API ls_status ls_text_open_with(ls_dataset **out, ls_split split, const char *path, const char *tokenizer,
                                   int64_t seq_length, const ls_text_options *options LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_text_open(...) ls_text_open_with(__VA_ARGS__)
#else
#define ls_text_open(out, split, path, tokenizer, seq_length, ...)                             \
    LS_QUIETLY(ls_status, ls_text_open_with((out), (split), (path), (tokenizer), (seq_length), \
                                            &(ls_text_options){ LS_TEXT_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* ---- conversations */

/* Which tokens of a conversation are targets. */
typedef enum ls_train_on {
    LS_TRAIN_ON_ASSISTANT, /* what assistants wrote, up to the token that ends the turn */
    LS_TRAIN_ON_LAST,      /* the same of the last assistant's message */
    LS_TRAIN_ON_ALL        /* all */
} ls_train_on;

/* ---- pairs of texts */

typedef struct ls_pairs_options {
    /* columns of CSV, or members of each line's JSON object: a text, or a list of texts */
    const char *source, *target;
    const char *prefix;    /* put before each source, as in "summarize: " */
    int64_t samples;       /* of this split, the first so many; 0: all */
    const char *eval_path; /* as in ls_text_options, and so are the others */
    double eval_fraction;
    const char *end_token;
    int vocabulary, threads;
    void (*progress)(void *context, const char *file, int64_t bytes, int64_t total, double bytes_per_second);
    void *context;
} ls_pairs_options;
#define LS_PAIRS_DEFAULTS                                                                \
    .source = "source", .target = "target", .prefix = "", .samples = 0, .eval_path = "", \
    .eval_fraction = 0.05, .end_token = "", .vocabulary = 0, .threads = 0
LS_API ls_pairs_options ls_pairs_options_default(void);

/* Sources and targets for a model that reads the one and writes the other (T5): a sample is ids i32
 * [source_length], the tokens of the source cut so that its end token fits, filled up with 0; and targets i32
 * [target_length], the tokens of the target, cut in the same way and filled up with LS_IGNORE_LABEL. `path`
 * and `tokenizer` are as ls_text_open takes them: files of CSV with a header, or of JSON lines. Tokens are
 * kept in the cache: docs/text.md. Local.
 *
 *     ls_pairs_open(&set, LS_SPLIT_TRAIN, "wikihow.csv", "t5-base", 512, 150,
 *                   .source = "text", .target = "headline")
 *
 * Errors: as of ls_text_open; LS_E_FORMAT with file and line also for a record that is not sound, and for an
 * empty source or target. */
LS_API ls_status ls_pairs_open_with(ls_dataset **out, ls_split split, const char *path, const char *tokenizer,
                                    int64_t source_length, int64_t target_length,
                                    const ls_pairs_options *options LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_pairs_open(...) ls_pairs_open_with(__VA_ARGS__)
#else
#define ls_pairs_open(out, split, path, tokenizer, source_length, target_length, ...)                    \
    LS_QUIETLY(ls_status,                                                                                \
               ls_pairs_open_with((out), (split), (path), (tokenizer), (source_length), (target_length), \
                                  &(ls_pairs_options){ LS_PAIRS_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* ---- arrays */

/* A set in memory, for an evaluation or a scaling: copies `values` [n, sample] as a field of all its samples,
 * in any strides. The first field makes the set (*set is NULL before) and says n. Before anything reads it.
 * Local. LS_E_ARG: the set has the field already, or was not made here; LS_E_SHAPE: another n, or none. */
LS_API ls_status ls_dataset_put(ls_dataset **set, const char *field, const ls_tensor *values);

/* Which numbers a float field may have. */
typedef enum ls_array_range { LS_ARRAY_ANY, LS_ARRAY_FROM_0, LS_ARRAY_0_TO_1 } ls_array_range;

/* One field of the samples: an array [samples, ..] in a file. */
typedef struct ls_array_field {
    const char *field; /* its name: letters, digits and _ */
    /* "x.npy", "all.npz:ARRAY", "all.csv:COLUMN,COLUMN", "all.h5:DATASET", "all.nc:VARIABLE" (NetCDF-4);
     * without what follows ":", the array or the column of the field's name. Mapped and never read as a
     * whole, but for tables, compressed archives and small HDF5 arrays in chunks. A relative path is looked
     * for in the working folder and in LOCKSTEP_DATA. */
    const char *file;
    /* what samples have: LS_F32 or LS_F64, of any numbers in the file; LS_I32, LS_I64 or LS_U8, of integers
     * and bool that fit */
    ls_dtype as;
    int64_t below;        /* of integers: all are from 0 on and below it; 0: any */
    bool ignorable;       /* of integers: LS_IGNORE_LABEL may stand for one that does not count */
    ls_array_range range; /* of floats */
    /* of floats: NaN is a missing number. It is read as 0, and another field, NAME.valid, of the same type,
     * is 0 where a number is missing and 1 elsewhere. false: NaN is an error */
    bool missing;
    const char *classes; /* of integers from a table: its texts, "a,b,c", which are 0, 1, 2. NULL: numbers */
    /* of LS_I32 from a table: a tokenizer's file (lockstep/tokenizer.h). The column has texts, the field
     * their ids, [tokens], cut or filled up with `pad`, a token that no text may have. Two columns are pairs
     * of texts, [2, tokens]: ids and token types. NULL: numbers */
    const char *tokenizer;
    int64_t tokens;
    int32_t pad;
    /* with `classes`: the column of texts whose words have these classes. This column names a class for each
     * word, with spaces between them. The field, [tokens], has it at the first token of the word, and
     * LS_IGNORE_LABEL elsewhere. NULL: the column is texts */
    const char *words;
} ls_array_field;

/* Opens the n arrays as a data set; sample i is row i of each. Only the rows that are read are ever in
 * memory. Local.
 *
 *     ls_arrays_open(&set, LS_SPLIT_TRAIN, 2, (ls_array_field[]){ { "x", "x.npy", LS_F32 },
 *                                                                 { "y", "y.npy", LS_F32 } });
 *
 * Errors: LS_E_USAGE no such file, a name that a field cannot have or that occurs twice, another number of
 * rows than the first array has; LS_E_FORMAT, LS_E_UNSUPPORTED as NumPy's files are read; LS_E_SHAPE no
 * samples, elements of another kind. Reading fails with LS_E_FORMAT and file, row and element: NaN or an
 * infinite number, a number beyond f32 or the integer type, out of `range`, a label that is not below
 * `below`. Rows count from 0. */
LS_API ls_status ls_arrays_open(ls_dataset **out, ls_split split, int n, const ls_array_field *arrays);

/* The same where the files have the samples of both splits: `eval_fraction` of the rows are for evaluation,
 * the same ones for every seed; the others are trained on. If a field has a class for each row (`below`),
 * each class gives its share, at least one row and never all. docs/arrays.md has the rule. LS_E_ARG: a
 * fraction that is not between 0 and 1; LS_E_USAGE: no class has two rows. */
LS_API ls_status ls_arrays_split(ls_dataset **out, ls_split split, double eval_fraction, int n,
                                 const ls_array_field *arrays);

/* ---- pictures in files */

typedef struct ls_images_options {
    const char *path; /* a folder: PATH/train/CLASS/ and PATH/val/CLASS/ have the pictures of the splits */
    /* for each split in place of it: a folder with a folder for each class; a file "LIST.csv" with the
     * columns path and label; or a pattern of tar archives, "shard-*.tar", of KEY.jpg and KEY.cls. "": below
     * `path` */
    const char *train, *eval;
    /* of the training pictures are for evaluation if there are no others: neither `eval` nor PATH/val. Then
     * PATH/CLASS/ may have the pictures, without `train`. By class, the same ones for every seed: of each
     * class its share, at least one and never all. 0: none */
    double eval_fraction;
    int classes; /* labels must be below it; 0: any */
    /* evaluation: the shorter side becomes this, and the middle is cut out; 0: size * 256 / 224 */
    int resize;
    int threads; /* of a loader; 0: one */
    /* A damaged picture is named in the log and replaced in training by the next sound one of the list; in an
     * evaluation it does not count. false: it is an error */
    bool skip;
    /* In place of a class: numeric columns of LIST.csv, with the columns' names as fields (`file` and `below`
     * have no effect). An evaluation has no mark for a number that does not count, so there `skip` has no
     * effect. */
    int n_values;
    const ls_array_field *values;
    /* In place of a class: the class of each pixel. Folders have images/NAME.jpg and masks/NAME.png, and the
     * value of a pixel of a mask, or its number in the palette, is its class, below `classes` (0: 255). This
     * is the field's name; NULL: labels */
    const char *mask;
    const char *image; /* with `mask`, the name of the picture's field; NULL: "image" */
    int ignore;        /* value of the pixels of a mask that do not count; -1: none */
} ls_images_options;
#define LS_IMAGES_DEFAULTS                                                                            \
    .path = "", .train = "", .eval = "", .eval_fraction = 0, .classes = 0, .resize = 0, .threads = 0, \
    .skip = false, .n_values = 0, .values = NULL, .mask = NULL, .image = NULL, .ignore = -1
LS_API ls_images_options ls_images_options_default(void);

/* Pictures in files of JPEG, PNG, PGM or PPM as a data set of "images" u8 [channels, size, size] and "labels"
 * i32 [], or of "images" and `values`, or of `image` f32 [channels, size, size], 0 to 255, and `mask` i32
 * [size, size]: docs/images.md. Channels are 3, or 1 for grey; a picture's colours are changed to fit. A
 * picture is decoded when it is read, in any thread; opening lists files, or headers of shards. Local.
 *     ls_images_open(&set, LS_SPLIT_TRAIN, 3, 224, .path = "flowers")
 * Errors: LS_E_USAGE no such folder or file, an empty class, a class that only one split has; LS_E_FORMAT
 * with file and line or offset; LS_E_SHAPE a label that is not below `classes`. Reading fails with LS_E_IO,
 * or LS_E_FORMAT for a damaged picture; LS_E_SHAPE for a mask with a value that is not below `classes`;
 * LS_E_UNSUPPORTED for JPEG in a build without libjpeg. */
LS_API ls_status ls_images_open_with(ls_dataset **out, ls_split split, int channels, int size,
                                     const ls_images_options *options LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_images_open(...) ls_images_open_with(__VA_ARGS__)
#else
#define ls_images_open(out, split, channels, size, ...)                           \
    LS_QUIETLY(ls_status, ls_images_open_with((out), (split), (channels), (size), \
                                              &(ls_images_options){ LS_IMAGES_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* ---- order */

/* Step k of an epoch takes positions [k*global_batch, (k+1)*global_batch) of the epoch's order; its
 * micro-batch m of M = global_batch / micro_batch takes positions m, m+M, m+2M, ... of those. */
typedef struct ls_order {
    int64_t n;                         /* samples in the set */
    int64_t global_batch, micro_batch; /* samples; micro_batch divides global_batch */
    uint64_t seed;
    bool shuffle;   /* false: position p is sample p, in every epoch */
    bool drop_last; /* false: the ragged last step is padded, and the padding does not count */
    int64_t steps;  /* an epoch ends after so many at most; 0: no limit */
    bool augment;   /* random changes of samples, if the set has some (read_drawn, mix); else as they are */
    /* [n], sums of the samples' weights from the first one on: each position draws a sample in proportion to
     * its weight, as PyTorch's WeightedRandomSampler. NULL: each sample comes once */
    const double *draws;
    bool blocks; /* micro-batch m takes successive positions of the step instead */
} ls_order;
/* LS_E_USAGE: sizes that do not divide, a set smaller than one batch, ... */
LS_API ls_status ls_order_check(const ls_order *o);
LS_API int64_t ls_order_steps(const ls_order *o);                                  /* per epoch */
LS_API int64_t ls_order_index(const ls_order *o, int64_t epoch, int64_t position); /* sample, 0 .. n-1 */
/* The sample in that row of micro-batch m, or -1: padding. */
LS_API int64_t ls_order_sample(const ls_order *o, int64_t epoch, int64_t step, int64_t m, int64_t row);
LS_API int64_t ls_order_samples(const ls_order *o, int64_t step); /* of that step, without padding */
/* How many entries of field k count in that step; -1: the set does not say (ls_dataset.count). */
LS_API int64_t ls_order_count(const ls_order *o, const ls_dataset *set, int k, int64_t epoch, int64_t step);

/* Fills one micro-batch: field k into to[k], [micro_batch, field of a sample]; NULL: it is not wanted. Its
 * first rows are samples; padding behind them repeats a sample of the step, with LS_IGNORE_LABEL in ignorable
 * fields. One copy, straight from the mapped file. Local; any thread. */
LS_API ls_status ls_order_fill(const ls_order *o, const ls_dataset *set, int64_t epoch, int64_t step,
                               int64_t m, void *const *to);

/* ---- loader */

/* Threads, one or as many as the set says, fill a ring of steps ahead of the training thread. Training:
 * shuffle as asked. Evaluation: shuffle and drop_last false, one epoch; every sample comes exactly once. On
 * several ranks each rank's loader reads its share of every step alone; no rank needs another for that. */
/* A loader belongs to one thread at a time; a data set may be read by any number of them. */
typedef struct ls_loader ls_loader;
typedef struct ls_loader_step {
    int64_t epoch, step;
    ls_share share;   /* its micro-batches: all M by default */
    int64_t samples;  /* of the whole step, over all ranks; not padding */
    int64_t replaced; /* of the share: samples that stand in for broken ones (ls_images_options) */
    int n_fields;
    const struct ls_loader_field *fields; /* the loader's: for ls_trainer_step_from and ls_loader_copy */
} ls_loader_step;

typedef struct ls_loader_options {
    int64_t epoch, step; /* where to start */
    int64_t epochs;      /* the last epoch is epochs-1; after it ls_loader_next gives done. -1: never ends */
    ls_share share;      /* micro-batches that are loaded (ls_parallel_share); count -1: all */
    int ring;            /* steps filled ahead, at least 1 */
    double deadline;     /* seconds that ls_loader_next waits for a step before it is an error */
} ls_loader_options;
#define LS_LOADER_DEFAULTS \
    .epoch = 0, .step = 0, .epochs = -1, .share = { 0, 1, -1 }, .ring = 4, .deadline = 300
LS_API ls_loader_options ls_loader_options_default(void);
LS_API ls_status ls_loader_create_with(ls_loader **out, const ls_dataset *set, const ls_order *order,
                                       const ls_loader_options *options LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_loader_create(...) ls_loader_create_with(__VA_ARGS__)
#else
#define ls_loader_create(out, set, order, ...)                         \
    LS_QUIETLY(ls_status, ls_loader_create_with((out), (set), (order), \
                                                &(ls_loader_options){ LS_LOADER_DEFAULTS, ##__VA_ARGS__ }))
#endif
LS_API void ls_loader_destroy(ls_loader **loader); /* at any time; joins the thread; harmless on NULL */

/* The next step; *done (then *step is untouched) after the last epoch. The step is valid until the next call
 * on this loader. An error of the loader thread (its message too) comes out here, and again at every later
 * call until a seek. */
LS_API ls_status ls_loader_next(ls_loader *l, ls_loader_step *step, bool *done);
/* Copies a field of the step, [micro_batches, micro_batch, field of a sample], to `to`, which has so many
 * bytes. LS_E_ARG: the samples have no such field; LS_E_SHAPE: the field has another number of bytes. Local.
 */
LS_API ls_status ls_loader_copy(const ls_loader_step *step, const char *field, void *to, size_t bytes);
/* Continues at (epoch, step); what was filled ahead is thrown away. */
LS_API ls_status ls_loader_seek(ls_loader *l, int64_t epoch, int64_t step);

/* ---- images from files */

typedef struct ls_image {
    int channels, height, width; /* 1 gray, 3 red green blue */
    uint8_t *data;               /* [channels, height, width]; freed by ls_image_release */
} ls_image;

/* PGM and PPM (P2 P3 P5 P6), PNG (8 or 16 bit, gray, colour, palette; transparency over black) and JPEG, told
 * apart by their first bytes. */
LS_API ls_status ls_image_read(ls_image *out, const char *path);
/* `what` names it in messages */
LS_API ls_status ls_image_parse(ls_image *out, const void *bytes, size_t n, const char *what);
LS_API void ls_image_release(ls_image *image);
/* Makes the image fit a model: colour becomes gray (ITU-R BT.601 weights) and gray is repeated as needed;
 * another size is LS_E_SHAPE naming both, or with `resize` a bilinear one (pixel centres at half, as
 * PyTorch's align_corners=False, antialiased when shrinking). */
LS_API ls_status ls_image_fit(ls_image *image, int channels, int height, int width, bool resize,
                              const char *what);

/* ---- pictures out */

typedef struct ls_picture_cell {
    const uint8_t *image;  /* [channels, height, width] of the picture */
    const char *label;     /* NULL: not known */
    const char *predicted; /* NULL: none */
    double probability;    /* of the prediction; negative: none */
} ls_picture_cell;

typedef struct ls_picture {
    const char *title;
    const char *note; /* second line, e.g. that the built-in set was used; "" none */
    int channels, height, width;
    int columns; /* cells beside each other; 0: chosen for a pleasant shape */
    int64_t n;
    const ls_picture_cell *cells;
} ls_picture;

/* Writes the grid as .svg or .png, by the path's extension (LS_E_USAGE otherwise); atomic. Right predictions
 * are green, wrong ones red and say both names. Local. */
LS_API ls_status ls_picture_write(const char *path, const ls_picture *p);
/* Refuses what ls_picture_write would: another extension, or too large, with how many samples are not
 * (LS_E_USAGE). Reads no pixels. Local. */
LS_API ls_status ls_picture_fits(const char *path, const ls_picture *p);
/* One image [channels, height, width] as terminal text, two rows of pixels a line: half blocks in true
 * colour, or without colour (NO_COLOR, a file) a ramp of ASCII characters. The caller frees it. Local. */
LS_API char *ls_image_text(const uint8_t *image, int channels, int height, int width, bool colour);

#ifdef __cplusplus
}
#endif
