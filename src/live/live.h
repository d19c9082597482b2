/* live.h (private) - the struct of a queue of samples. include/lockstep/live.h is the public part. */
#pragma once
#include <pthread.h>

#include "base/rng.h"
#include "lockstep/live.h"
#include "step/trainer.h"

typedef struct ls_live_field {
    size_t bytes;  /* of a sample */
    char *kept;    /* [capacity] samples, a ring from `first` on */
    char *held;    /* [held_room] */
    char *spare;   /* a sample to pad with */
    char *staged;  /* what was put since the last push; NULL: nothing yet */
    int64_t put;   /* samples in `staged` */
    int64_t space; /* for so many samples */
} ls_live_field;

/* What a rank tells the others when a step's samples are taken. */
typedef struct ls_live_offer {
    int64_t samples;       /* for this step */
    int64_t kept;          /* that wait */
    int64_t finished, has; /* this rank pushes no more; it has a sample to pad with */
    int64_t stops;         /* ls_live_stop waits for the thread */
    int64_t presses;       /* it needs room soon */
    int64_t full;          /* a push has found no room, or now replaces samples */
} ls_live_offer;

/* recording (record.c) */
typedef struct ls_live_record {
    char *dir;      /* NULL: nothing is recorded */
    int *files;     /* [n_fields] descriptors; NULL: not open yet */
    int64_t done;   /* samples in the files, the same on all ranks */
    int64_t *fresh; /* [ranks]: what each adds */
} ls_live_record;

/* training in a thread (background.c) */
typedef struct ls_live_worker {
    bool runs; /* between ls_live_start and ls_live_stop */
    ls_background thread;
    bool stops;         /* ls_live_stop was called */
    bool ended;         /* the thread makes no more calls; with the lock, so that a push that waits sees it */
    ls_status status;   /* of a thread that has ended, */
    char message[1024]; /* and its message */
    bool pushes;        /* ls_live_push_wait waits */
    double lr;
    ls_schedule schedule;
    int64_t least, steps;
    ls_step_result last;
} ls_live_worker;

struct ls_live {
    ls_trainer *t; /* NULL: it was destroyed */
    ls_trainer_guest guest;
    ls_live_opts o;
    int rank, ranks;
    int n_fields; /* those of the trainer, in its order */
    ls_live_field *fields;
    pthread_mutex_t lock; /* of all that follows */
    int64_t first, kept;  /* the oldest sample in the ring; how many there are */
    uint8_t *seen;        /* [capacity]: a step has had the sample */
    int64_t held, held_room;
    bool has_spare, finished;
    bool refused; /* since the last fill a push has found no room */
    int64_t pushed, trained, dropped;
    int64_t bytes;  /* of samples that there is room for, and of what counts them */
    int64_t fills;  /* with samples */
    bool fitted;    /* the scaling was found */
    int64_t *fresh; /* [share of a step]: rows of the last fill that no step had before */
    int64_t n_fresh;
    char *scratch;         /* a sample of any field */
    ls_live_offer *offers; /* [ranks]: of the last fill */
    int64_t dealt_from;    /* ranks */
    ls_live_record record;
    pthread_cond_t changed; /* samples have come or gone, or the thread ends */
    ls_live_worker worker;
};

/* ---- queue.c */

/* LS_E_ARG if the trainer was destroyed. */
ls_status ls_live_usable(const ls_live *q, const char *call);
/* The key of a random stream: `purpose`, this rank, and number `at`. */
ls_rng_key ls_live_key(const ls_live *q, const char *purpose, int64_t at);
/* Field k as a data set has it. */
ls_field ls_live_field_of(const ls_live *q, int k);
/* Of the first `pushed` samples of a rank, those that are held out. */
int64_t ls_live_held_of(const ls_live *q, int64_t pushed);
/* Of the next m samples, those that are not held out. With the lock. */
int64_t ls_live_unheld(const ls_live *q, int64_t m);
/* Whether a queue that refuses has no room for m more samples. With the lock. */
bool ls_live_lacks_room(const ls_live *q, int64_t m);
/* Whether the samples of the last fill have not been run yet. */
bool ls_live_pending(const ls_live *q);

/* Waits until the thread ends, with its status; LS_OK if there is none. */
ls_status ls_live_join(ls_live *q);
/* Fails with the message of a thread that has ended with an error. With the lock. */
ls_status ls_live_thread_lives(const ls_live *q);

/* fit.c: the scaling of the fields, over what all ranks have offered. Collective. */
ls_status ls_live_fit(ls_live *q);
/* fill.c: ls_live_fill. It gives no fewer than `least` samples, unless all ranks have finished, or one needs
 * room: its queue is half full, or a push waits. *stops: all ranks are in ls_live_stop. Collective. */
ls_status ls_live_take(ls_live *q, int64_t least, int64_t *samples, int64_t *total, bool *done, bool *stops);

/* record.c. What a fill has taken goes to the files: each rank's fresh rows behind those of the ranks before
 * it. */
ls_status ls_live_record_open(ls_live *q); /* checks the options. Local */
ls_status ls_live_record_rows(ls_live *q); /* collective */
ls_status ls_live_record_sync(ls_live *q); /* local */
void ls_live_record_shut(ls_live *q);      /* closes the files; they are opened again when needed */
void ls_live_record_close(ls_live *q);

/* live_state.c: the queue in a checkpoint. */
ls_status ls_live_save(void *live, ls_arena *arena, ls_tensor_list *out);
ls_status ls_live_load(void *live, const ls_weights *w, const char *dir);
