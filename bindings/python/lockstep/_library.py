"""The C library: every type and function of its headers for ctypes.

abi.txt lists them (docs/abi.md). This module makes classes of the structs, numbers of the enums and
prototypes of the functions, so `library.ls_trainer_save(t, b"model.safetensors")` is a call of C whose
arguments ctypes checks. The size and the place of every member are compared with abi.txt when a class is
made.
"""

import ctypes
import difflib
import os
import re

_here = os.path.dirname(os.path.abspath(__file__))
_native = os.path.join(_here, "native")


def _first(paths):
    return next((path for path in paths if path and os.path.exists(path)), None)


def _read_abi():
    path = _first([os.path.join(_here, "abi.txt"), os.path.join(_here, "../../abi.txt")])
    if not path:
        raise ImportError("lockstep: abi.txt is missing beside %s: install the wheel again" % _here)
    with open(path) as file:
        return file.read().splitlines()


_lines = _read_abi()
ABI = _lines[0].split()[1]
_soname = "liblockstep.so." + ABI


def _open():
    """The library that LOCKSTEP_LIBRARY names, else the wheel's, else the system's."""
    path = os.environ.get("LOCKSTEP_LIBRARY") or _first([os.path.join(_native, _soname)]) or _soname
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            "lockstep: %s does not load: %s. Install the wheel, or the package of liblockstep %s, or set "
            "LOCKSTEP_LIBRARY to the file of the library" % (path, error, ABI)
        ) from None


_scalars = {
    "int": ctypes.c_int,
    "char": ctypes.c_char,
    "_Bool": ctypes.c_bool,
    "double": ctypes.c_double,
    "float": ctypes.c_float,
    "size_t": ctypes.c_size_t,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint8_t": ctypes.c_uint8,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
}
constants = {}  # "LS_F32": 0
enums = {}  # "ls_dtype": {"LS_F32": 0, ...}
_sizes = {}  # "ls_tensor": its size
_members = {}  # "ls_tensor": [(offset, size, name, type)]
_prototypes = {}  # "ls_type_count": (type of the result, [(type, name)])
_classes = {}

for _line in _lines[1:]:
    _kind, _rest = _line.split(" ", 1)
    if _kind == "value":
        _enum, _name, _value = _rest.split()
        constants[_name] = enums.setdefault(_enum, {})[_name] = int(_value)
    elif _kind == "struct":
        _name, _size, _ = _rest.split()
        _sizes[_name] = int(_size)
    elif _kind == "member":
        _name, _offset, _size, _type = _rest.split(" ", 3)
        _struct, _name = _name.split(".", 1)
        _members.setdefault(_struct, []).append((int(_offset), int(_size), _name, _type))
    elif _kind == "function":
        _match = re.match(r"(.*?)(ls_[a-z0-9_]+)\((.*)\)$", _rest)
        _arguments = []
        for _argument in _match[3].split(", "):
            if _argument in ("void", "..."):
                continue
            _word = re.match(r"(.*?)([a-z0-9_]*)(\[[0-9]*\])?$", _argument)
            _arguments.append((_word[1].strip() + (" *" if _word[3] else ""), _word[2]))
        _prototypes[_match[2]] = (_match[1].strip(), _arguments)

