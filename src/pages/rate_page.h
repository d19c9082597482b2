/* rate_page.h - the page of `lockstep train --find-lr`: the loss over the learning rate. */
#pragma once
#include "lockstep/status.h"

typedef struct ls_rate_view {
    const char *name, *words; /* words: the suggestion */
    int n;
    const double *rate, *loss, *smooth;
} ls_rate_view;

ls_status ls_rate_page_write(const char *path, const ls_rate_view *v);
