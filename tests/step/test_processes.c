/* test_processes.c - ranks as processes of this host: this program starts itself again for each rank. Checks
 * that they compute the bits of one process, and that they use the memory that the plan says, by the plan's
 * own count and by the kernel's. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/small_vit.h"
#include "base/hash.h"
#include "comm/comm.h"
#include "comm/shm.h"
#include "golden/training.h"
#include "node_bytes.h"
#include "support/mapping.h"

enum { PIXELS = 64, STEPS = 6 };

/* Wide, so that parameters outweigh everything else: 8 MB of them. */
static const ls_mlp_config WIDE = { .image_size = 8,
                                    .in_channels = 1,
                                    .classes = 10,
                                    .n_hidden = 3,
                                    .hidden = { 1000, 1000, 1000 },
                                    .act = LS_MLP_ACT_RELU,
                                    .mean = 0.5,
                                    .std = 0.5 };
static const ls_vit_config VIT = { SMALL_VIT, .layers = 3, .hidden_size = 32, .mlp_size = 48 };

typedef struct report { /* what rank 0 hands back: sums over the ranks, in bytes, but for the hash */
    uint64_t weights;
    double loss;
    int64_t planned, node, shared, private;
} report;

/* A line of /proc/self/smaps_rollup in bytes. */
static int64_t of_kernel(const char *name)
{
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    char line[200];
    long long kb = -1;
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name)))
            sscanf(line + strlen(name), "%lld", &kb);
    if (f)
        fclose(f);
    return kb * 1024;
}

static ls_status sum(ls_group *g, int64_t *x) { return ls_group_all_reduce(g, x, 1, LS_I64, LS_REDUCE_SUM); }

static ls_status train(ls_group *g, bool wide, const ls_trainer_opts *o, report *out)
{
    ls_trainer *t;
    ls_step_result r = { 0 };
    static uint8_t images[4][4][PIXELS];
    static int32_t labels[4][4];
    LS_TRY(ls_trainer_create_with(&t, wide ? training_build_mlp : training_build_vit,
                                  wide ? (const void *)&WIDE : &VIT, o));
    LS_TRY(ls_trainer_init(t, 3));
    for (int step = 0; step < STEPS; step++) {
        for (int64_t k = 0; k < t->compiled.share.count; k++)
            for (int64_t row = 0; row < 4; row++) {
                const int64_t sample = step * 16 + row * 4 + t->compiled.share.first +
                                       k * t->compiled.share.stride;
                labels[k][row] = (int32_t)(sample % 5);
                for (int i = 0; i < PIXELS; i++)
                    images[k][row][i] = (uint8_t)((uint32_t)(sample * PIXELS + i) * 2654435761u >> 24);
            }
        LS_TRY(ls_trainer_step(t, &images[0][0][0], &labels[0][0], 16, 1e-3, &r));
    }
    *out = (report){ .loss = r.loss,
                     /* without the sums of micro-batches */
                     .planned = (int64_t)ls_session_bytes(t->session) -
                                (int64_t)t->compiled.spares.level_bytes,
                     .node = (int64_t)node_bytes(t->session),
                     .shared = of_kernel("Pss_Shmem:"),
                     .private = of_kernel("Pss_Anon:") };
    LS_TRY(ls_group_barrier(g)); /* all pages are mapped by all that use them while each looks */
    LS_TRY(sum(g, &out->planned));
    LS_TRY(sum(g, &out->shared));
    LS_TRY(sum(g, &out->private));
    ls_named_tensor p[128];
    const int n = training_parameters(t, p, 128);
    for (int i = 0; i < n; i++)
        out->weights = ls_hash64_more(out->weights, p[i].tensor.data, ls_type_bytes(&p[i].tensor.type));
    training_release(p, n);
    ls_trainer_destroy(&t);
    return n < 0 ? LS_E_PEER : LS_OK;
}

static ls_trainer_opts options(int ranks, ls_data_parallel data, ls_gather_choice gather)
{
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = 4, .micro_batches = 4 };
    o.parallel.mesh.axes[0].size = ranks;
    o.parallel.data = data;
    o.parallel.gather = mapping_or_auto(gather);
    return o;
}

/* argv: rank, descriptor of the block, of the pipe, ranks, data, gather, wide. */
static int be_a_rank(char **a)
{
    ls_group *g = NULL;
    report r = { 0 };
    ls_trainer_opts o = options(atoi(a[3]), (ls_data_parallel)atoi(a[4]), (ls_gather_choice)atoi(a[5]));
    const bool wide = atoi(a[6]);
    ls_status s = ls_shm_join(&g, atoi(a[1]), atoi(a[0]));
    o.group = g;
    o.parallel.rank = atoi(a[0]);
    o.parallel.units = wide ? "size:900000" : "class:EncoderBlock";
    if (s == LS_OK)
        s = train(g, wide, &o, &r);
    if (s != LS_OK)
        fprintf(stderr, "rank %s: %s\n", a[0], ls_error_message());
    else if (o.parallel.rank == 0 && write(atoi(a[2]), &r, sizeof r) != sizeof r)
        s = LS_E_IO;
    ls_group_destroy(&g);
    return s != LS_OK;
}

