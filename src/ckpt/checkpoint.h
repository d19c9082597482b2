/* checkpoint.h - a checkpoint is a folder: config.json, model.safetensors, optimizer.safetensors (or shards
 * of them with an index, or a file for each rank), live.safetensors if there is a queue of samples,
 * trainer.json, manifest.json, and of a text model the files of its tokenizer.
 *
 * All ranks write it. Each writes its own ranges to their positions in the files, so nothing is collected. It
 * is written under a temporary name beside its final one, and manifest.json is written when all other files
 * are on disk. The folder is renamed last, so a folder with the final name is complete. config.json and the
 * tensor files depend on neither the time nor (unless each rank has its own) the number of ranks: equal
 * values give equal files. manifest.json lists for every file its size and the xxh3 of each of its pieces;
 * its last line is the xxh3 of all bytes before that line. A folder of checkpoints has one writer at a time:
 * one process, or the ranks of one group. */
#pragma once
#include "base/box.h"
#include "execute/session.h"
#include "lockstep/group.h"
#include "lockstep/weights.h"

/* A rank's range of a tensor, to be saved or loaded: `count` elements of its block, from number `first` on,
 * in row-major order. count 0: the rank has nothing of it. They lie one after the other, at a contiguous
 * place of a session (its number of elements is not read) or, if that is none, at `data` in host memory. */
typedef struct ls_range {
    int64_t first, count;
    void *data;
    ls_place place;
    const ls_box *box; /* the block; NULL: the whole tensor */
    bool differ;       /* other ranks' blocks of it may have other shapes */
} ls_range;
/* The run of elements that begins with number `at` (0 .. count-1) of the range and is contiguous in the
 * tensor. Returns its first element in the tensor; *count receives its length. */
int64_t ls_range_piece(const ls_range *r, int64_t at, int64_t *count);

typedef struct ls_tensor_list {
    int64_t n;
    /* whole tensors, the same list on every rank; their `data` are not read */
    const ls_named_tensor *tensors;
    const ls_range *mine; /* [n]; together the ranks' ranges must be each element once */
    /* Of the first `numbers` tensors no element may be NaN, and of the first `finite` none infinite. Saving
     * and loading others is LS_E_NUMERIC. */
    int64_t finite, numbers;
} ls_tensor_list;

/* A file that a folder of weights has besides them: a text, or (text NULL) a copy of the file at `path`. */
typedef struct ls_beside {
    char *name, *path, *text;
} ls_beside;

/* Where the files of a checkpoint go whose ranks are on hosts that share no folder. Each rank writes its own
 * files to `dir` on its host, and sends them. Rank 0 sends the manifest when all others are there. */
typedef struct ls_away {
    /* Rank 0, before the ranks write: removes what is there under this name. */
    ls_status (*clear)(void *context, const char *name);
    /* Sends file `file` of checkpoint `name`, which is at `path`. In any thread. */
    ls_status (*send)(void *context, const char *name, const char *file, const char *path);
    void *context;
} ls_away;

typedef struct ls_checkpoint_contents {
    const char *config, *trainer; /* JSON texts; those of rank 0 are written */
    const ls_beside *beside;      /* [n_beside], copied; those of rank 0 are written */
    int n_beside;
    ls_tensor_list model, optimizer; /* optimizer.n 0: no such file */
    ls_tensor_list live;             /* of a queue of samples (src/live); n 0: no such file */
    const char *adapter; /* adapter_config.json; then `model` is an adapter's. NULL: a whole model */
    bool part;           /* `model` has only what is trained (ls_part_is) */
    uint64_t max_file;   /* bytes of a file; larger lists are written as shards. 0: no limit */
    bool per_rank;       /* each rank writes its ranges to separate files */
    bool replace;        /* replace a checkpoint that has the name already */
    const ls_away *away; /* with per_rank; NULL: all ranks see `dir` */
} ls_checkpoint_contents;

/* What a save has written. The digests are of the values (ckpt/element_digest.h): equal ones on any number of
 * ranks have equal digests. */
typedef struct ls_saved {
    uint64_t bytes;            /* of all tensors' files */
    uint64_t model, optimizer; /* digests, of rank 0; optimizer 0: there is none */
} ls_saved;

/* Ends a collective call on all ranks if one rank failed, with that rank's message. g NULL: one rank.
 * Collective. */
ls_status ls_checkpoint_together(ls_group *g, ls_status mine);

/* `dir` must not exist yet, unless it may be replaced; its parent is made if need be, and left-overs of
 * interrupted saves and removals in it are deleted. When one rank fails, the group has failed. `saved` may be
 * NULL. Collective; g NULL: one rank. */
ls_status ls_checkpoint_save(const char *dir, const ls_checkpoint_contents *c, ls_group *g, ls_saved *saved);

