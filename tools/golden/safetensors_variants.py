#!/usr/bin/env python3
"""Files that are, or nearly are, safetensors, and which of them the safetensors package reads.

    python tools/golden/safetensors_variants.py    # tests/golden/safetensors_variants.json

Each entry: its name, the file in hex, and whether the package reads it."""

import json
import os
import struct

from safetensors import deserialize

OUT = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "safetensors_variants.json"
)
F = struct.pack("<2f", 1, 2)


def f(header, data=F, n=None):
    h = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(h) if n is None else n) + h + data


T = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
W = '"w":' + T
cases = {
    "plain": f("{%s}" % W),
    "null_metadata": f('{"__metadata__":null,%s}' % W),
    "empty_metadata": f('{"__metadata__":{},%s}' % W),
    "int_metadata": f('{"__metadata__":{"a":1},%s}' % W),
    "null_meta_value": f('{"__metadata__":{"a":null},%s}' % W),
    "dup_meta_key": f('{"__metadata__":{"a":"1","a":"2"},%s}' % W),
    "dup_metadata": f('{"__metadata__":{"a":"1"},"__metadata__":{"a":"2"},%s}' % W),
    "list_metadata": f('{"__metadata__":[],%s}' % W),
    "text_metadata": f('{"__metadata__":"x",%s}' % W),
    "space_pad": f("{%s}   " % W),
    "newline_pad": f("{%s}\n\t\r " % W),
    "nul_pad": f("{%s}\0\0\0" % W),
    "leading_space": f(" {%s}" % W),
    "leading_newline": f("\n{%s}" % W),
    "bom": f(b"\xef\xbb\xbf{%s}" % W.encode()),
    "inner_space": f("{ \n%s \n}" % W),
    "dup_name": f("{%s,%s}" % (W, W)),
    "dup_name_differ": f('{%s,"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' % W),
    "extra_key": f('{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}}'),
    "dup_key_in_entry": f('{"w":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}'),
    "entry_array": f('{"w":["F32",[2],[0,8]]}'),
    "entry_null": f('{%s,"x":null}' % W),
    "float_shape": f('{"w":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}'),
    "float_offsets": f('{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8.0]}}'),
    "exp_shape": f('{"w":{"dtype":"F32","shape":[2e0],"data_offsets":[0,8]}}'),
    "neg_zero_shape": f('{"w":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}}', b""),
    "neg_shape": f('{"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}'),
    "three_offsets": f('{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}}'),
    "one_offset": f('{"w":{"dtype":"F32","shape":[2],"data_offsets":[0]}}'),
    "lower_dtype": f('{"w":{"dtype":"f32","shape":[2],"data_offsets":[0,8]}}'),
    "unknown_dtype": f('{"w":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}}'),
    "missing_shape": f('{"w":{"dtype":"F32","data_offsets":[0,8]}}'),
    "null_shape": f('{"w":{"dtype":"F32","shape":null,"data_offsets":[0,8]}}'),
    "scalar": f('{"w":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}', F[:4]),
    "empty_tensor": f('{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}', b""),
    "empty_at_end": f('{%s,"x":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}' % W),
    "empty_in_middle_of_other": f('{%s,"x":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}}' % W),
    "empty_huge": f('{"w":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}}', b""),
    "huge_empty": f('{"w":{"dtype":"F32","shape":[18446744073709551615,0],"data_offsets":[0,0]}}', b""),
    "empty_overflow": f('{"w":{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}}', b""),
    "empty_2e62": f('{"w":{"dtype":"F32","shape":[4611686018427387904,0],"data_offsets":[0,0]}}', b""),
    "no_tensors": f("{}", b""),
    "no_tensors_meta": f('{"__metadata__":{"a":"b"}}', b""),
    "no_tensors_data": f("{}"),
    "gap": f('{"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'),
    "short": f('{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'),
    "overlap": f('{%s,"x":%s}' % (W, T)),
    "reversed": f(
        '{"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    ),
    "end_before_begin": f('{"w":{"dtype":"F32","shape":[0],"data_offsets":[8,0]}}'),
    "beyond": f('{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'),
    "empty_name": f('{"":%s}' % T),
    "nul_name": f('{"a\\u0000b":%s}' % T),
    "escaped_name": f('{"\\u0077":%s}' % T),
    "escaped_dup": f(
        '{"\\u0077":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'
    ),
    "lone_surrogate": f('{"\\ud800":%s}' % T),
    "pair_surrogate": f('{"\\ud83d\\ude00":%s}' % T),
    "raw_control": f('{"a\nb":%s}' % T),
    "bad_utf8": f(b'{"\xff":%s}' % T.encode()),
    "utf8": f('{"é":%s}' % T),
    "slash_escape": f('{"a\\/b":%s}' % T),
    "trailing_comma": f("{%s,}" % W),
    "comment": f("{/*x*/%s}" % W),
    "single_quotes": f("{'w':%s}" % T),
    "leading_zero": f('{"w":{"dtype":"F32","shape":[02],"data_offsets":[0,8]}}'),
    "plus": f('{"w":{"dtype":"F32","shape":[+2],"data_offsets":[0,8]}}'),
    "nine_dims": f('{"w":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}}'),
    "trailing_object": f("{%s}{}" % W),
    "array_root": f("[]", b""),
    "zero_header": f("", b"", 0),
    "empty_file": b"",
    "seven": b"1234567",
    "huge_length": struct.pack("<Q", 2**63) + b"{}",
    "limit_length": struct.pack("<Q", 100000000) + b"{}",
    "over_limit": struct.pack("<Q", 100000001) + b"{}",
    "more_data": f("{%s}" % W, F + b"x"),
    "odd_offset": f(
        '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}',
        F[:5],
    ),
    "odd_header": f("{%s} " % W),
    "f4_half": f('{"w":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}', b"12"),
    "f4": f('{"w":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}}', b"12"),
    "f6": f('{"w":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}', b"123"),
    "meta_named_tensor": f('{"__metadata__":%s}' % T),
    "deep": f('{"w":{"dtype":"F32","shape":%s2%s,"data_offsets":[0,8]}}' % ("[" * 3000, "]" * 3000)),
    "deep_unknown": f(
        '{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":%s%s}}' % ("[" * 200, "]" * 200)
    ),
}
for d, b in [
    ("BOOL", 1),
    ("F4", 0.5),
    ("F6_E2M3", 0.75),
    ("F6_E3M2", 0.75),
    ("U8", 1),
    ("I8", 1),
    ("F8_E5M2", 1),
    ("F8_E4M3", 1),
    ("F8_E8M0", 1),
    ("F8_E4M3FNUZ", 1),
    ("F8_E5M2FNUZ", 1),
    ("I16", 2),
    ("U16", 2),
    ("F16", 2),
    ("BF16", 2),
    ("I32", 4),
    ("U32", 4),
    ("F32", 4),
    ("C64", 8),
    ("F64", 8),
    ("I64", 8),
    ("U64", 8),
    ("C128", 16),
    ("C32", 4),
]:
    n = int(4 * b)
    cases["dtype_" + d] = f('{"w":{"dtype":"%s","shape":[4],"data_offsets":[0,%d]}}' % (d, n), b"\0" * n)


def read(data):
    try:
        deserialize(data)
        return True
    except Exception:
        return False


if __name__ == "__main__":
    rows = [{"name": name, "file": data.hex(), "read": read(data)} for name, data in cases.items()]
    with open(OUT, "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
