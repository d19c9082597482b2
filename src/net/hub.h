/* hub.h - repositories of models and data sets on Hugging Face's hub, or on a server that speaks its
 * language: the list of a repository's files, and loading them into the hub's cache (base/hub_cache.h) or a
 * folder. The addresses used, after huggingface.co/docs/hub/api:
 *
 *     ENDPOINT/api/models/OWNER/NAME/revision/REVISION?blobs=true     (api/datasets/... for a data set)
 *     ENDPOINT/OWNER/NAME/resolve/COMMIT/PATH                         (datasets/OWNER/NAME/...) */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "lockstep/status.h"

typedef struct ls_hub_file {
    char *path; /* in the repository: "config.json", "raw/words.jsonl" */
    int64_t bytes;
    char *sha256, *git_sha1; /* one of them */
    bool wanted;             /* what ls_hub_load loads; the caller sets it */
} ls_hub_file;

typedef struct ls_hub_repo {
    char *name, *revision, *commit, *endpoint;
    char *token;   /* HF_TOKEN, else what HF_HOME/token holds; NULL: none */
    bool withheld; /* it is not sent, because `endpoint` is not https */
    int n;
    ls_hub_file *files; /* in the server's order */
} ls_hub_repo;

typedef struct ls_hub_load {
    const char *to; /* a folder that gets the files under their paths; NULL: the hub's cache */
    void (*progress)(void *context, const char *file, int64_t so_far, int64_t total,
                     double rate); /* or NULL */
    void *context;
    /* set by ls_hub_load */
    char *folder;   /* that has the files now; malloc'ed */
    int64_t loaded; /* bytes of files that were not there before */
    int loaded_files;
} ls_hub_load;

/* Asks the server for the repository's files. `name`: OWNER/NAME or datasets/OWNER/NAME. `mirror` NULL:
 * HF_ENDPOINT, else https://huggingface.co. LS_E_USAGE: no name of a repository, the server has none, or it
 * wants a token; LS_E_IO: no network, or HF_HUB_OFFLINE is set; LS_E_FORMAT: an answer that is none, or names
 * a file that would lie outside its folder. Local.
 *
 * The token goes to `endpoint` and to no server that it redirects to. */
ls_status ls_hub_list(ls_hub_repo *out, const char *name, const char *revision, const char *mirror);
/* The part of it that makes the request, with the name, revision, endpoint and token of *r. */
ls_status ls_hub_ask(ls_hub_repo *r);
void ls_hub_release(ls_hub_repo *r);

/* Reads the server's answer, the part of ls_hub_list that reads bytes from outside: sets commit and files.
 * `url` is for messages. LS_E_FORMAT: the caller calls ls_hub_release in any case. Local. */
ls_status ls_hub_read_list(ls_hub_repo *r, const char *text, size_t n, const char *url);

/* Loads the wanted files that are not there yet. Each appears under its name when its checksum is right; an
 * interrupted one goes on where it stopped. A file that is there is compared with its checksum: a damaged one
 * in the cache is loaded again, another one in the folder `to` is LS_E_FORMAT. Local; several processes may
 * do it at once. */
ls_status ls_hub_get(const ls_hub_repo *r, ls_hub_load *l);
