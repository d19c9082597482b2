/* dcp.h - the directories that PyTorch's distributed checkpoint (DCP) writes. `.metadata` is a pickle. It
 * says how each tensor is sharded into chunks, and where each chunk is: a whole archive of torch.save,
 * `length` bytes from `offset` on of a file in the same directory. Private to src/ckpt. */
#pragma once
#include "base/arena.h"
#include "base/file.h"
#include "base/str.h"
#include "base/box.h"
#include "ckpt/folder.h"
#include "lockstep/weights.h"

#define LS_DCP_INDEX ".metadata"

typedef struct ls_dcp_place {
    int file;
    uint64_t offset, length;
} ls_dcp_place;
typedef struct ls_dcp_chunk {
    ls_box box;
    ls_dcp_place at;
} ls_dcp_chunk;

typedef struct ls_dcp_tensor {
    const char *name, *stored; /* stored: the element type, by its name in safetensors */
    bool loadable;
    ls_type type;
    uint64_t bytes;
    ls_dcp_chunk *chunks; /* chunks that are not empty; together they are each element of the tensor once */
    int64_t n;
    int64_t order; /* position in the state dict */
} ls_dcp_tensor;

/* An entry that is not a tensor. It is an archive of torch.save, too. */
typedef struct ls_dcp_object {
    const char *name;
    ls_dcp_place at;
} ls_dcp_object;

typedef struct ls_dcp_index {
    const char **files; /* the files that contain the tensors, in the directory of `.metadata` */
    int n_files;
    ls_dcp_tensor *tensors; /* the wanted tensors, in the order of the state dict */
    int64_t n;
    ls_dcp_object *objects; /* entries of an optimizer that are not tensors */
    int64_t n_objects;
} ls_dcp_index;

/* What is wanted of a directory; docs/weights.md says which entries that is. */
typedef struct ls_dcp_ask {
    const char *prefix; /* the names begin with it ("app."), and it is left out of them. NULL or "": none */
    /* The optimizer's state instead of the model: tensors "exp_avg.NAME", and settings as objects,
     * "param_groups.0.lr". */
    bool optimizer;
    /* number of names: those of the parameters, in order, for a state that numbers its parameters */
    int64_t n;
    const char *const *parameters;
} ls_dcp_ask;

/* Reads the index `path`, whose `size` bytes are at `bytes`. Everything is allocated in `arena`. LS_E_FORMAT
 * if chunks leave a gap or overlap. ask NULL: the model. */
ls_status ls_dcp_index_read(ls_dcp_index *out, ls_arena *arena, const uint8_t *bytes, size_t size,
                            const char *path, const ls_dcp_ask *ask);

/* Reads tensor `i`, and checks its chunks against the files. maps, paths: [n_files]. */
ls_status ls_dcp_tensor_read(ls_weight *out, ls_arena *arena, const ls_dcp_index *x, int64_t i,
                             const ls_mapping *maps, const char *const *paths, const char *dir);

/* weights.c: an open directory */
bool ls_dcp_is(const char *dir); /* whether it has a .metadata */
ls_status ls_dcp_open(ls_weights **out, const char *dir, const ls_dcp_ask *ask);
typedef struct ls_dcp_bytes {
    const char *name, *path; /* name, and path of its file */
    const uint8_t *bytes;    /* an archive of torch.save */
    size_t size;
} ls_dcp_bytes;
/* The objects of an optimizer; they live as long as `w`. */
const ls_dcp_bytes *ls_dcp_objects(const ls_weights *w, int64_t *n);

/* dcp_write.c: writes a directory as so many ranks of PyTorch do, with a file of data for each. A rank has
 * its rows of every tensor, as FSDP2 deals them; rank 0 has all of a scalar, and what is not a tensor. Equal
 * contents give equal bytes. */
enum { LS_DCP_RANKS = 512 };
typedef struct ls_dcp_writer {
    ls_folder folder;
    int ranks;
    ls_writer *out;               /* [ranks] */
    ls_str tensors, ways, places; /* entries so far of the three dicts of the index */
} ls_dcp_writer;
/* A step of a path through dicts and lists: the key of a dict, or (word NULL) an index of a list. */
typedef struct ls_dcp_step {
    const char *word;
    int64_t number;
} ls_dcp_step;

/* replace: deletes an old DCP directory, but no other folder */
ls_status ls_dcp_create(ls_dcp_writer *w, const char *dir, int ranks, bool replace);
ls_status ls_dcp_put_tensor(ls_dcp_writer *w, int n, const ls_dcp_step *way, const ls_type *type,
                            const void *data);
/* pickle: its opcodes, without PROTO and STOP */
ls_status ls_dcp_put_object(ls_dcp_writer *w, int n, const ls_dcp_step *way, const ls_str *pickle);
ls_status ls_dcp_commit(ls_dcp_writer *w); /* releases w, also on failure */
void ls_dcp_abort(ls_dcp_writer *w);

/* The optimizer's part of a directory, with the names that PyTorch's get_state_dict uses. */
typedef struct ls_dcp_setting {
    const char *name;
    enum { LS_DCP_NONE, LS_DCP_BOOL, LS_DCP_FLOAT, LS_DCP_PAIR } kind;
    double a, b;
} ls_dcp_setting;
typedef struct ls_dcp_settings {
    int n;
    const ls_dcp_setting *at;
} ls_dcp_settings;
typedef struct ls_dcp_optimizer {
    const ls_weights *state; /* tensors MOMENT.NAME; others may be between them */
    int64_t steps;           /* that it has made; -1: it does not count them */
    int64_t n;
    const ls_dcp_settings *groups; /* its groups of parameters, of which one without any is not written */
    /* The group of a parameter; NULL: all are in group 0. */
    int64_t (*group_of)(const void *context, const char *name);
    const void *context;
    int64_t epoch, last_step; /* of metadata.json (ls_dcp_ended); epoch -1: it is not written */
} ls_dcp_optimizer;

/* As ls_weights_export_with, to directory `dir`. `optimizer` may be NULL. The names begin with `prefix`,
 * words between dots: "app" as the dict of an object with model and optim (AppState of PyTorch's tutorials).
 * NULL or
 * "": they begin with model and optimizer. */
ls_status ls_dcp_export(const ls_weights *w, const ls_dcp_optimizer *optimizer, const char *prefix,
                        const char *dir, const ls_weights_export_opts *o);

/* dcp_ended.c: the file metadata.json that some programs write into a DCP directory at the end of an epoch:
 * {"epoch": E, "step": S}, both counted from 0. */
#define LS_DCP_ENDED "metadata.json"
/* *epoch: -1 if there is no such file, or it names no epoch. *step: 0 if it names none. */
ls_status ls_dcp_ended(int64_t *epoch, int64_t *step, const char *dir);
ls_status ls_dcp_put_ended(const ls_dcp_writer *w, int64_t epoch, int64_t step);
