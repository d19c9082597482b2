/* select.h - a part of open weights, under other names, for code that writes some of them. */
#pragma once
#include "lockstep/weights.h"

/* The name that a tensor is to have; NULL: it is left out. It must last until the call returns. */
typedef const char *(*ls_weight_namer)(void *context, const char *name);
/* Keeps the tensors that have a name, under it. LS_E_FORMAT if two have the same. Nobody else may use `w`
 * meanwhile. */
ls_status ls_weights_select(ls_weights *w, ls_weight_namer name_of, void *context);
