/* pt_files.h - golden .pt files, and ones made of pickles. */
#pragma once
#include "ckpt/pt.h"
#include "ckpt/zip.h"
#include "lockstep/weights.h"

const char *golden_pt(const char *name);

/* A file of torch.save's form with this pickle and 6 floats as storage 0. */
const char *file_with(const char *pickle, size_t n);

#define STORAGE(type, key, count) \
    "(X\7\0\0\0storagectorch\n" type "\nX\1\0\0\0" key "X\3\0\0\0cpuK" count "tQ"
#define ID                                             \
    "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" \
    "0X\3\0\0\0cpu"
#define REBUILD "ctorch._utils\n_rebuild_tensor_v2\n("
#define PARAMETER "ctorch._utils\n_rebuild_parameter\n("
#define V2 "ctorch._utils\n_rebuild_tensor_v2\n"
#define V3 "ctorch._utils\n_rebuild_tensor_v3\n("
#define META "ctorch._utils\n_rebuild_meta_tensor_no_storage\n"
#define MOVED "ctorch._utils\n_rebuild_device_tensor_from_cpu_tensor\n("
#define TYPED "ctorch._tensor\n_rebuild_from_type_v2\n("
#define CLASS "ctorch\nTensor\n"
#define NEG(value) "}X\3\0\0\0neg" value "s"
#define REST "\x89)tR"
#define FLOATS STORAGE("FloatStorage", "0", "\6")
#define DICT(value) "\x80\2}X\1\0\0\0w" value "s."
#define TENSOR(first, sizes, strides) DICT(REBUILD FLOATS "K" first "(" sizes "t(" strides "t" REST)
#define CASE(pickle) (pickle), sizeof(pickle) - 1
#define BILLION "J\0\0\0\x40"
#define HUGE_TENSOR REBUILD FLOATS "K\0(" BILLION BILLION "t(K\0K\0t" REST /* 2^62 bytes */
