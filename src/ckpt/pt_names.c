/* pt_names.c - the globals in files of torch.save that are known: those that PyTorch 2.13's loader allows
 * with weights_only=True (tests/golden/pt_names.txt lists them), and those of NumPy's values, which training
 * checkpoints contain (numpy.random.get_state()). Each is a name only: nothing is called. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "ckpt/pt.h"
#include "ckpt/safetensors.h"

#define REBUILD "torch._utils _rebuild_"
#define BEFORE_0_4 "it is in the form of before PyTorch 0.4: save it again with a newer PyTorch"

#define DTENSOR                                                                                         \
    "each rank has a part of a DTensor: save tensor.full_tensor() of each, or all ranks together with " \
    "torch.distributed.checkpoint.save"
#define STORAGE(name, element, n)                                           \
    {                                                                       \
        .global = name, .role = LS_PT_STORAGE, .stored = element, .bits = n \
    }
#define DTYPE(name, element, n)                                                    \
    {                                                                              \
        .global = "torch " name, .role = LS_PT_DTYPE, .stored = element, .bits = n \
    }
#define REFUSED(name, why)                                           \
    {                                                                \
        .global = REBUILD name, .role = LS_PT_REFUSED, .stored = why \
    }
#define VALUE(name)                         \
    {                                       \
        .global = name, .role = LS_PT_OTHER \
    }
#define ARRAY(name)                         \
    {                                       \
        .global = name, .role = LS_PT_ARRAY \
    }

static const ls_pt_name NAMES[] = {
    { .global = REBUILD "tensor", .role = LS_PT_TENSOR, .least = 4, .most = 4 },
    { .global = REBUILD "tensor_v2", .role = LS_PT_TENSOR, .least = 6, .most = 7 },
    { .global = REBUILD "tensor_v3", .role = LS_PT_TENSOR_WITH_DTYPE, .least = 7, .most = 8 },
    { .global = REBUILD "device_tensor_from_cpu_tensor", .role = LS_PT_MOVED, .least = 4, .most = 4 },
    { .global = "torch._tensor _rebuild_from_type_v2", .role = LS_PT_TYPED, .least = 4, .most = 4 },
    { .global = REBUILD "parameter", .role = LS_PT_PARAMETER, .least = 3, .most = 3 },
    { .global = REBUILD "parameter_with_state", .role = LS_PT_PARAMETER, .least = 4, .most = 4 },
    REFUSED(
        "meta_tensor_no_storage",
        "it is a meta tensor, which has a shape and no values: save the model after its weights were loaded"),
    REFUSED("sparse_tensor", "it is a sparse tensor: save tensor.to_dense()"),
    REFUSED("qtensor", "it is a quantized tensor: save tensor.dequantize()"),
    REFUSED("nested_tensor", "it is a nested tensor: save tensor.to_padded_tensor(0)"),
    REFUSED("wrapper_subclass",
            "it is of a class that wraps other tensors: save a plain tensor of the same values"),
    REFUSED("device_tensor_from_numpy",
            "it was saved from another device as an array of NumPy: save tensor.cpu()"),
    { .global = "torch Tensor", .role = LS_PT_CLASS, .stored = BEFORE_0_4 },
    { .global = "torch.nn.parameter Parameter", .role = LS_PT_CLASS, .stored = BEFORE_0_4 },

    STORAGE("torch FloatStorage", "F32", 32),
    STORAGE("torch DoubleStorage", "F64", 64),
    STORAGE("torch HalfStorage", "F16", 16),
    STORAGE("torch BFloat16Storage", "BF16", 16),
    STORAGE("torch LongStorage", "I64", 64),
    STORAGE("torch IntStorage", "I32", 32),
    STORAGE("torch ShortStorage", "I16", 16),
    STORAGE("torch CharStorage", "I8", 8),
    STORAGE("torch ByteStorage", "U8", 8),
    STORAGE("torch BoolStorage", "BOOL", 8),
    STORAGE("torch ComplexFloatStorage", "C64", 64),
    STORAGE("torch ComplexDoubleStorage", "complex128", 128),
    STORAGE("torch QInt8Storage", "qint8", 8),
    STORAGE("torch QUInt8Storage", "quint8", 8),
    STORAGE("torch QInt32Storage", "qint32", 32),
    STORAGE("torch QUInt4x2Storage", "quint4x2", 8),
    STORAGE("torch QUInt2x4Storage", "quint2x4", 8),
    STORAGE("torch.storage UntypedStorage", "U8", 8), /* bytes; the tensor brings its type */

    DTYPE("float32", "F32", 32),
    DTYPE("float64", "F64", 64),
    DTYPE("float16", "F16", 16),
    DTYPE("bfloat16", "BF16", 16),
    DTYPE("int64", "I64", 64),
    DTYPE("int32", "I32", 32),
    DTYPE("int16", "I16", 16),
    DTYPE("int8", "I8", 8),
    DTYPE("uint8", "U8", 8),
    DTYPE("bool", "BOOL", 8),
    DTYPE("uint16", "U16", 16),
    DTYPE("uint32", "U32", 32),
    DTYPE("uint64", "U64", 64),
    DTYPE("complex64", "C64", 64),
    DTYPE("float8_e4m3fn", "F8_E4M3", 8),
    DTYPE("float8_e5m2", "F8_E5M2", 8),
    DTYPE("float8_e4m3fnuz", "F8_E4M3FNUZ", 8),
    DTYPE("float8_e5m2fnuz", "F8_E5M2FNUZ", 8),
    DTYPE("float8_e8m0fnu", "F8_E8M0", 8),
    DTYPE("complex128", "complex128", 128),
    DTYPE("complex32", "complex32", 32),
    DTYPE("float4_e2m1fn_x2", "float4_e2m1fn_x2", 8), /* two numbers in a byte */
    DTYPE("bits16", "bits16", 16),
    DTYPE("bits8", "bits8", 8),
    DTYPE("bits4x2", "bits4x2", 8),
    DTYPE("bits2x4", "bits2x4", 8),
    DTYPE("bits1x8", "bits1x8", 8),
    DTYPE("qint8", "qint8", 8),
    DTYPE("quint8", "quint8", 8),
    DTYPE("qint32", "qint32", 32),
    DTYPE("quint4x2", "quint4x2", 8),
    DTYPE("quint2x4", "quint2x4", 8),
    DTYPE("int1", "int1", 8), /* each in a byte of its own */
    DTYPE("int2", "int2", 8),
    DTYPE("int3", "int3", 8),
    DTYPE("int4", "int4", 8),
    DTYPE("int5", "int5", 8),
    DTYPE("int6", "int6", 8),
    DTYPE("int7", "int7", 8),
    DTYPE("uint1", "uint1", 8),
    DTYPE("uint2", "uint2", 8),
    DTYPE("uint3", "uint3", 8),
    DTYPE("uint4", "uint4", 8),
    DTYPE("uint5", "uint5", 8),
    DTYPE("uint6", "uint6", 8),
    DTYPE("uint7", "uint7", 8),

    /* beside the tensors of a training checkpoint. Protocol 2 has Python 2's names of modules */
    VALUE("collections OrderedDict"),
    VALUE("collections Counter"),
    VALUE("torch Size"),
    VALUE("torch device"),
    VALUE("torch.storage TypedStorage"),
    VALUE("torch.serialization _get_layout"),
    VALUE("torch per_tensor_affine"),
    VALUE("torch per_tensor_symmetric"),
    VALUE("torch per_channel_affine"),
    VALUE("torch per_channel_symmetric"),
    VALUE("torch per_channel_affine_float_qparams"),
    VALUE("_codecs encode"), /* bytes */
    VALUE("builtins bytearray"),
    VALUE("builtins complex"),
    VALUE("builtins set"),
    VALUE("__builtin__ bytearray"),
    VALUE("__builtin__ complex"),
    VALUE("__builtin__ set"),
    VALUE("numpy dtype"),
    VALUE("numpy ndarray"),
    VALUE("numpy.core.multiarray scalar"), /* NumPy 1 */
    VALUE("numpy._core.multiarray scalar"),
    ARRAY("numpy.core.multiarray _reconstruct"),
    ARRAY("numpy._core.multiarray _reconstruct"),
    ARRAY("numpy.core.numeric _frombuffer"),
    ARRAY("numpy._core.numeric _frombuffer"),
};

