/* regression.c - a small network learns two functions of four numbers, from arrays in memory. The same
 * program in C++ is regression.cc, in Fortran regression.f90; the three print the same numbers.
 *
 *     cc regression.c $(pkg-config --cflags --libs lockstep) -o regression
 *     ./regression regression.safetensors
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

enum { INPUTS = 4, OUTPUTS = 2, SAMPLES = 1000, BATCH = 64, EPOCHS = 40 };

static float x[SAMPLES][INPUTS], y[SAMPLES][OUTPUTS];

static void make_samples(void)
{
    for (int n = 0; n < SAMPLES; n++) {
        for (int k = 0; k < INPUTS; k++)
            x[n][k] = (float)((n * (2 * k + 3) + k) % 17) / 8 - 1;
        y[n][0] = x[n][0] * x[n][1];
        y[n][1] = fabsf(x[n][2]) - x[n][3];
    }
}

/* Builds the model for `batch` samples. Inputs take the fields of their names. */
static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    const int64_t hidden = *(const int64_t *)config;
    const ls_value in = ls_input(g, "x", LS_TYPE(LS_F32, batch, INPUTS)),
                   target = ls_input(g, "y", LS_TYPE(LS_F32, batch, OUTPUTS)),
                   first = ls_gelu(g, ls_linear(g, "first", in, hidden)),
                   out = ls_linear(g, "last", first, OUTPUTS);
    ls_loss(g, "mse", ls_square(g, ls_sub(g, out, target)), 1, LS_BY_ELEMENT, NULL);
    ls_output(g, "out", out);
    return ls_graph_finish(g);
}

/* One pass over the samples. The last step has only 40 of them. */
static ls_status epoch(ls_trainer *t, double *loss)
{
    ls_step_result r;
    *loss = 0;
    for (int64_t first = 0; first < SAMPLES; first += BATCH) {
        const int64_t n = SAMPLES - first < BATCH ? SAMPLES - first : BATCH;
        const ls_tensor some_x = ls_tensor_of(x[first], &LS_TYPE(LS_F32, n, INPUTS)),
                        some_y = ls_tensor_of(y[first], &LS_TYPE(LS_F32, n, OUTPUTS));
        LS_TRY(ls_trainer_put(t, "x", &some_x, 0));
        LS_TRY(ls_trainer_put(t, "y", &some_y, 0));
        LS_TRY(ls_trainer_run(t, n, 5e-3, &r));
        *loss += r.loss * (double)r.count / SAMPLES;
    }
    return LS_OK;
}

static ls_status predict(ls_trainer *t, float out[OUTPUTS])
{
    ls_predictor *p = NULL;
    const ls_tensor one = ls_tensor_of(x[3], &LS_TYPE(LS_F32, 1, INPUTS)),
                    result = ls_tensor_of(out, &LS_TYPE(LS_F32, 1, OUTPUTS));
    LS_TRY(ls_predictor_of(&p, t, .outputs = "out"));
    LS_TRY(ls_predictor_put(p, "x", &one));
    LS_TRY(ls_predictor_run(p, 1));
    LS_TRY(ls_predictor_get(p, "out", &result));
    ls_predictor_destroy(&p);
    return LS_OK;
}

static ls_status train(const char *path)
{
    const int64_t hidden = 32;
    float out[OUTPUTS];
    double loss;
    ls_trainer *t = NULL;
    LS_TRY(ls_trainer_create(&t, build, &hidden, .micro_batch = BATCH, .padding = true));
    LS_TRY(ls_trainer_init(t, 1));
    for (int i = 1; i <= EPOCHS; i++) {
        LS_TRY(epoch(t, &loss));
        if (i % 10 == 0)
            printf("epoch %2d  loss %.6f\n", i, loss);
    }
    LS_TRY(predict(t, out));
    printf("sample 4: %6.3f and %6.3f, predicted %6.3f and %6.3f\n", y[3][0], y[3][1], out[0], out[1]);
    LS_TRY(ls_trainer_save(t, path));
    ls_trainer_destroy(&t);
    return LS_OK;
}

int main(int argc, char **argv)
{
    make_samples();
    if (train(argc > 1 ? argv[1] : "regression.safetensors") == LS_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "error: %s\n", ls_error_message());
    return EXIT_FAILURE;
}
