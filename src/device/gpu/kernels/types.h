/* types.h - the names of types in kernels and in their arguments, which the host fills. They mean the same to
 * the host's compiler and to a GPU's. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef u64 gpu_address; /* that a kernel may use: AT(type, address) is its pointer; 0: none */

enum { KERNEL_DIMS = 8 }; /* LS_MAX_DIMS */
