/* find_lr.h - `lockstep train --find-lr`: the learning rate rises from step to step, and the loss says which
 * one to begin with. */
#pragma once
#include "commands.h"
#include "loop/loop.h"

/* A centred mean of the losses: it does not lag behind them as a moving average does. */
void ls_rate_smooth(double *smooth, const double *loss, int n);

typedef struct ls_rate_choice {
    double steepest; /* the rate at which the smoothed loss falls fastest over the logarithm of the rate */
    double lowest;   /* the rate at which it is lowest */
    int at;          /* the step of `steepest`; -1: the loss does not fall, and both rates are NAN */
    bool ended;      /* the loss was still lowest at the last rate: a higher one may be better */
} ls_rate_choice;
ls_rate_choice ls_rate_choose(const double *rate, const double *smooth, int n);

/* Trains with rising rates and prints the losses and a suggestion; writes the page of o->html. Saves nothing
 * else. LS_E_STOPPED on request. Collective over the loop's group. */
ls_status ls_find_lr(ls_loop *l, const ls_find_lr_opts *o, const ls_ui *ui);
