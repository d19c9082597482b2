/* machine.h - a machine that a plan is for: hosts that are alike, their ranks and cores, the device of a
 * rank, the links inside a host, and the network between hosts. recipe/machine_file.c reads one from a file.
 *
 * For device cpu the figures of `device` are those of a whole host: its ranks share them. For a GPU they are
 * those of one GPU, and each rank has one. */
#pragma once
#include "calibration.h"

typedef struct ls_machine {
    const char *name, *source; /* for people; source: where the figures are from */
    struct {
        int64_t ranks, cores; /* ranks: the most that a host runs */
        int64_t memory;       /* bytes; 0: not known */
    } host;
    struct {
        const char *type,
            *isa;             /* values of the recipe's keys `device` and `isa`; isa "": as the recipe says */
        const char *hardware; /* ls_calibration_hardware of a machine that `doctor` measured; else "" */
        double flops, narrow; /* FLOP/s at best: f32, and bf16 or f16; narrow 0: as f32 */
        double efficiency;    /* the fraction of it that a typical product reaches */
        double bandwidth;     /* B/s of its memory */
        int64_t memory;       /* bytes of one GPU; 0: the memory is that of the host */
        double copies;        /* B/s from and to the host; 0: it works in host memory */
        double kernel;        /* seconds of a kernel call */
    } device;
    struct {
        double latency,
            bandwidth; /* seconds of a turn; B/s that a rank takes in from the others of its host */
    } link;
    struct {
        int64_t nics; /* of a host */
        /* Seconds of a turn; B/s that a NIC takes in; seconds of a rank for each message; the fraction of a
         * core that a rank's communication thread takes while bytes move; B/s that one rank takes in where
         * the others of its host are still (0: those of one NIC). */
        double latency, bandwidth, message, busy, alone;
    } network;
    int n_switches;
    ls_switch_level switches[LS_SWITCH_LEVELS]; /* from the hosts upwards */
} ls_machine;

/* The calibration of `d` on that machine, by its figures alone. `hosts`, `links`, `source` follow m too. */
void ls_machine_calibration(ls_calibration *out, const ls_machine *m, const ls_device *d);
/* Puts the machine's cores, links and network into a calibration. */
void ls_machine_wires(ls_calibration *c, const ls_machine *m);
