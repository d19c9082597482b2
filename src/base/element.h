/* element.h - one number of a floating-point type, anywhere in memory. Loops over many use kernels. */
#pragma once
#include "lockstep/types.h"

double ls_element_read(const void *p, ls_dtype t);
/* Rounds to the nearest number of the type, ties to even. */
void ls_element_write(void *p, ls_dtype t, double x);
