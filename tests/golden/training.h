/* training.h - trainers that start from the golden weights, and their comparison with PyTorch. */
#pragma once
#include "device/cpu/isa.h"
#include "golden/golden.h"
#include "support/support.h"
#include "lockstep/models.h"
#include "step/trainer.h"

extern const ls_vit_config training_vit;       /* the ViT of tutorial 1 */
extern const ls_mlp_config training_mlp;       /* the small MLP of mlp.safetensors */
extern const ls_resnet_config training_resnet; /* of buffers.safetensors: resnet18 at 16x16 */
ls_status training_build_vit(ls_graph *g, const void *config, int64_t batch);
ls_status training_build_mlp(ls_graph *g, const void *config, int64_t batch);
ls_status training_build_resnet(ls_graph *g, const void *config, int64_t batch);

typedef struct training_data {
    int64_t n;
    int size;        /* height and width, one channel */
    uint8_t *images; /* [n, size, size] */
    int32_t *labels; /* [n] */
} training_data;
training_data training_data_of(const ls_weights *golden); /* `images` and `labels` of a golden file */
/* the first n of the training set */
training_data training_data_fashion_mnist(const char *folder, int64_t n);
void training_data_release(training_data *d);

/* A trainer with golden_parameter values. Fails the test if it cannot be made. */
ls_trainer *training_start(ls_build_fn build, const void *config, const ls_trainer_opts *o);
/* "cpu avx2, 2 threads, 4 micro-batches of 32, recompute": for messages; valid until the next call. */
const char *training_describe(const ls_trainer_opts *o);
/* Steps first .. first+n-1 of `batch` samples in the order of the data (micro-batch m of M takes samples m,
 * m+M, ...); losses [n]. */
void training_steps(ls_trainer *t, const training_data *d, int64_t batch, int first, int n, double lr,
                    double *losses);
/* Copies of the parameters, whole, or of the buffers: up to `max` of them; returns how many there are, or -1.
 * training_release frees the copies. Collective. */
int training_parameters(ls_trainer *t, ls_named_tensor *out, int max);
int training_buffers(ls_trainer *t, ls_named_tensor *out, int max);
/* Gives parameters or buffers these values. Collective. */
ls_status training_set(ls_trainer *t, const ls_named_tensor *p, int n);
void training_release(ls_named_tensor *p, int n);
/* A copy of the gradient of parameter i of the latest step (of M = 1, or the sum); training_release frees it.
 */
ls_named_tensor training_gradient(const ls_trainer *t, int i);
/* Losses [n] within `absolute` of the golden tensor's first n. */
void training_expect_losses(const char *what, const double *losses, int n, const ls_weight *want,
                            double absolute);

/* The CPU levels that exist here, best last; returns how many. */
int training_levels(ls_isa levels[LS_ISA_COUNT]);
/* LOCKSTEP_DEVICE names a device that does not compute as the CPU does, with levels of its own: trainers that
 * name none get it, whatever level they name, and training_levels is one. */
bool training_elsewhere(void);
