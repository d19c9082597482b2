/* model.c - a model of your own and its data, for `lockstep train recipe.yaml`. `make` builds model.so.
 *
 * The model learns the period of a pendulum from its length and its amplitude. Put your inputs, your layers,
 * your loss in `build`, and your samples in `read`. */
#include <lockstep/lockstep.h>
#include <math.h>

enum { IN = 2, OUT = 1 };

typedef enum activation { TANH, GELU } activation;
typedef struct settings {
    int64_t hidden, layers;
    activation act;
} settings;

/* The keys of model.config: kind, member of the settings, default, range, words, meaning. Anything else in
 * the recipe is refused. `lockstep recipe --reference ./model.so` prints them. */
static const ls_module_key KEYS[] = {
    { "hidden", LS_MODULE_INT, offsetof(settings, hidden), "32", 1, 65536, NULL, "width of a hidden layer" },
    { "layers", LS_MODULE_INT, offsetof(settings, layers), "2", 1, 100, NULL, "number of hidden layers" },
    { "act", LS_MODULE_CHOICE, offsetof(settings, act), "tanh", 0, 0,
      (const char *const[]){ [TANH] = "tanh", [GELU] = "gelu", NULL }, "activation after a hidden layer" },
    LS_MODULE_KEYS_END,
};

/* The model for `batch` samples. An input takes the field of its name. */
static ls_status build(ls_graph *g, const void *self, int64_t batch)
{
    const settings *s = self;
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, batch, IN)),
             period = ls_input(g, "period", LS_TYPE(LS_F32, batch, OUT)), y = x;
    for (int64_t i = 0; i < s->layers; i++) {
        const char name[] = { 'f', 'c', (char)('0' + i % 10), (char)('0' + i / 10), 0 };
        y = ls_linear(g, name, y, s->hidden);
        y = s->act == TANH ? ls_tanh(g, y) : ls_gelu(g, y);
    }
    y = ls_linear(g, "head", y, OUT);
    ls_wide_begin(g); /* losses compute in f32, also where the model computes in bf16 */
    const ls_value error = ls_sub(g, y, period);
    ls_loss(g, "mse", ls_square(g, error), 1, LS_BY_ELEMENT, NULL);
    ls_measure(g, "mae", ls_abs(g, error), LS_MEAN, LS_BY_ELEMENT, NULL);
    ls_wide_end(g);
    ls_output(g, "y", y); /* `lockstep predict RUN --out y.npy`, ls_predictor_get(p, "y", ...) */
    return ls_graph_finish(g);
}

/* ---- the data: sample i is a function of i, so any rank can read any sample */

static double mixed(int64_t i, int part) /* 0 .. 1 */
{
    uint64_t x = (uint64_t)i * 2 + (uint64_t)part + 1;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

static ls_status read(const ls_dataset *set, int64_t i, void *const *to)
{
    const int64_t number = i + (set->split == LS_SPLIT_EVAL ? 1000000 : 0);
    const double length = 0.5 + mixed(number, 0), swing = 2 * mixed(number, 1);
    if (to[0]) {
        ((float *)to[0])[0] = (float)length;
        ((float *)to[0])[1] = (float)swing;
    }
    if (to[1]) { /* by the arithmetic-geometric mean */
        double a = 1, b = cos(swing / 2);
        for (int k = 0; k < 6; k++) {
            const double next = (a + b) / 2;
            b = sqrt(a * b);
            a = next;
        }
        ((float *)to[1])[0] = (float)(2 * 3.14159265358979 * sqrt(length / 9.81) / a);
    }
    return LS_OK;
}

typedef struct data_settings {
    int64_t samples;
} data_settings;

static const ls_module_key DATA_KEYS[] = {
    /* of data.config */
    { "samples", LS_MODULE_INT, offsetof(data_settings, samples), "4096", 1, 1000000, NULL,
      "number of samples to train on" },
    LS_MODULE_KEYS_END,
};

static ls_status data(ls_dataset **out, void *self, ls_split split, const void *settings)
{
    static const ls_field fields[] = { { .name = "x", .type = { LS_F32, 1, { IN } } },
                                       { .name = "period", .type = { LS_F32, 1, { OUT } } } };
    static ls_dataset sets[2];
    const int64_t samples = ((const data_settings *)settings)->samples;
    (void)self;
    sets[split] = (ls_dataset){ .name = "pendulum",
                                .source = "computed by model.c",
                                .split = split,
                                .n = split == LS_SPLIT_EVAL ? samples / 8 + 1 : samples,
                                .n_fields = 2,
                                .fields = fields,
                                .read = read };
    *out = &sets[split];
    return LS_OK;
}

LS_MODULE_EXPORT const ls_model_module *lockstep_module(void)
{
    static const ls_model_module module = { LS_MODULE_DEFAULTS,
                                            .name = "pendulum",
                                            .version = "1",
                                            .keys = KEYS,
                                            .settings = sizeof(settings),
                                            .build = build,
                                            .data_keys = DATA_KEYS,
                                            .data_settings = sizeof(data_settings),
                                            .data = data };
    return &module;
}
