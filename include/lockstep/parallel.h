/* parallel.h - how a step is laid over ranks: data, applied by passes to a model that knows nothing of it
 * (docs/ranks.md). */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "mesh.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_data_parallel { LS_DATA_FSDP, LS_DATA_DDP, LS_DATA_HYBRID, LS_DATA_NONE } ls_data_parallel;
typedef enum ls_gather_choice { LS_GATHER_AUTO, LS_GATHER_MAP, LS_GATHER_COPY } ls_gather_choice;
typedef enum ls_offload_choice { LS_OFFLOAD_NONE, LS_OFFLOAD_CPU } ls_offload_choice;
typedef enum ls_synchronize_choice {
    LS_SYNCHRONIZE_AUTO,
    LS_SYNCHRONIZE_EACH,
    LS_SYNCHRONIZE_ONCE
} ls_synchronize_choice;

/* The order in which a rank of a pipeline runs the forward and backward passes of its micro-batches.
 *   gpipe         all forward passes, then all backward passes
 *   1f1b          a backward pass as soon as it can be, so that a rank keeps the activations of no more
 *                 micro-batches than the pipeline has ranks. It is idle for as long as with gpipe.
 *   zero_bubble   1f1b, but a backward pass first computes the gradients that the stage before it waits for.
 *                 Those of weights come where 1f1b would wait (ZB-H1 of Qi et al., 2023).
 *   interleaved   each rank has several stages, which are not neighbours (Megatron's interleaved 1F1B) */
typedef enum ls_pipeline_schedule {
    LS_SCHEDULE_1F1B,
    LS_SCHEDULE_GPIPE,
    LS_SCHEDULE_ZERO_BUBBLE,
    LS_SCHEDULE_INTERLEAVED
} ls_pipeline_schedule;

enum { LS_SLICES_MOST = 64 };
enum { LS_BACKWARD_POST = -1 }; /* a value of prefetch_backward */

