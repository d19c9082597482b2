/* test_accumulate.c - the order in which gradients of micro-batches are added decides the bits of the sum.
 * Tests the tree alone, and in a whole training step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden/training.h"
#include "support/values.h"

enum { N = 40, MOST = 20, LEVELS = 5 };
static float gradients[MOST][N];
static double losses[MOST];

/* Numbers of very different size, so that every association of a sum gives other bits. */
static void make_numbers(void)
{
    for (int m = 0; m < MOST; m++) {
        for (int i = 0; i < N; i++)
            gradients[m][i] = (float)(sin(1 + m * 37 + i * 11) * pow(10, (m * 5 + i) % 4));
        losses[m] = 1 + sin(m) * pow(10, m % 3);
    }
}

/* What the header promises, written down the other way round: the left part is the largest power of two below
 * n. */
static void tree_sum(int first, int n, float *sum, double *loss)
{
    if (n == 1) {
        memcpy(sum, gradients[first], sizeof gradients[0]);
        *loss = losses[first];
        return;
    }
    int left = 1;
    while (2 * left < n)
        left *= 2;
    float other[N];
    double other_loss;
    tree_sum(first, left, sum, loss);
    tree_sum(first + left, n - left, other, &other_loss);
    for (int i = 0; i < N; i++)
        sum[i] = sum[i] + other[i];
    *loss = *loss + other_loss;
}

/* A tree over a value of type `type`, in a session of its own, with one spare too many in front. */
typedef struct summing {
    ls_tree t;
    ls_graph *g;
    ls_plan *p;
    ls_session *s;
} summing;

static void tree_start(summing *k, const char *device, ls_type type, int levels, bool running)
{
    ls_type spares[LEVELS + 1] = { LS_TYPE(LS_F32, 3) };
    ls_place grad;
    for (int i = 0; i < levels; i++)
        spares[i + 1] = type;
    ls_device d;
    ASSERT_OK(ls_device_open(&d, device, &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 2 }));
    ASSERT_OK(ls_graph_create(&k->g, "tree"));
    ls_output(k->g, "y", ls_relu(k->g, ls_input(k->g, "grad", type)));
    ASSERT_OK(ls_plan_create(&k->p, k->g, &d, NULL));
    ASSERT_OK(
        ls_session_create(&k->s, 1, &k->p, &(ls_session_opts){ .n_spares = levels + 1, .spares = spares }));
    ASSERT_OK(ls_session_place(k->s, "grad", &grad));
    ASSERT_OK(ls_tree_init(&k->t, &d, &grad, 1, levels, running));
}

static void tree_put(summing *k, const void *grad, bool last)
{
    ASSERT_OK(ls_session_write(&k->t.grad, grad, ls_type_bytes(&k->t.grad.type)));
    ls_tree_add(&k->t, last);
}

static void tree_stop(summing *k)
{
    ls_session_destroy(&k->s);
    ls_plan_destroy(&k->p);
    ls_graph_destroy(&k->g);
}

static void sum_by_tree(const char *device, int m, int levels, bool running, float *grad, double *loss)
{
    summing k;
    tree_start(&k, device, LS_TYPE(LS_F32, N), levels, running);
    for (int repeat = 0; repeat < 2; repeat++) { /* the second step starts anew */
        ls_tree_begin(&k.t);
        for (int i = 0; i < m; i++)
            tree_put(&k, gradients[i], i + 1 == m);
    }
    ASSERT_OK(ls_session_read(&k.t.grad, grad, sizeof gradients[0]));
    *loss = ls_tree_sum(losses, m, running);
    tree_stop(&k);
}

static void tree_order(void **state)
{
    (void)state;
    make_numbers();
    for (int m = 1; m <= MOST; m++)
        for (int d = 0; d < 2; d++) {
            int levels = 0;
            while (1 << levels < m)
                levels++;
            float want[N], got[N];
            double want_loss, got_loss;
            tree_sum(0, m, want, &want_loss);
            sum_by_tree(d ? "cpu" : "ref", m, levels, false, got, &got_loss);
            assert_memory_equal(got, want, sizeof want);
            assert_memory_equal(&got_loss, &want_loss, sizeof want_loss);
        }
    float four[N]; /* once in full words */
    double loss;
    sum_by_tree("cpu", 4, 2, false, four, &loss);
    for (int i = 0; i < N; i++)
        assert_true(four[i] == (gradients[0][i] + gradients[1][i]) + (gradients[2][i] + gradients[3][i]));
}

