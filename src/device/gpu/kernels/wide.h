/* wide.h - several neighbours of a tensor that are loaded at once. */
#pragma once
/* wide_T, `wide` elements of type T */
#define WIDE_TYPE(T, wide)                                                               \
    typedef struct ALIGNED((wide) * sizeof(T) < 16 ? (wide) * sizeof(T) : 16) wide_##T { \
        T v[wide];                                                                       \
    } wide_##T;