static report run(int ranks, ls_data_parallel data, ls_gather_choice gather, bool wide)
{
    int fd, ends[2];
    pid_t pids[8];
    report r;
    ASSERT_OK(ls_shm_create(ranks, &fd));
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < ranks; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            fcntl(fd, F_SETFD, 0); /* it survives exec */
            char text[7][16];
            const int numbers[7] = { i, fd, ends[1], ranks, (int)data, (int)gather, wide };
            for (int k = 0; k < 7; k++)
                snprintf(text[k], sizeof text[k], "%d", numbers[k]);
            execl("/proc/self/exe", "test_processes", text[0], text[1], text[2], text[3], text[4], text[5],
                  text[6], (char *)NULL);
            _exit(127);
        }
    }
    close(ends[1]);
    for (int i = 0; i < ranks; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(read(ends[0], &r, sizeof r), sizeof r);
    close(ends[0]);
    close(fd);
    return r;
}

static void same_bits(void **state)
{
    (void)state;
    const report one = run(1, LS_DATA_FSDP, LS_GATHER_AUTO, false);
    for (int ranks = 2; ranks <= 4; ranks *= 2)
        for (int how = 0; how < 3; how++) {
            const report r = run(ranks, how == 2 ? LS_DATA_DDP : LS_DATA_FSDP,
                                 how == 1 ? LS_GATHER_COPY : LS_GATHER_MAP, false);
            assert_true(r.loss == one.loss);
            assert_true(r.weights == one.weights);
        }
}

/* 2,077,010 parameters in f32, two hidden units of 4 MB and a root. */
static void memory(void **state)
{
    (void)state;
    /* activations and workspace of a rank */
    const int64_t parameters = 4 * 2077010, unit = 4 * 1001000, root = parameters - 2 * unit, slack = 1 << 20;
    if (mapping_or_auto(LS_GATHER_MAP) != LS_GATHER_MAP) {
        print_message("the device has memory of its own, which ranks cannot map\n");
        skip();
    }
    const report one = run(1, LS_DATA_FSDP, LS_GATHER_AUTO, true),
                 map = run(2, LS_DATA_FSDP, LS_GATHER_MAP, true),
                 copy = run(2, LS_DATA_FSDP, LS_GATHER_COPY, true),
                 ddp = run(2, LS_DATA_DDP, LS_GATHER_AUTO, true);
    assert_true(one.weights == map.weights && map.weights == copy.weights && copy.weights == ddp.weights);
    print_message("2 ranks, MB in all: planned map %.1f + %.1f, copy %.1f, ddp %.1f; by the kernel shared "
                  "%.1f %.1f %.1f, private %.1f %.1f %.1f\n",
                  1e-6 * (double)map.planned, 1e-6 * (double)map.node, 1e-6 * (double)copy.planned,
                  1e-6 * (double)ddp.planned, 1e-6 * (double)map.shared, 1e-6 * (double)copy.shared,
                  1e-6 * (double)ddp.shared, 1e-6 * (double)map.private, 1e-6 * (double)copy.private,
                  1e-6 * (double)ddp.private);
    /* parameter, gradient, two moments */
    assert_true(one.planned >= 4 * parameters && one.planned < 4 * parameters + slack);

    /* copy: over both ranks one of each of those four, in each rank the root and at most two gathered units,
     * and one unit's gradients whole. */
    assert_true(copy.planned < 4 * parameters + 2 * (root + 2 * unit) + 2 * (root + 2 * unit) + 2 * slack);
    assert_int_equal(copy.node, 0);

    /* map: the node holds the parameters once. */
    assert_true(map.node >= parameters && map.node < parameters + slack / 4);
    assert_true(map.planned < copy.planned - parameters);
#ifndef LS_ASAN /* (its shadow and quarantine are memory too) */
    if (map.shared > 0) {
        /* gradients of both ranks; with copy their slices as well */
        const int64_t window_map = map.shared - map.node, window_copy = copy.shared;
        assert_true(window_map > 0 && window_map < 2 * (root + 2 * unit) + slack);
        assert_true(window_copy < parameters + 2 * (root + 2 * unit) + slack);
        assert_true(map.private < copy.private);
        assert_true(ddp.private + ddp.shared > map.private + map.shared + parameters);
    }
#endif
}

int main(int argc, char **argv)
{
    if (argc > 7)
        return be_a_rank(argv + 1);
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_bits), cmocka_unit_test(memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
