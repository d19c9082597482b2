/* bits.h - hashes of results, one a line, which two devices that give the same bits write alike. */
#pragma once
#include "kernels.h"

/* Appends a line to the file that LS_TEST_BITS names: the op, the type of the data, the case (a hash and its
 * words), how it was run, the output, a hash. All NaN count as one: its sign and digits are not promised. */
void bits_write(const op_case *c, ls_dtype data, const char *how, int output, const ls_tensor *t);
