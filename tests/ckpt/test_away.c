/* test_away.c - checkpoints of ranks whose hosts share no folder: each file is sent away once, the manifest
 * last, and a rank that loads a sparse copy gets what it asks for. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "support/ranks.h"
#include "support/support.h"

enum { COUNT = 1200 };

typedef struct job {
    const char *dir;
    int ranks;
    const ls_away *away;
    const ls_sparse *sparse;
} job;

/* A tensor whose elements are dealt to the ranks in blocks; element k is `base` + k. */
typedef struct block {
    ls_named_tensor tensor;
    ls_range mine;
    float room[COUNT];
    ls_tensor_list list;
} block;

static void deal(block *b, const char *name, float base, int rank, int ranks)
{
    const int64_t first = COUNT * rank / ranks, end = COUNT * (rank + 1) / ranks;
    *b = (block){ .tensor = { name, ls_tensor_of(NULL, &LS_TYPE(LS_F32, COUNT)) },
                  .mine = { .first = first, .count = end - first, .data = b->room } };
    b->list = (ls_tensor_list){ .n = 1, .tensors = &b->tensor, .mine = &b->mine };
    for (int64_t k = first; k < end; k++)
        b->room[k - first] = base + (float)k;
}

static ls_status save(ls_group *g, void *context)
{
    const job *j = context;
    block model, optimizer;
    deal(&model, "w", 0, ls_group_rank(g), j->ranks);
    deal(&optimizer, "m", 5000, ls_group_rank(g), j->ranks);
    const ls_checkpoint_contents c = { .config = "{}",
                                       .trainer = "{}",
                                       .model = model.list,
                                       .optimizer = optimizer.list,
                                       .per_rank = true,
                                       .away = j->away };
    return ls_checkpoint_save(j->dir, &c, g, NULL);
}

static ls_status load_list(const ls_weights *w, const char *name, float base, int rank, int ranks)
{
    block b, want;
    deal(&b, name, -1, rank, ranks);
    deal(&want, name, base, rank, ranks);
    LS_TRY(ls_ranges_bring(w, &b.list));
    LS_TRY(ls_ranges_load(w, &b.list, &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS }));
    return memcmp(b.room, want.room, (size_t)b.mine.count * sizeof(float))
               ? ls_fail(LS_E_INTERNAL, "rank %d: %s is another", rank, name)
               : LS_OK;
}

static ls_status load(ls_group *g, void *context)
{
    const job *j = context;
    ls_checkpoint c;
    LS_TRY(ls_checkpoint_open_sparse(&c, j->sparse, j->dir, LS_VERIFY_LOADED, g));
    ls_status s = load_list(c.weights, "w", 0, ls_group_rank(g), j->ranks);
    if (s == LS_OK)
        s = load_list(c.optimizer, "m", 5000, ls_group_rank(g), j->ranks);
    ls_checkpoint_release(&c);
    return s;
}

static ls_status on(int ranks, rank_fn fn, job j)
{
    j.ranks = ranks;
    return run_ranks(ranks, fn, &j);
}

typedef struct elsewhere {
    pthread_mutex_t lock;
    char log[2000];
    const char *refused;
} elsewhere;

static ls_status note(elsewhere *x, const char *what)
{
    pthread_mutex_lock(&x->lock);
    snprintf(x->log + strlen(x->log), sizeof x->log - strlen(x->log), "%s ", what);
    pthread_mutex_unlock(&x->lock);
    return LS_OK;
}

static ls_status clear(void *context, const char *name) { return note(context, name); }

static ls_status send_away(void *context, const char *name, const char *file, const char *path)
{
    elsewhere *x = context;
    if (strcmp(name, "away") || !ls_file_exists(path))
        return ls_fail(LS_E_INTERNAL, "%s of %s at %s", file, name, path);
    return x->refused && strstr(file, x->refused) ? ls_fail(LS_E_IO, "%s: no room there", file)
                                                  : note(x, file);
}

typedef struct whole_copy {
    const char *dir;
    _Atomic int64_t *brought;
} whole_copy;

