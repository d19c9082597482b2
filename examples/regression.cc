// regression.cc - regression.c in C++17: it prints the same numbers.
//
//     c++ -std=c++17 regression.cc $(pkg-config --cflags --libs lockstep) -o regression
//     ./regression regression.safetensors
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include <lockstep/lockstep.h>

constexpr int64_t INPUTS = 4, OUTPUTS = 2, SAMPLES = 1000, BATCH = 64, EPOCHS = 40;

struct samples {
    std::vector<std::array<float, INPUTS>> x{ SAMPLES };
    std::vector<std::array<float, OUTPUTS>> y{ SAMPLES };
    samples()
    {
        for (int64_t n = 0; n < SAMPLES; n++) {
            for (int64_t k = 0; k < INPUTS; k++)
                x[n][k] = static_cast<float>((n * (2 * k + 3) + k) % 17) / 8 - 1;
            y[n] = { x[n][0] * x[n][1], std::fabs(x[n][2]) - x[n][3] };
        }
    }
};

static void check(ls_status s)
{
    if (s != LS_OK)
        throw std::runtime_error(ls_error_message());
}

// Rows first .. first + n - 1 of a vector of arrays, without a copy.
template <size_t K> ls_tensor rows(std::vector<std::array<float, K>> &from, int64_t first, int64_t n)
{
    const ls_type type = ls_type_from(LS_F32, { n, static_cast<int64_t>(K) });
    return ls_tensor_of(from[static_cast<size_t>(first)].data(), &type);
}

// Builds the model for `batch` samples. Inputs take the fields of their names.
static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    const auto hidden = *static_cast<const int64_t *>(config);
    const ls_value in = ls_input(g, "x", ls_type_from(LS_F32, { batch, INPUTS })),
                   target = ls_input(g, "y", ls_type_from(LS_F32, { batch, OUTPUTS })),
                   first = ls_gelu(g, ls_linear(g, "first", in, hidden)),
                   out = ls_linear(g, "last", first, OUTPUTS);
    ls_loss(g, "mse", ls_square(g, ls_sub(g, out, target)), 1, LS_BY_ELEMENT, nullptr);
    ls_output(g, "out", out);
    return ls_graph_finish(g);
}

// One pass over the samples. The last step has only 40 of them.
static double epoch(ls_trainer *t, samples &s)
{
    double loss = 0;
    for (int64_t first = 0; first < SAMPLES; first += BATCH) {
        const int64_t n = SAMPLES - first < BATCH ? SAMPLES - first : BATCH;
        const ls_tensor x = rows(s.x, first, n), y = rows(s.y, first, n);
        ls_step_result r;
        check(ls_trainer_put(t, "x", &x, 0));
        check(ls_trainer_put(t, "y", &y, 0));
        check(ls_trainer_run(t, n, 5e-3, &r));
        loss += r.loss * static_cast<double>(r.count) / SAMPLES;
    }
    return loss;
}

int main(int argc, char **argv)
try {
    samples s;
    const int64_t hidden = 32;
    ls_trainer_opts options = ls_trainer_opts_default();
    options.micro_batch = BATCH, options.padding = true;
    ls_trainer *t = nullptr;
    check(ls_trainer_create_with(&t, build, &hidden, &options));
    check(ls_trainer_init(t, 1));
    for (int i = 1; i <= EPOCHS; i++) {
        const double loss = epoch(t, s);
        if (i % 10 == 0)
            std::printf("epoch %2d  loss %.6f\n", i, loss);
    }
    ls_predictor *p = nullptr;
    std::vector<std::array<float, OUTPUTS>> out(1);
    const ls_tensor one = rows(s.x, 3, 1), result = rows(out, 0, 1);
    check(ls_predictor_of_with(&p, t, nullptr));
    check(ls_predictor_put(p, "x", &one));
    check(ls_predictor_run(p, 1));
    check(ls_predictor_get(p, "out", &result));
    std::printf("sample 4: %6.3f and %6.3f, predicted %6.3f and %6.3f\n", s.y[3][0], s.y[3][1], out[0][0],
                out[0][1]);
    check(ls_trainer_save(t, argc > 1 ? argv[1] : "regression.safetensors"));
    ls_predictor_destroy(&p);
    ls_trainer_destroy(&t);
} catch (const std::exception &e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return EXIT_FAILURE;
}
