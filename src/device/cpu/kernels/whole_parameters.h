/* whole_parameters.h - the kernels of whole_parameters.c, for the table of kernels. */
#pragma once
#include "table.h"

KERNEL(muon_momentum);
KERNEL(muon);
KERNEL_WORKSPACE(muon);
KERNEL_SUPPORTS(muon_momentum);
KERNEL_SUPPORTS(muon);
KERNEL(adafactor);
KERNEL_WORKSPACE(adafactor);
KERNEL_SUPPORTS(adafactor);