static ls_status copy_bytes(const ls_sparse *s, const char *file, uint64_t from, uint64_t n)
{
    const whole_copy *c = s->context;
    char path[8800], *bytes = malloc(n);
    snprintf(path, sizeof path, "%s/%s", c->dir, file);
    FILE *in = fopen(path, "rb");
    snprintf(path, sizeof path, "%s/%s", s->dir, file);
    FILE *out = fopen(path, "r+b");
    const bool done = in && out && !fseek(in, (long)from, SEEK_SET) && !fseek(out, (long)from, SEEK_SET) &&
                      fread(bytes, 1, n, in) == n && fwrite(bytes, 1, n, out) == n;
    if (in)
        fclose(in);
    if (out)
        fclose(out);
    free(bytes);
    *c->brought += (int64_t)n;
    return done ? LS_OK : ls_fail(LS_E_IO, "%s: bytes %llu on", file, (unsigned long long)from);
}

/* Returns the bytes of the tensors' files. */
static int64_t make_sparse(const ls_sparse *s, const char *dir)
{
    char command[16000];
    int64_t all = 0;
    snprintf(command, sizeof command, "mkdir '%s' && cp '%s'/*.json '%s'", s->dir, dir, s->dir);
    assert_int_equal(system(command), 0);
    for (int r = 0; r < 6; r++) {
        char file[64], path[8800];
        uint64_t head = 0;
        snprintf(file, sizeof file, "%s-rank-%05d.safetensors", r < 3 ? "model" : "optimizer", r % 3);
        snprintf(path, sizeof path, "%s/%s", dir, file);
        const int64_t bytes = ls_file_size(path);
        FILE *f = fopen(path, "rb");
        assert_true(f && fread(&head, sizeof head, 1, f) == 1);
        fclose(f);
        snprintf(path, sizeof path, "%s/%s", s->dir, file);
        assert_non_null(f = fopen(path, "wb"));
        fclose(f);
        assert_int_equal(truncate(path, bytes), 0);
        ASSERT_OK(copy_bytes(s, file, 0, head + sizeof head));
        all += bytes;
    }
    return all;
}

/* Each file is sent once, the manifest last; without one of them there is no checkpoint. */
static void files_are_sent_away(void **state)
{
    (void)state;
    char dir[512];
    elsewhere x = { .lock = PTHREAD_MUTEX_INITIALIZER };
    const ls_away away = { .clear = clear, .send = send_away, .context = &x };
    snprintf(dir, sizeof dir, "%s", ls_test_path("away"));
    x.refused = "optimizer-rank-00001";
    ASSERT_FAILS(on(3, save, (job){ .dir = dir, .away = &away }), LS_E_IO, "no room there");
    assert_true(!strstr(x.log, "manifest.json") && !ls_dir_exists(dir));
    x.refused = NULL;
    x.log[0] = 0;
    ASSERT_OK(on(3, save, (job){ .dir = dir, .away = &away }));
    const size_t n = strlen(x.log);
    int files = 0;
    for (size_t i = 0; i < n; i++)
        files += x.log[i] == ' ';
    assert_int_equal(files, 2 * 3 + 2 + 2); /* with clear and the manifest */
    assert_true(!strncmp(x.log, "away ", 5) && !strcmp(x.log + n - 14, "manifest.json "));
    ASSERT_OK(ls_checkpoint_verify(dir, LS_VERIFY_FULL, &files));
    /* a copy that has headers only: each rank gets what it loads */
    _Atomic int64_t brought = 0;
    ls_sparse s = { .name = "away", .bring = copy_bytes, .context = &(whole_copy){ dir, &brought } };
    snprintf(s.dir, sizeof s.dir, "%s", ls_test_path("sparse"));
    const int64_t all = make_sparse(&s, dir);
    ASSERT_OK(on(2, load, (job){ .dir = dir, .sparse = &s }));
    assert_true(brought > 0 && brought < 2 * all);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(files_are_sent_away) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
