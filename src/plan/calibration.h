/* calibration.h - the measured speeds of a machine's device, kept in the user's cache: times of kernel
 * calls, the speed of arithmetic and memory, and the speed of collectives. A planner estimates seconds with
 * them. A GPU that was not measured has the general speeds of its data sheet.
 *
 * A kernel call is known by its op and the types of its operands. A call that was measured takes its
 * measured time. Another call takes the time of the nearest measured call of its kind (the same op on the
 * same float types), scaled by work. The general speeds decide only where no call of a kind was measured. So
 * no number here belongs to a processor by name, and a new kernel needs no new rate. */
#pragma once
#include "device/device.h"
#include "graph/op.h"

typedef struct ls_kernel_time {
    uint64_t call, kind; /* ls_call_digest */
    double flops, bytes, seconds;
    char *text; /* for people: "linear(f32 [64, 128], f32 [10, 128])" */
} ls_kernel_time;

/* A way that collectives take. `latency`: seconds of each turn in which ranks wait for each other.
 * `bandwidth`: bytes a second that a rank reads and writes in them, or that all ranks of a host together take
 * in from other hosts. Between hosts also, 0 where it is not known:
 *   alone     bytes a second that one rank takes in while the others of its host are still
 *   message   seconds that a rank spends on each message
 *   busy      the part of a core that a rank's communication thread uses while bytes move */
typedef struct ls_collective_speed {
    double latency, bandwidth; /* 0: not known */
    double alone, message, busy;
} ls_collective_speed;
/* Switches that connect groups of so many hosts; what leaves such a group has 1 / oversubscription of the
 * bandwidth of the hosts' own connections. */
typedef struct ls_switch_level {
    int64_t hosts;
    double oversubscription;
} ls_switch_level;
enum { LS_SWITCH_LEVELS = 4 };
enum { LS_SPEED_HOST, LS_SPEED_NETWORK, LS_COLLECTIVE_SPEEDS }; /* among the ranks of a host; between hosts */

typedef struct ls_calibration {
    char hardware[64];         /* the name of the processor or GPU */
    char source[192];          /* the data sheet that the figures are from; "": measured */
    const char *device, *arch; /* ls_device.ops->name and .arch->name */
    int threads;
    double flops;                           /* FLOP/s of FMA on `threads` threads, at best */
    double gemm_efficiency;                 /* the fraction of it that a typical product reaches */
    double narrow_flops, narrow_efficiency; /* the same of bf16 and f16; 0: as for f32 */
    double bytes_cache, bytes_memory;       /* B/s for working sets inside and outside the cache */
    double op_overhead;                     /* seconds per kernel call */
    int cores;                              /* of the whole machine, */
    double all_flops, all_memory;           /* the speed of all cores together: ranks side by side share it */
    double to_device, to_host;              /* B/s of copies; 0: the device works in host memory */
    ls_collective_speed wires[LS_COLLECTIVE_SPEEDS]; /* not in its file: collective_speed.h */
    /* Of the machine that a plan is for (machine.h), not in its file. host_cores 0: hosts are like this one.
     */
    int host_cores, n_switches;
    ls_switch_level switches[LS_SWITCH_LEVELS];
    /* Of a device whose memory is its own: the calibration of device cpu, for programs that run on the host.
     * Not in its file. */
    struct ls_calibration *host;
    ls_kernel_time *times;
    int n_times, room;
} ls_calibration;

/* Measures the general speeds, in about half a second; of a device whose memory is its own also copies, and
 * `host`. `out` has no times. */
ls_status ls_calibration_measure(ls_calibration *out, const ls_device *d);
/* LS_E_IO if two threads compute no faster than one: the machine is busy, and measurements would be too
 * slow. `doctor` then does not keep them; `plan --measure`, which was asked to measure, keeps them and
 * warns. With `cores` below 2 this cannot be seen, and the result is LS_OK. */
ls_status ls_calibration_check(const ls_device *d, int cores);
int ls_calibration_cores(void); /* cores that this process may use */
/* LS_E_IO if there is no calibration for this processor, device, arch, number of threads and the kernels of
 * this program, or none for its `host`. */
ls_status ls_calibration_load(ls_calibration *out, const ls_device *d);
/* Stores it, and `host`, for this program's kernels. For each processor, device, arch and number of threads
 * the newest calibrations, of LS_CALIBRATIONS programs, are kept. */
ls_status ls_calibration_save(const ls_calibration *c);
enum { LS_CALIBRATIONS = 8 };
void ls_calibration_release(ls_calibration *c);
/* A calibration from the data sheet of the device; `host` is as it was measured. LS_E_UNSUPPORTED: the
 * device has no data sheet. */
ls_status ls_calibration_of_sheet(ls_calibration *out, const ls_device *d);
/* A calibration of this device and processor without any measurement. */
void ls_calibration_of(ls_calibration *out, const ls_device *d);
/* The CPU device that runs programs of the host beside device `d`, with as many threads. */
ls_status ls_calibration_host(ls_device *out, const ls_device *d);
/* The calibration of a program for `d`: c, or c->host, if the program runs on the host beside the device of
 * `c`. NULL: it is not known. */
const ls_calibration *ls_calibration_for(const ls_calibration *c, const ls_device *d);
/* The names of this machine's processor, and of the processor or GPU that `d` is; for people and file names.
 */
void ls_calibration_cpu(char out[64]);
void ls_calibration_hardware(char out[64], const ls_device *d);

/* Digests of a kernel call: `call` of its op and its operands' types, `kind` of the op and their element
 * types. */
void ls_call_digest(const ls_graph *g, const ls_node *n, double flops, uint64_t *call, uint64_t *kind);
/* Adds a time, or replaces the one of this call. Takes over `text`, also when it fails. */
ls_status ls_calibration_add(ls_calibration *c, ls_kernel_time t);
/* Whether exactly this call was measured. */
bool ls_calibration_has(const ls_calibration *c, uint64_t call);
/* Seconds of a call whose first operand is of this type. */
double ls_calibration_seconds(const ls_calibration *c, uint64_t call, uint64_t kind, ls_dtype type,
                              ls_cost cost);
/* FLOP/s of products of numbers of this type, at best. */
double ls_calibration_peak(const ls_calibration *c, ls_dtype type);
/* Seconds that the device needs at least for this work. */
double ls_calibration_least(const ls_calibration *c, ls_dtype type, ls_cost cost);
/* The type that decides how fast a node is computed: that of its first operand. */
ls_dtype ls_call_type(const ls_graph *g, const ls_node *n);
