/* word.h - 16 bytes that are loaded and stored at once. */
#pragma once

typedef struct ALIGNED(16) word16 {
    u32 w[4];
} word16;
