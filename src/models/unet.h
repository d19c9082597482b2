/* unet.h - what a recipe asks of a U-Net before it is built. */
#pragma once
#include "lockstep/models.h"

enum { LS_UNET_LEVELS = 12 };

/* LS_E_SHAPE with the numbers when the configuration is impossible. */
ls_status ls_unet_check(const ls_unet_config *c);