/* The same in parts, so that writing can continue beside other work. The lists of `c` and the values must not
 * change until the save has ended; the texts may. If a part fails on one rank, the others do not know: tell
 * the group, and end the save on all ranks. */
typedef struct ls_saving ls_saving;
/* Makes the files. Collective. */
ls_status ls_saving_begin(ls_saving **out, const char *dir, const ls_checkpoint_contents *c, ls_group *g);
ls_status ls_saving_write(ls_saving *v);   /* writes this rank's part to disk. Local, in any thread */
ls_status ls_saving_collect(ls_saving *v); /* called when every rank has written. Collective */
/* Renames the checkpoint to its final name; ranks other than 0 have nothing to do. Local, in any thread. */
ls_status ls_saving_commit(ls_saving *v);
void ls_saving_end(ls_saving **v); /* sets *v to NULL; removes what was not committed. Local */
/* `bytes` is known from the beginning, the digests on rank 0 when all has been collected. Local. */
ls_saved ls_saving_result(const ls_saving *v);
/* Ends replacements of checkpoints that were interrupted: the name of each leads to a complete one again. */
void ls_checkpoint_settle(const char *parent);
/* The same, and removes what interrupted saves and removals have left in a folder of checkpoints. Local. */
void ls_checkpoint_clean(const char *parent);

/* LOADED: as FULL for callers that load everything. The bytes of a tensor are verified when a range of it is
 * loaded, so they are read only once. */
typedef enum ls_verify { LS_VERIFY_SIZES, LS_VERIFY_FULL, LS_VERIFY_LOADED } ls_verify;

/* Checks the manifest's own digest, and of every listed file the size and, with FULL, every byte. A damaged
 * byte is LS_E_FORMAT with the file and the range of offsets. *files (may be NULL) receives the number of
 * files checked. Local. */
ls_status ls_checkpoint_verify(const char *dir, ls_verify how, int *files);

typedef struct ls_checkpoint {
    char *dir;
    char *config, *trainer; /* the JSON texts */
    ls_weights *weights;
    ls_weights *optimizer; /* NULL: the checkpoint has none */
    ls_weights *live;      /* NULL: it has none */
    struct ls_manifest *manifest;
    bool sparse; /* some rank of the group has a sparse copy */
} ls_checkpoint;
/* Verifies the checkpoint and opens it. With FULL each rank verifies a part of the bytes. If one rank fails,
 * the group has failed. Collective; g NULL: one rank. */
ls_status ls_checkpoint_open(ls_checkpoint *out, const char *dir, ls_verify how, ls_group *g);
void ls_checkpoint_release(ls_checkpoint *c);
/* c->weights get the moving averages of the parameters; what has none (buffers, frozen parameters) stays as
 * it is. LS_E_USAGE if the checkpoint has no averages. Local. */
ls_status ls_checkpoint_use_ema(ls_checkpoint *c);
/* A copy of a checkpoint whose files of tensors have only the bytes that somebody has asked for. */
typedef struct ls_sparse {
    char dir[4096]; /* its folder; "": this rank reads the whole checkpoint */
    char name[256]; /* of the checkpoint */
    /* Writes bytes from .. from + n - 1 of a file of it. In any thread. */
    ls_status (*bring)(const struct ls_sparse *s, const char *file, uint64_t from, uint64_t n);
    void *context; /* bring NULL: no rank of the group has a sparse copy */
} ls_sparse;
/* As ls_checkpoint_open, of the sparse copy, if there is one (s NULL: there is none): then `how` must be
 * LOADED. What a rank loads is brought before; `s` must live longer than the checkpoint. */
ls_status ls_checkpoint_open_sparse(ls_checkpoint *out, const ls_sparse *s, const char *dir, ls_verify how,
                                    ls_group *g);
/* Where an unfinished copy of checkpoint `name` is made: ls_checkpoint_clean removes it; malloc'ed. NULL: no
 * memory. */
char *ls_checkpoint_unfinished(const char *parent, const char *name);
/* Brings and verifies what ls_ranges_load will take of `l`. Local. */
ls_status ls_ranges_bring(const ls_weights *w, const ls_tensor_list *l);
bool ls_checkpoint_is(const char *dir); /* whether it has a manifest.json */

/* Fills the ranges of l->mine with elements of the whole tensors. A file that does not fit is LS_E_SHAPE, as
 * for ls_weights_load. Pieces that have not been verified yet (LS_VERIFY_LOADED) are verified before they are
 * used. Local. */
ls_status ls_ranges_load(const ls_weights *w, const ls_tensor_list *l, const ls_weights_load_opts *o);

/* Makes the symbolic link PARENT/`link` ("latest", "best") point to the sibling directory `name`, atomically.
 */
ls_status ls_checkpoint_point(const char *parent, const char *link, const char *name);
/* Deletes a checkpoint; interrupted, it leaves no directory of that name. */
ls_status ls_checkpoint_remove(const char *dir);
