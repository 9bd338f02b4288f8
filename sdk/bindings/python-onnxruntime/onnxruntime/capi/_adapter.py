"""Files of LoRA adapters: FlatBuffers with identifier "TORT". The root table has format_version, adapter_version,
model_version and parameters; a parameter has name, dims (int64), data_type (as in ONNX) and raw_data."""
import ctypes
import math
import os
import struct
from typing import Any, Dict, List

import numpy as np

from ._errors import error
from ._ort import allocator, api, out
from ._values import OrtValue

_FORMAT_VERSION = 1
_STRING = 8  # the element type of tensors of strings


class _Writer:
    """Writes a FlatBuffer from its end to its beginning, as references point forward. Positions count from the end."""

    def __init__(self):
        self.parts: List[bytes] = []
        self.used = 0

    def put(self, data: bytes) -> int:
        self.parts.append(data)
        self.used += len(data)
        return self.used

    def number(self, value: int) -> int:
        return self.put(struct.pack("<I", value))

    def reference(self, position: int) -> int:
        return self.number(self.used + 4 - position)

    def align(self, size: int) -> None:
        """Pads, so that the next `size` bytes begin at a multiple of 8 from the end."""
        self.put(bytes(-(self.used + size) % 8))

    def vector(self, data: bytes, count: int) -> int:
        self.align(len(data))
        self.put(data)
        return self.number(count)

    def table(self, *fields: Any) -> int:
        """A table of numbers (int) and references to positions (tuples of one), four bytes each."""
        self.align(4 * len(fields) + 4)
        for field in reversed(fields):
            if isinstance(field, tuple):
                self.reference(*field)
            else:
                self.number(field)
        size = 4 + 2 * len(fields)
        place = self.number(size)
        self.put(struct.pack(f"<{2 + len(fields)}H", size, 4 * len(fields) + 4,
                             *(4 + 4 * i for i in range(len(fields)))))
        return place

    def finish(self, root: int) -> bytes:
        self.align(8)
        self.put(b"TORT")
        self.reference(root)
        return b"".join(reversed(self.parts))


class _Reader:
    """The fields of a FlatBuffer. struct and slices check all bounds."""

    def __init__(self, data: bytes):
        self.data = data

    def number(self, at: int) -> int:
        return struct.unpack_from("<I", self.data, at)[0]

    def follow(self, at: int) -> int:
        return at + self.number(at)

    def field(self, table: int, index: int) -> int:
        """The position of a field, 0 if it is absent."""
        vtable = table - struct.unpack_from("<i", self.data, table)[0]
        if vtable < 0:
            raise ValueError("a table refers to before the file")
        size = struct.unpack_from("<H", self.data, vtable)[0]
        offset = struct.unpack_from("<H", self.data, vtable + 4 + 2 * index)[0] if 6 + 2 * index <= size else 0
        return table + offset if offset else 0

    def vector(self, table: int, index: int, width: int) -> bytes:
        at = self.follow(self.field(table, index))
        size = self.number(at) * width
        if at + 4 + size > len(self.data):
            raise ValueError("a vector ends after the file")
        return self.data[at + 4:at + 4 + size]


class AdapterFormat:
    """The contents of an adapter file."""

    def __init__(self):
        self._adapter_version = self._model_version = 0
        self._parameters: Dict[str, Any] = {}

    @staticmethod
    def read_adapter(path: Any) -> "AdapterFormat":
        with open(path, "rb") as file:
            reader, made = _Reader(file.read()), AdapterFormat()
        try:
            made._read(reader)
        except (struct.error, ValueError, UnicodeDecodeError) as problem:
            raise error(1, f"{os.fspath(path)} is not in ONNX Runtime's adapter format, or is damaged: {problem}") \
                from None
        return made

    def _read(self, reader: _Reader) -> None:
        from .onnxruntime_inference_collection import OrtValue as PublicValue
        if reader.data[4:8] != b"TORT":
            raise ValueError("the identifier TORT is missing")
        root = reader.follow(0)
        version, self._adapter_version, self._model_version = (
            reader.number(place) if place else 0 for place in (reader.field(root, i) for i in range(3)))
        if version != _FORMAT_VERSION:
            raise ValueError(f"format version {version}; this package reads version {_FORMAT_VERSION}")
        listed = reader.follow(reader.field(root, 3))
        for i in range(reader.number(listed)):
            table = reader.follow(listed + 4 + 4 * i)
            dims = np.frombuffer(reader.vector(table, 1, 8), np.int64)
            raw = reader.vector(table, 3, 1)
            if math.prod(int(dim) for dim in dims) > 8 * len(raw):
                raise ValueError(f"a parameter has {len(raw)} bytes, which do not fit its shape")
            value = OrtValue(out(api.CreateTensorAsOrtValue, allocator, dims.ctypes.data, len(dims),
                                 reader.number(reader.field(table, 2))))
            if value.tensor_size_in_bytes() != len(raw):
                raise ValueError(f"a parameter has {len(raw)} bytes, which do not fit its shape")
            ctypes.memmove(value.data_ptr(), raw, len(raw))
            self._parameters[reader.vector(table, 0, 1).decode()] = PublicValue(value)

    def export_adapter(self, path: Any) -> None:
        writer, tables = _Writer(), []
        for name, value in self._parameters.items():
            inner = getattr(value, "_ortvalue", value)
            if inner.element_type() == _STRING:
                raise error(2, f"parameter {name} is a tensor of type STRING, which adapters cannot hold")
            shape = inner.shape()
            raw = ctypes.string_at(inner.data_ptr(), inner.tensor_size_in_bytes())
            data = writer.vector(raw, len(raw))
            dims = writer.vector(struct.pack(f"<{len(shape)}q", *shape), len(shape))
            text = name.encode()
            writer.put(b"\0")
            tables.append(writer.table((writer.vector(text, len(text)),), (dims,), inner.element_type(), (data,)))
        writer.align(4 * len(tables) + 4)
        for table in reversed(tables):
            writer.reference(table)
        listed = writer.number(len(tables))
        data = writer.finish(writer.table(_FORMAT_VERSION, self._adapter_version, self._model_version, (listed,)))
        with open(path, "wb") as file:
            file.write(data)

    def set_adapter_version(self, version: int) -> None:
        self._adapter_version = int(version)

    def get_adapter_version(self) -> int:
        return self._adapter_version

    def set_model_version(self, version: int) -> None:
        self._model_version = int(version)

    def get_model_version(self) -> int:
        return self._model_version

    def set_parameters(self, parameters: Dict[str, Any]) -> None:
        self._parameters = dict(parameters)

    def get_parameters(self) -> Dict[str, Any]:
        return dict(self._parameters)
