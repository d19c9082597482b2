"""numpy arrays as tensors of the library, and back."""

import ctypes

import numpy as np

from ._library import Error, constants, library, struct

_numpy = {
    "LS_F32": np.float32,
    "LS_F64": np.float64,
    "LS_F16": np.float16,
    "LS_I32": np.int32,
    "LS_I64": np.int64,
    "LS_U8": np.uint8,
}
_dtypes = {constants[name]: np.dtype(type) for name, type in _numpy.items()}
_numbers = {type: number for number, type in _dtypes.items()}


def tensor_of(array):
    """An ls_tensor over the memory of an array, with any strides; the array must outlive it."""
    if array.dtype not in _numbers:
        raise TypeError("an array of %s: the library takes %s" % (array.dtype, ", ".join(map(str, _numbers))))
    if array.ndim > constants.get("LS_MAX_DIMS", 8):
        raise TypeError("an array of %d dimensions: the library takes up to 8" % array.ndim)
    if any(s % array.itemsize for s in array.strides):
        array = np.ascontiguousarray(array)
    t = struct("ls_tensor")()
    t.data = array.ctypes.data
    t.type.dtype, t.type.ndim = _numbers[array.dtype], array.ndim
    t.type.dims[: array.ndim] = array.shape
    t.strides[: array.ndim] = [s // array.itemsize for s in array.strides]
    t.array = array  # keeps it
    return t


def type_of(shape, dtype):
    t = struct("ls_type")()
    t.dtype, t.ndim = dtype, len(shape)
    t.dims[: len(shape)] = shape
    return t


def shape_of(type):
    return tuple(type.dims[: type.ndim])


def dtype_of(type):
    """numpy's type; of bf16, which numpy does not have, float32."""
    return _dtypes.get(type.dtype, np.dtype(np.float32))


def named(function, handle):
    """{name: ls_type} of a function that lists named tensors."""
    n = function(handle, None, 0)
    list = (struct("ls_named_tensor") * max(n, 1))()
    function(handle, ctypes.addressof(list), n)
    return {list[i].name.decode(): list[i].tensor.type for i in range(n)}


def numpy_of(number):
    """numpy's type of an ls_dtype, or None."""
    return _dtypes.get(number)


def _as_type(name, values, type):
    """Whole numbers as the type that the model takes, which Python's own and numpy's int64 are not."""
    if type is None or values.dtype.kind not in "iu" or values.dtype == type:
        return values
    if type.kind == "f":
        return values.astype(np.float64)
    limits = np.iinfo(type)
    if values.size and (values.min() < limits.min or values.max() > limits.max):
        raise ValueError("%r has %s to %s: the model takes %s" % (name, values.min(), values.max(), type))
    return values.astype(type)


def as_fields(arrays, types={}):
    """The arrays of a dict, all with as many rows; float16 and bool become types that models take, whole
    numbers those of `types`, {name: numpy's type}."""
    if not hasattr(arrays, "items"):
        raise TypeError(
            "the arrays are a dict of fields, as {'x': x, 'y': y}, not %s" % type(arrays).__name__
        )
    made, n = {}, None
    for name, values in arrays.items():
        values = np.asarray(values)
        if values.dtype == np.float16:
            values = values.astype(np.float32)
        elif values.dtype == np.bool_:
            values = values.astype(np.uint8)
        if not values.ndim or (n is not None and len(values) != n):
            raise ValueError(
                "%r has the shape %s: the first dimension is the samples, %s here" % (name, values.shape, n)
            )
        n = len(values)
        made[name] = _as_type(name, values, types.get(name))
    return made, n or 0


def load(path):
    """{name: array} of any weights that Lockstep reads: a .safetensors or .pt file, a checkpoint, a Hugging
    Face folder, a distributed checkpoint of PyTorch. bf16 becomes float32."""
    handle = ctypes.c_void_p()
    library.ls_weights_open(ctypes.byref(handle), str(path).encode())
    try:
        arrays = {}
        for i in range(library.ls_weights_count(handle)):
            weight = struct("ls_weight").from_address(library.ls_weights_at(handle, i))
            if not weight.loadable:
                raise Error(
                    constants["LS_E_UNSUPPORTED"],
                    "%s: %s has the type %s" % (path, weight.name.decode(), weight.stored.decode()),
                )
            array = np.empty(shape_of(weight.type), dtype_of(weight.type))
            library.ls_weight_read(ctypes.addressof(weight), _numbers[array.dtype], array.ctypes.data)
            arrays[weight.name.decode()] = array
        return arrays
    finally:
        library.ls_weights_close(ctypes.byref(handle))


def save(path, arrays):
    """Writes a .safetensors file of a dict of arrays; it replaces an old one when it is complete."""
    list = (struct("ls_named_tensor") * max(len(arrays), 1))()
    names = [name.encode() for name in arrays]
    tensors = [tensor_of(np.ascontiguousarray(array)) for array in arrays.values()]
    for i, name in enumerate(names):
        list[i].name, list[i].tensor = name, tensors[i]
    library.ls_weights_save(str(path).encode(), len(names), ctypes.addressof(list))
