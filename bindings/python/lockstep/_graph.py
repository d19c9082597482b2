"""Building a model: the functions of graph.h and nn.h as methods of a graph.

`ls_linear(g, "fc", x, 10, .bias = false)` of C is `g.linear("fc", x, 10, bias=False)` here, `ls_reshape(g, x,
2, 3)` is `g.reshape(x, [2, 3])`. A value of an enum is its name in C or the end of it ("f32", "by_element"),
a list is its length and its elements, and keywords are names of arguments or, behind those, members of the
struct of options.
"""

import contextlib
import ctypes
import numbers
import os
import re
import sys

from ._arrays import numpy_of, shape_of, type_of
from ._library import (
    arguments_of,
    call,
    constant,
    convert,
    ctype,
    default_of,
    fill,
    functions,
    library,
    result_of,
    struct,
)

_files = {}  # the library keeps pointers to the names of files


class Value:
    """A value of a graph. + - * / ** @ and unary - build the op; a number beside it becomes a constant."""

    __array_ufunc__ = None  # numpy leaves array + value to this class

    def __init__(self, graph, c):
        self._graph, self._as_parameter_ = graph, c

    @property
    def shape(self):
        return shape_of(library.ls_value_type(self._graph._handle, self._as_parameter_))

    @property
    def dtype(self):
        return library.ls_dtype_name(
            library.ls_value_type(self._graph._handle, self._as_parameter_).dtype
        ).decode()

    def __repr__(self):
        return "Value(%s %s)" % (self.dtype, list(self.shape))

    def _with(self, op, other):
        if isinstance(other, Value):
            return self._graph._call("ls_" + op, (self, other), {})
        if not isinstance(other, numbers.Real):
            raise TypeError(
                "a value of the graph and %s: arrays come in by g.input, or as numbers" % type(other).__name__
            )
        return self._graph._call("ls_%s_const" % op, (self, float(other)), {})

    def __add__(self, other):
        return self._with("add", other)

    __radd__ = __add__

    def __mul__(self, other):
        return self._with("mul", other)

    __rmul__ = __mul__

    def __sub__(self, other):
        return self._with("sub", other) if isinstance(other, Value) else self._with("add", -other)

    def __rsub__(self, other):
        return -self + other

    def __truediv__(self, other):
        return self._with("div", other)

    def __pow__(self, other):
        return self._with("pow", other)

    def __neg__(self):
        return self._graph._call("ls_neg", (self,), {})

    def __matmul__(self, other):
        return self._graph._call("ls_matmul", (self, other, False, False), {})


class Graph:
    """A graph that a builder fills. A call that fails gives an invalid value; the error comes when the
    builder returns, with the line of that call."""

    def __init__(self, handle):
        self._handle = handle
        self._inputs = {}  # name: numpy's type

    def __getattr__(self, name):
        function = _function_of(name)
        if not function:
            raise AttributeError(
                "a graph has no method %r: its methods are the functions of lockstep/graph.h and nn.h" % name
            )

        def method(*given, **options):
            return self._call(function, given, options)

        method.__name__ = method.__qualname__ = name
        method.__doc__ = "%s(%s), %s of lockstep/graph.h or nn.h" % (name, _signature(function), function)
        return method

    def __dir__(self):
        names = {re.sub("_(with|dims)$", "", name[3:]) for name in functions()}
        return sorted(super().__dir__()) + sorted(name for name in names if _function_of(name))

    def input(self, name, shape, dtype="f32"):
        """An input [batch, ..]: the field `name` of the samples."""
        number = constant("ls_dtype", dtype)
        self._inputs[name] = numpy_of(number)
        return self._call("ls_input", (name, type_of(shape, number)), {})

    @contextlib.contextmanager
    def scope(self, name, block=""):
        """Names inside begin with `name.`; `block` is the class of the module, for `class:` in options."""
        self._call("ls_scope_push", (name, block), {})
        yield
        self._call("ls_scope_pop", (), {})

    def _call(self, function, given, options):
        arguments, values, given, keep = arguments_of(function)[1:], [], list(given), []
        site = sys._getframe(1)
        while site.f_globals.get("__name__") == __name__:
            site = site.f_back
        file = _files.setdefault(site.f_code.co_filename, os.path.basename(site.f_code.co_filename).encode())
        library.ls_at(self._handle, file, site.f_lineno)
        k = 0
        while k < len(arguments):
            type, name = arguments[k]
            k += 1
            if name == "o" and type.endswith("_opts *"):
                values.append(_options(type, given.pop(0) if given else options, keep))
                options = {}
                continue
            if given:
                value = given.pop(0)
            elif name in options:
                value = options.pop(name)
            elif k < len(arguments) and arguments[k][1] in options:
                value = options.pop(arguments[k][1])
            else:
                raise TypeError(
                    "%s: the argument %r is missing; it takes %s" % (function, name, _signature(function))
                )
            if type == "int" and isinstance(
                value, (list, tuple)
            ):  # its length, and the elements in the next argument
                element = ctype(arguments[k][0].replace("const ", "").rstrip(" *"))
                keep.append((element * len(value))(*[getattr(v, "_as_parameter_", v) for v in value]))
                values += [len(value), ctypes.addressof(keep[-1])]
                k += 1
            elif value is None and type == "ls_value":
                values.append(struct("ls_value")())
            else:
                values.append(convert(type, value, keep))
        if given or options:
            raise TypeError(
                "%s takes %s; too much: %s"
                % (function, ", ".join(n for _, n in arguments), list(given) + list(options))
            )
        return self._result(result_of(function), call(function, self._handle, *values))

    def _result(self, type, c):
        if type == "ls_value":
            return Value(self, c)
        if isinstance(c, ctypes.Structure) and all(
            t == "ls_value" for t in c._types_.values()
        ):  # ls_recurrent
            return tuple(Value(self, getattr(c, member)) for member in c._types_)
        return c


def _function_of(name):
    """The function of C that is method `name` of a graph, or None."""
    for function in ("ls_%s_with" % name, "ls_%s_dims" % name, "ls_" + name):
        arguments = arguments_of(function)
        if arguments and arguments[0][0].replace("const ", "") == "ls_graph *":
            return function
    return None


def _signature(function):
    """The arguments as Python has them: a list in place of its length and elements, options by name."""
    words, arguments = [], arguments_of(function)[1:]
    for k, (type, name) in enumerate(arguments):
        following = arguments[k + 1][0] if k + 1 < len(arguments) else ""
        if name == "o" and type.endswith("_opts *"):
            words += ["*"] + list(struct(type.replace("const ", "").rstrip(" *"))._types_)
        elif not (
            type == "int" and following.endswith("*") and "char" not in following and "_opts" not in following
        ):
            words.append(name)
    return ", ".join(words)


def _options(type, options, keep):
    name = type.replace("const ", "").rstrip(" *")
    made = default_of(name)
    fill(made, options, keep)
    keep.append(made)
    return ctypes.addressof(made)
