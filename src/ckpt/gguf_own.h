/* gguf_own.h - what the files that write GGUF share. */
#pragma once
#include "base/element.h"
#include "ckpt/gguf.h"

static inline void ls_gguf_put_f16(uint8_t *out, float x) { ls_element_write(out, LS_F16, x); }
