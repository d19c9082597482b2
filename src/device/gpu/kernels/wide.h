/* wide.h - several neighbours of a tensor that are loaded at once. */
#pragma once
#if defined(__CUDACC__)
#define TOGETHER(bytes) __align__(bytes)
#define UNROLL _Pragma("unroll")
#else
#define TOGETHER(bytes) __attribute__((aligned(bytes), may_alias))
#define UNROLL
#endif
/* wide_T, `wide` elements of type T */
#define WIDE_TYPE(T, wide)                                                                \
    typedef struct TOGETHER((wide) * sizeof(T) < 16 ? (wide) * sizeof(T) : 16) wide_##T { \
        T v[wide];                                                                        \
    } wide_##T;