static void running_order(void **state)
{
    (void)state;
    make_numbers();
    for (int m = 2; m <= 9; m++) {
        float want[N], got[N], tree[N];
        double want_loss = losses[0], got_loss, tree_loss;
        memcpy(want, gradients[0], sizeof want);
        for (int k = 1; k < m; k++) {
            for (int i = 0; i < N; i++)
                want[i] = want[i] + gradients[k][i];
            want_loss += losses[k];
        }
        sum_by_tree("cpu", m, 1, true, got, &got_loss);
        assert_memory_equal(got, want, sizeof want);
        assert_true(got_loss == want_loss);
        tree_sum(0, m, tree, &tree_loss);
        if (m < 4)
            assert_memory_equal(got, tree, sizeof tree); /* the same association */
        else
            assert_memory_not_equal(got, tree, sizeof tree);
    }
}

static const ls_mlp_config MLP = { .image_size = 6,
                                   .in_channels = 1,
                                   .classes = 5,
                                   .n_hidden = 1,
                                   .hidden = { 12 },
                                   .act = LS_MLP_ACT_GELU,
                                   .mean = 0.5,
                                   .std = 0.5 };

/* A step's gradient is the tree over what each micro-batch gives alone. */
static void through_a_step(void **state)
{
    (void)state;
    enum { ROWS = 3, PIXELS = 36, M = 7 };
    uint8_t images[M * ROWS * PIXELS];
    int32_t labels[M * ROWS];
    for (size_t i = 0; i < sizeof images; i++)
        images[i] = (uint8_t)(i * 2654435761u >> 13);
    for (int i = 0; i < M * ROWS; i++)
        labels[i] = i % 5;
    for (int how = 0; how < 2; how++) {
        ls_trainer *one, *all;
        ls_step_result r;
        ASSERT_OK(ls_trainer_create(&one, training_build_mlp, &MLP, .micro_batch = ROWS, .threads = 2));
        ASSERT_OK(ls_trainer_create(&all, training_build_mlp, &MLP, .micro_batch = ROWS, .micro_batches = M,
                                    .threads = 2, .accumulation = how ? LS_SUM_RUNNING : LS_SUM_TREE));
        ASSERT_OK(ls_trainer_init(one, 3));
        ASSERT_OK(ls_trainer_init(all, 3));
        summing sums;
        tree_start(&sums, "cpu", all->grads[0].type, 3, how);
        float *grad = malloc(ls_type_bytes(&all->grads[0].type));
        double parts[M];
        ls_tree_begin(&sums.t);
        for (int m = 0; m < M; m++) {
            ASSERT_OK(ls_trainer_step(one, images + m * ROWS * PIXELS, labels + m * ROWS, M * ROWS, 0, &r));
            ASSERT_OK(ls_session_read(&one->grads[0], grad, ls_type_bytes(&all->grads[0].type)));
            parts[m] = r.loss;
            tree_put(&sums, grad, m + 1 == M);
        }
        ASSERT_OK(ls_trainer_step(all, images, labels, M * ROWS, 0, &r));
        const double loss = ls_tree_sum(parts, M, how);
        assert_true(r.loss == loss && loss > 1);
        ASSERT_OK(ls_session_read(&sums.t.grad, grad, ls_type_bytes(&all->grads[0].type)));
        void *sum = place_copy(&all->grads[0]);
        assert_memory_equal(sum, grad, ls_type_bytes(&all->grads[0].type));
        free(sum);
        tree_stop(&sums);
        free(grad);
        ls_trainer_destroy(&one);
        ls_trainer_destroy(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(tree_order), cmocka_unit_test(running_order),
                                        cmocka_unit_test(through_a_step) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