static const ls_pt_name OLD_CLASS = { .global = "a class of tensors",
                                      .role = LS_PT_CLASS,
                                      .stored = BEFORE_0_4 };

static const ls_pt_name *pt_names_find(const char *global)
{
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (strcmp(NAMES[i].global, global) == 0)
            return &NAMES[i];
    return NULL;
}

/* torch.cuda FloatStorage is torch FloatStorage in every file. torch FloatTensor, torch.cuda.sparse
 * HalfTensor and the like are classes that PyTorch had before 0.4. */
const ls_pt_name *ls_pt_name_find(const char *global)
{
    static const char *const MODULES[] = { "torch ", "torch.cuda ", "torch.sparse ", "torch.cuda.sparse " };
    char storage[64];
    const ls_pt_name *found = pt_names_find(global);
    if (!found && strncmp(global, "torch.cuda ", 11) == 0 && ls_ends_with(global, "Storage")) {
        snprintf(storage, sizeof storage, "torch %.50s", global + 11);
        found = pt_names_find(storage);
    }
    for (size_t i = 0; i < sizeof MODULES / sizeof MODULES[0] && !found; i++)
        if (strncmp(global, MODULES[i], strlen(MODULES[i])) == 0 && ls_ends_with(global, "Tensor"))
            found = &OLD_CLASS;
    return found;
}

const char *ls_pt_advice(const char *global)
{
    static const struct {
        const char *begin, *advice;
    } ROWS[] = {
        { "torch.distributed.tensor ", DTENSOR },
        { "torch.distributed._tensor", DTENSOR }, /* before PyTorch 2.5 */
        { "torch.distributed._shard", "each rank has a part of a ShardedTensor: save all ranks together with "
                                      "torch.distributed.checkpoint.save" },
        { "numpy.random", "save numpy.random.get_state(), or generator.bit_generator.state" },
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        if (strncmp(global, ROWS[i].begin, strlen(ROWS[i].begin)) == 0)
            return ROWS[i].advice;
    return NULL;
}

static const char *global_of(ls_pt_role role, const char *stored)
{
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (NAMES[i].role == role && strcmp(NAMES[i].stored, stored) == 0)
            return NAMES[i].global;
    return NULL;
}

const char *ls_pt_storage_global(const char *stored) { return global_of(LS_PT_STORAGE, stored); }
const char *ls_pt_dtype_global(const char *stored) { return global_of(LS_PT_DTYPE, stored); }

int ls_pt_element(const ls_pt_name *type, const char **stored)
{
    int bits, dtype = -1;
    if (!ls_safetensors_dtype(type->stored, stored, &bits, &dtype))
        *stored = type->stored;
    return dtype;
}
