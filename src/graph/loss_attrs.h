/* loss_attrs.h - the constants of linear_cross_entropy. */
#pragma once
#include "attrs.h"

/* rows: how many have logits at a time, a multiple of LS_LOSS_BLOCK. top, dx, dw 1: which results it gives
 * beside the loss and its rows, in this order. It begins as ls_loss_attrs does. */
typedef struct ls_linear_loss_attrs {
    int64_t ignore_index;
    double smoothing;
    int64_t rows, top, dx, dw;
} ls_linear_loss_attrs;

/* linear_dw adds rows in blocks of so many (device/cpu/kernels/gemm.h, GEMM_KC). Where each block is added by
 * itself, dw has the bits of linear_dw. */
enum { LS_LOSS_BLOCK = 256 };
