/* code_hash.h - which build this is: a hash of machine code. */
#pragma once
#include <stdint.h>

/* Of the machine code of the program or library that contains address `here`; NULL: this one. Local. */
uint64_t ls_code_hash(const void *here);