build_function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def ctype(text, size=None):
    """The class of ctypes for a type of C; `size` is that of an array."""
    array = re.match(r"(.*?)\[.*\]$", text)
    if array:
        element = ctype(array[1])
        return element * (size // ctypes.sizeof(element))
    if text == "const char *":
        return ctypes.c_char_p
    if "*" in text:
        return ctypes.c_void_p
    name = text.replace("const ", "").replace("struct ", "")
    if name in enums:
        return ctypes.c_int
    if name == "ls_build_fn":
        return build_function
    return struct(name) if name in _sizes else _scalars[name]


def struct(name):
    """The class of a struct of C."""
    if name not in _classes:
        _classes[name] = _struct(name, "", 0)
        if ctypes.sizeof(_classes[name]) != _sizes[name]:
            raise ImportError("lockstep: %s has another size than abi.txt says" % name)
    return _classes[name]


def _struct(whole, path, start):
    """The class of what lies at `path` in a struct, `start` bytes from its beginning."""
    fields, types = [], {}
    members = sorted(m for m in _members[whole] if m[2].startswith(path) and "." not in m[2][len(path) :])
    for offset, size, name, type in members:
        short = name[len(path) :]
        types[short] = type
        if type == "struct":
            made = _struct(whole, name + ".", offset)
        elif type == "struct[]":
            element = _struct(whole, name + "[].", offset)
            made = element * (size // ctypes.sizeof(element))
        else:
            made = ctype(type, size)
        fields.append((short, made))
    made = type_of_struct(path or whole, fields, types)
    for offset, _, name, _ in members:
        if getattr(made, name[len(path) :]).offset != offset - start:
            raise ImportError("lockstep: %s.%s does not lie where abi.txt says" % (whole, name))
    return made


def type_of_struct(name, fields, types):
    return type(name, (ctypes.Structure,), {"_fields_": fields, "_types_": types})


class Error(RuntimeError):
    """A call of the library failed. `status` is its number (LS_E_SHAPE, ...), the text the library's
    message."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class _Library:
    """The functions of the headers, by their names; one that returns ls_status raises Error when it fails."""

    def __init__(self):
        self._handle = _open()
        version = self._handle.ls_version
        version.restype = ctypes.c_char_p
        self.version = version().decode()
        if not self.version.startswith(ABI + "."):
            raise ImportError(
                "lockstep: the library is version %s, and this binding is for %s: install both together"
                % (self.version, ABI)
            )

    def __getattr__(self, name):
        if name not in _prototypes:
            raise AttributeError("liblockstep %s has no function %s" % (self.version, name))
        result, arguments = _prototypes[name]
        function = getattr(self._handle, name)
        function.argtypes = [ctype(type) for type, _ in arguments]
        function.restype = None if result == "void" else ctype(result)
        if result == "ls_status":
            function.errcheck = _check
        setattr(self, name, function)
        return function


def _check(status, function, arguments):
    if status:
        raise Error(status, library.ls_error_message().decode("utf-8", "replace"))
    return status


def arguments_of(name):
    """[(type, name)] of a function's arguments, or None: there is no such function."""
    return _prototypes[name][1] if name in _prototypes else None


def functions():
    """The names of all functions."""
    return list(_prototypes)


def result_of(name):
    return _prototypes[name][0]


def constant(type, value):
    """The number of an enum's value: a number, its name in C, or the end of that, as "f32" or
    "by_element"."""
    if not isinstance(value, str):
        return int(value)
    upper = value.upper()
    found = [v for name, v in enums[type].items() if name == upper or name == "LS_" + upper]
    found = found or [v for name, v in enums[type].items() if name.endswith("_" + upper)]
    if len(found) != 1:
        raise ValueError("%r is not one of %s: %s" % (value, type, ", ".join(enums[type])))
    return found[0]


def _no_member(struct, name, members):
    near = difflib.get_close_matches(name, members, 1)
    hint = "; did you mean %r?" % near[0] if near else ""
    if name in ("lr", "learning_rate"):
        hint = "; the learning rate is an argument of fit and of step"
    return TypeError("%s has no member %r%s; it has %s" % (struct, name, hint, ", ".join(members)))


def _described(type):
    """What Python's value for this type of C is."""
    name = type.replace("const ", "").replace("struct ", "").rstrip(" *")
    if type == "const char *":
        return "a text"
    if name == "ls_value":
        return "a value of the graph"
    if name in _sizes:
        return "a dict with some of " + ", ".join(struct(name)._types_)
    return {"double": "a number", "float": "a number", "_Bool": "True or False"}.get(
        name, "a whole number" if name in _scalars and "*" not in type else type
    )


def call(name, *values):
    """A function of the library; an argument of a wrong type is named."""
    try:
        return getattr(library, name)(*values)
    except ctypes.ArgumentError as error:
        k = int(re.search("argument ([0-9]+)", str(error))[1]) - 1
        type, argument = _prototypes[name][1][k]
        raise TypeError("%s: %s is %s, not %r" % (name, argument, _described(type), values[k])) from None


def fill(target, values, keep):
    """Members of a struct from a dict, of a struct inside from a dict inside. `keep` gets what must outlive
    the call."""
    for name, value in values.items():
        if name not in target._types_:
            raise _no_member(type(target).__name__, name, list(target._types_))
        made = convert(target._types_[name], value, keep, getattr(target, name))
        try:
            setattr(target, name, made)
        except TypeError:
            raise TypeError(
                "%s: %s is %s, not %r"
                % (type(target).__name__, name, _described(target._types_[name]), value)
            ) from None


def convert(type, value, keep, before=None):
    """A value of Python for a member or an argument of this type of C."""
    name = type.replace("const ", "")
    if name in enums:
        return constant(name, value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        pointer = name.endswith(" *")
        made = before if not pointer and before is not None else default_of(name.rstrip(" *"))
        fill(made, value, keep)
        keep.append(made)
        return ctypes.addressof(made) if pointer else made
    if value is None or isinstance(value, (bool, int, float, ctypes.Structure)):
        if "*" in name and isinstance(value, ctypes.Structure):
            keep.append(value)
            return ctypes.addressof(value)
        return value
    return getattr(value, "_as_parameter_", value)


def default_of(name):
    """A struct of options with its defaults."""
    if name + "_default" in _prototypes:
        return getattr(library, name + "_default")()
    return struct(name)()


library = _Library()