struct ls_group;
typedef struct ls_parallel {
    ls_mesh mesh; /* resolved */
    int rank;     /* whose program this is: any, when only planning */
    /* fsdp: shards over all data axes; hybrid: shards over the axis of role shard, replicates over that of
     * role replicate; ddp: replicates over all data axes */
    ls_data_parallel data;
    /* The FSDP modules (in PyTorch, those that fully_shard is applied to), each of which is a unit: words
     * "class:NAME", "pattern:GLOB" (of the module's name), "size:N" (elements), or "none". Of nested modules
     * that words name, each is a unit; the root unit takes all other parameters. */
    const char *units;
    /* -1: true; 0: false; N > 1: keep a 1/N slice and gather it over blocks of N neighbours */
    int64_t reshard_after_forward;
    /* map: one copy per host; copy: one per rank; auto: map where all ranks of the axis share a host, nothing
     * is offloaded, and the device works in host memory. A device whose memory is its own has no map. */
    ls_gather_choice gather;
    /* Gathers under way while an FSDP module computes. prefetch_backward may be LS_BACKWARD_POST: the next
     * gather starts after the last op that reads the module's parameters, while its other gradients are
     * computed. */
    int64_t prefetch_forward, prefetch_backward;
    /* bytes of what they make: gathers start as early as these allow, instead of by number; 0: by number */
    int64_t prefetch_memory;
    ls_offload_choice offload; /* cpu: slices, gradients and optimizer state rest in host memory */
    int64_t device_memory;     /* bytes that a program may use of the device's memory; 0: all */
    /* each: gradients are reduced after every micro-batch; once: after the last. auto: each for fsdp and
     * hybrid and with sync_batch_norm, once for ddp; a trainer with one micro-batch a rank takes each, so
     * that sums start while the backward pass runs */
    ls_synchronize_choice synchronize;
    ls_dtype reduce; /* type in which sums over ranks are rounded */
    /* batch norm's statistics are those of the micro-batches r * R .. r * R + R-1 that the R data ranks
     * compute side by side */
    bool sync_batch_norm;
    /* which layers the axis of role tensor splits. "auto": those of the model's plan (ls_tensor_plan); or
     * words "colwise:MODULE" (its outputs), "rowwise:MODULE" (its inputs; rows of an embedding's table) */
    const char *tensor;
    bool sequence; /* between split layers each rank of that axis has some of the tokens, too */
    /* Above 0: tokens and layers are split as over so many ranks, a power of two, whatever number of ranks
     * the axes of role context and tensor have. Then these numbers change no bit of the results. */
    int64_t slices;
    /* The axis of role pipeline: each of its ranks has a stage, consecutive modules that `units` names.
     * stages: "auto" balances their FLOPs; or how many modules each stage has, "3 5". With the schedule
     * interleaved each rank has `chunks` stages: rank r of p has stages r, r + p, r + 2p, ... */
    ls_pipeline_schedule schedule;
    const char *stages;
    int64_t chunks;
    int64_t bucket_bytes; /* ddp: gradients reduced together; the first bucket is smaller */
    int ranks_per_host;   /* for planning and gather: auto; 0: all ranks on one host */
} ls_parallel;
#define LS_PARALLEL_DEFAULTS                                                                              \
    .mesh = { .n = 1, .axes = { { "dp", 1 } } }, .rank = 0, .data = LS_DATA_FSDP, .units = "none",        \
    .reshard_after_forward = -1, .gather = LS_GATHER_AUTO, .prefetch_forward = 1, .prefetch_backward = 1, \
    .prefetch_memory = 0, .offload = LS_OFFLOAD_NONE, .device_memory = 0,                                 \
    .synchronize = LS_SYNCHRONIZE_AUTO, .reduce = LS_F32, .sync_batch_norm = false, .tensor = "auto",     \
    .sequence = false, .slices = 0, .schedule = LS_SCHEDULE_1F1B, .stages = "auto", .chunks = 2,          \
    .bucket_bytes = 25 << 20, .ranks_per_host = 0
LS_API ls_parallel ls_parallel_default(void);
/* The defaults for the ranks of a group: all of them on one data axis, "dp", and this rank among them. NULL:
 * one rank. Local. */
LS_API ls_parallel ls_parallel_over(const struct ls_group *g);

/* Refuses what cannot be: units that are not a policy, hybrid without two axes, N that does not divide the
 * axis, map with offload, ...: LS_E_USAGE or LS_E_UNSUPPORTED with the reason and what would do. What depends
 * on the model (a pattern that matches nothing) is refused when compiling. Local. */
LS_API ls_status ls_parallel_check(const ls_parallel *p);

/* Which micro-batches of a step (0 .. M-1) this rank computes: first, first + stride, ...; `count` of them.
 * With synchronize each: r, r + R, ...; once: the block r*M/R ... LS_E_USAGE when R does not divide M, naming
 * the counts that would do. Local. */
typedef struct ls_share {
    int64_t first, stride, count;
} ls_share;
LS_API ls_status ls_parallel_share(ls_share *out, const ls_parallel *p, int64_t micro_batches);

/* Choices, resolved. Local. */
LS_API bool ls_parallel_synchronizes_each(const ls_parallel *p);
LS_API bool ls_parallel_maps(const ls_parallel *p); /* gathered units are one per host */
/* -1: true; 0: false; N: 1 < N < ranks that shard */
LS_API int64_t ls_parallel_reshards(const ls_parallel *p);
/* name for ls_mesh_group: fsdp all data axes, hybrid "shard", else "" */
LS_API const char *ls_parallel_shard_axes(const ls_parallel *p);
/* ddp all data axes, hybrid "dp", else "" */
LS_API const char *ls_parallel_replicate_axes(const ls_parallel *p);
LS_API ls_status ls_parallel_check_units(const char *units); /* the form alone: LS_E_USAGE */

#ifdef __cplusplus
}
#endif
