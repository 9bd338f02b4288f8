"""Tensors and lists of tensors, shared between Python and the runtime without copies if possible."""
import ctypes
from typing import Any, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ._library import MAP, OPTIONAL, SEQUENCE, TENSOR, Diag, Str, lib, native
from .errors import InlayError, Unsupported, check, error_of

#: ONNX's element types by number: name, numpy's type or None, number of bits.
DTYPES = {
    1: ("float", np.float32, 32), 2: ("uint8", np.uint8, 8), 3: ("int8", np.int8, 8), 4: ("uint16", np.uint16, 16),
    5: ("int16", np.int16, 16), 6: ("int32", np.int32, 32), 7: ("int64", np.int64, 64), 8: ("string", None, 128),
    9: ("bool", np.bool_, 8), 10: ("float16", np.float16, 16), 11: ("double", np.float64, 64),
    12: ("uint32", np.uint32, 32), 13: ("uint64", np.uint64, 64), 14: ("complex64", np.complex64, 64),
    15: ("complex128", np.complex128, 128), 16: ("bfloat16", None, 16), 17: ("float8e4m3fn", None, 8),
    18: ("float8e4m3fnuz", None, 8), 19: ("float8e5m2", None, 8), 20: ("float8e5m2fnuz", None, 8),
    21: ("uint4", None, 4), 22: ("int4", None, 4), 23: ("float4e2m1", None, 4), 24: ("float8e8m0", None, 8),
    25: ("uint2", None, 2), 26: ("int2", None, 2),
}
#: numpy's types by ONNX's names; None if numpy has no such type.
NUMPY = {name: kind for name, kind, _ in DTYPES.values()}
_NUMBERS = {name: number for number, (name, _, _) in DTYPES.items()}
_FROM_NUMPY = {np.dtype(kind): number for number, (_, kind, _) in DTYPES.items() if kind is not None}
STRING = 8
#: the names that the package ml_dtypes has for element types that numpy lacks
_ML_NAMES = {16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz",
             21: "uint4", 22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2"}
_ML_NUMBERS = {name: number for number, name in _ML_NAMES.items()}


def _ml_number(dtype: np.dtype) -> Optional[int]:
    """The number of an element type of ml_dtypes; None: it is of numpy."""
    return _ML_NUMBERS.get(dtype.name) if dtype.kind == "V" else None


def _ml_dtype(number: int) -> Optional[np.dtype]:
    """The type of ml_dtypes; None: it is not installed, or its version lacks the type."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    kind = getattr(ml_dtypes, _ML_NAMES[number], None)
    return None if kind is None else np.dtype(kind)


def _pack(array: np.ndarray, bits: int) -> np.ndarray:
    """Packs elements of less than 8 bits, each of which has a byte in ml_dtypes; the first is in the lowest bits."""
    count, per_byte = array.size, 8 // bits
    flat = np.zeros(-(-count // per_byte) * per_byte, np.uint8)
    flat[:count] = array.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    return np.bitwise_or.reduce(flat.reshape(-1, per_byte) << (np.arange(per_byte, dtype=np.uint8) * bits), axis=1,
                                dtype=np.uint8)


def _unpack(packed: np.ndarray, bits: int, shape: Tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The inverse of _pack()."""
    parts = (packed[:, None] >> (np.arange(8 // bits, dtype=np.uint8) * bits)) & ((1 << bits) - 1)
    flat = parts.astype(np.uint8).reshape(-1)[:int(np.prod(shape, dtype=np.int64))]
    if dtype.name.startswith("int"):  # the sign
        flat = ((flat ^ (1 << (bits - 1))).astype(np.int8) - (1 << (bits - 1))).astype(dtype).view(np.uint8)
    return flat.view(dtype).reshape(shape)


def encode_texts(array: np.ndarray) -> List[bytes]:
    """The bytes of the strings of an array, in UTF-8."""
    texts = []
    for item in array.reshape(-1).tolist():
        if not isinstance(item, (str, bytes)):
            raise TypeError(f"an array of objects must contain strings, not {type(item).__name__}")
        texts.append(item.encode("utf-8", "surrogateescape") if isinstance(item, str) else item)
    return texts


def decode_texts(address: Optional[int], shape: Sequence[int]) -> np.ndarray:
    """An array of str from the elements of a string tensor."""
    count = int(np.prod(shape, dtype=np.int64))
    out = np.empty(count, object)
    if count > 0:
        strings = ctypes.cast(address, ctypes.POINTER(Str))
        for i in range(count):
            text = ctypes.string_at(strings[i].data, strings[i].bytes) if strings[i].bytes else b""
            out[i] = text.decode("utf-8", "surrogateescape")
    return out.reshape(shape)


def number_of(dtype) -> int:
    """The number of an element type, given by ONNX's name, its number, or a type of numpy."""
    if isinstance(dtype, str) and dtype in _NUMBERS:
        return _NUMBERS[dtype]
    if isinstance(dtype, int) and dtype in DTYPES:
        return dtype
    try:
        kind = np.dtype(dtype)
        number = _ml_number(kind)
        return _FROM_NUMPY[kind] if number is None else number
    except (KeyError, TypeError):
        raise TypeError(f"{dtype} is not an element type of ONNX") from None


def _pointer(dims: Sequence[int]):
    return (ctypes.c_int64 * max(len(dims), 1))(*dims)


class _Capsule:
    """DLPack capsules (version 0.6 of the structs)."""

    Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    def __init__(self):
        api = ctypes.pythonapi
        self.get = api.PyCapsule_GetPointer
        self.get.restype, self.get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self._get_raw = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
            ("PyCapsule_GetPointer", api))
        self._is_raw = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", api))
        self.rename = api.PyCapsule_SetName
        self.rename.restype, self.rename.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
        self.make = api.PyCapsule_New
        self.make.restype = ctypes.py_object
        self.make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self._destroy)

    def _destroy(self, capsule):
        """Destroys a capsule that no consumer took: its name is unchanged."""
        if self._is_raw(capsule, b"dltensor"):
            delete(self._get_raw(capsule, b"dltensor"))


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
                ("manager", ctypes.c_void_p), ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


def delete(address: int) -> None:
    """Calls the deleter of a DLManagedTensor."""
    _DLManagedTensor.from_address(address).deleter(address)


_capsule = _Capsule()
#: element types by DLPack's type code and bits
_FROM_DLPACK = {(code, bits): number for number, (name, _, bits) in DTYPES.items() if bits >= 8
                for code, prefix in ((0, "int"), (1, "uint"), (2, "float"), (2, "double"), (4, "bfloat"),
                                     (5, "complex"), (6, "bool"))
                if name.rstrip("0123456789") == prefix}


def _strided(capsule: Any, tensor: _DLManagedTensor) -> np.ndarray:
    """The elements of a tensor as bits, over its memory; the tensor must live as long."""
    shape = tuple(tensor.shape[:tensor.ndim])
    item = tensor.bits // 8
    view = _View(capsule, (tensor.data or 0) + tensor.byte_offset, shape, np.dtype(f"V{item}"))
    view.__array_interface__["strides"] = tuple(stride * item for stride in tensor.strides[:tensor.ndim])
    return np.empty(shape, f"V{item}") if 0 in shape else np.asarray(view)


class Value:
    """A value of the runtime: a tensor, a list of values (a sequence or an optional), or a map.

    Tensors share memory with the data from which they were created. ``numpy()``, ``numpy.asarray()`` and DLPack
    (``torch.from_dlpack(value)``) return views that keep the value alive. Shapes never change. Every view may write the
    contents, but not while a run reads them."""

    __slots__ = ("_handle", "_keep", "__weakref__")

    def __init__(self, handle: int, keep: Any = None):
        """Takes ownership of a reference to an inlay_value. keep: the owner of its memory."""
        self._handle, self._keep = handle, keep

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            lib.value_unref(handle)

    # ------------------------------------------------------------ creation
    @classmethod
    def of(cls, data: Any, dtype: Any = None) -> "Value":
        """Converts data to a value: a Value, a numpy array, anything with ``__dlpack__`` on the CPU (a torch tensor), a
        list or tuple of numbers, a str, bytes, or a Python number; a dict becomes a map; None becomes an empty
        optional.

        Dense arrays are borrowed, not copied. dtype: ONNX's element type, for numbers and for types that numpy does not
        have ("bfloat16": an array of uint16)."""
        if isinstance(data, Value):
            return data
        if data is None:
            return cls.list_of([], dtype=dtype or "float", kind=OPTIONAL)
        if isinstance(data, Mapping):
            return cls.map_of(data, dtype)
        if not isinstance(data, (np.ndarray, np.generic)) and hasattr(data, "__dlpack__"):
            return cls._of_dlpack(data)
        return cls._of_array(data, dtype)

    @classmethod
    def list_of(cls, items: Sequence[Any], dtype: Any = None, kind: int = SEQUENCE) -> "Value":
        """A sequence of values. dtype: the element type of its tensors, required if there are none."""
        values = [cls.of(item) for item in items]
        number = lib.value_dtype(values[0]._handle) if values else number_of(dtype if dtype is not None else "float")
        return cls._of_items(kind, number, values)

    @classmethod
    def _of_items(cls, kind: int, number: int, values: List["Value"]) -> "Value":
        handles = (ctypes.c_void_p * max(len(values), 1))(*(value._handle for value in values))
        out = ctypes.c_void_p()
        check(lib.value_create_list, kind, number, handles, len(values), ctypes.byref(out))
        return cls(out.value, values)

    @classmethod
    def map_of(cls, data: Mapping[Any, Any], dtype: Any = None, key_dtype: Any = None) -> "Value":
        """A map. dtype, key_dtype: types of its values and keys (int64 or string); None: inferred from the data."""
        if key_dtype is None:
            key_dtype = "string" if any(isinstance(key, (str, bytes)) for key in data) else "int64"

        def column(part, kind):
            number = None if kind is None else number_of(kind)
            return cls._of_array(np.array(list(part), object if number == STRING else None),
                                 None if number == STRING else number)

        items = [column(data.keys(), key_dtype), column(data.values(), dtype)]
        return cls._of_items(MAP, lib.value_dtype(items[1]._handle), items)

    @classmethod
    def _of_array(cls, data, dtype):
        array = np.asarray(data)
        if array.dtype.kind in "OUS":
            return cls._of_strings(array)
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        number = _ml_number(array.dtype)
        if number is None and dtype is not None:
            number = number_of(dtype)
        if number is not None and DTYPES[number][1] is not None:
            array = np.asarray(array, DTYPES[number][1])
        elif number is None:
            number = number_of(array.dtype)
        dims = array.shape
        if not (array.flags.c_contiguous and array.flags.aligned):
            array = array.copy()
        if _ml_number(array.dtype) is not None and DTYPES[number][2] < 8:
            array = _pack(array, DTYPES[number][2])
        return cls._borrow(number, dims, array)

    @classmethod
    def _borrow(cls, number: int, dims: Sequence[int], array: np.ndarray) -> "Value":
        out = ctypes.c_void_p()
        check(lib.value_borrow, number, len(dims), _pointer(dims), array.ctypes.data, array.nbytes, ctypes.byref(out))
        return cls(out.value, array)

    @classmethod
    def _of_bits(cls, number: int, dims: Sequence[int], bits: bytes) -> "Value":
        """A copy of the memory of a tensor."""
        return cls._borrow(number, dims, np.frombuffer(bits, np.uint8).copy())

    @classmethod
    def _of_strings(cls, array):
        texts = encode_texts(array)
        strings = (Str * max(len(texts), 1))()
        for string, text in zip(strings, texts):
            string.data, string.bytes = ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p), len(text)
        out = ctypes.c_void_p()
        check(lib.value_create_strings, array.ndim, _pointer(array.shape), strings, ctypes.byref(out))
        return cls(out.value)

    @classmethod
    def _of_dlpack(cls, data):
        try:
            capsule = data.__dlpack__()
        except (RuntimeError, TypeError, BufferError):  # such as of torch for bool in older versions
            if not hasattr(data, "__array__"):
                raise
            return cls._of_array(np.asarray(data), None)
        address = _capsule.get(capsule, b"dltensor")
        tensor = _DLManagedTensor.from_address(address)
        number = _FROM_DLPACK.get((tensor.code, tensor.bits))
        if tensor.strides and tensor.device_type == 1 and tensor.lanes == 1 and number is not None:  # kDLCPU
            array = _strided(capsule, tensor)
            if not array.flags.c_contiguous:
                return cls._borrow(number, array.shape, array.copy())
        out = ctypes.c_void_p()
        check(lib.value_from_dlpack, address, ctypes.byref(out))
        _capsule.rename(capsule, b"used_dltensor")
        return cls(out.value)

    # ------------------------------------------------------------ properties
    @property
    def kind(self) -> str:
        """"tensor", "sequence", "optional" or "map"."""
        return {TENSOR: "tensor", SEQUENCE: "sequence", OPTIONAL: "optional", MAP: "map"}[lib.value_kind(self._handle)]

    @property
    def dtype(self) -> str:
        """ONNX's name of the element type; for a list, that of its tensors."""
        return DTYPES.get(lib.value_dtype(self._handle), ("undefined",))[0]

    @property
    def shape(self) -> Tuple[int, ...]:
        rank = lib.value_rank(self._handle)
        return tuple(lib.value_dims(self._handle)[:rank]) if rank else ()

    def __len__(self) -> int:
        if lib.value_kind(self._handle) == TENSOR:
            if not self.shape:
                raise TypeError("a scalar has no len()")
            return self.shape[0]
        return lib.value_count(self._handle)

    def items(self) -> List["Value"]:
        """The values of a list."""
        return [Value(lib.value_ref(lib.value_item(self._handle, i)), self) for i in range(len(self))]

    def __repr__(self) -> str:
        if lib.value_kind(self._handle) == TENSOR:
            return f"<inlay.Value {self.dtype}{list(self.shape)}>"
        return f"<inlay.Value {self.kind} of {len(self)}>"

    def __reduce__(self):
        """Copies the contents: for pickle and copy."""
        kind, number = lib.value_kind(self._handle), lib.value_dtype(self._handle)
        if kind != TENSOR:
            return Value._of_items, (kind, number, self.items())
        if number == STRING:
            return Value._of_strings, (self._texts(),)
        address, count = lib.value_data(self._handle), lib.value_bytes(self._handle)
        if not address and count:
            raise Unsupported(f"the tensor is in device memory, not in host memory ({self.dtype})")
        return Value._of_bits, (number, self.shape, ctypes.string_at(address, count) if count else b"")

    # ------------------------------------------------------------ conversion to Python objects
    def numpy(self) -> np.ndarray:
        """The tensor as an array over the same memory. Strings are copied to an array of str. Types that numpy does not
        have are those of the package ml_dtypes where it is installed; types of less than 8 bits are copied, since they
        have a byte per element there. Without ml_dtypes they are returned as bits: uint16 for bfloat16, uint8 for types
        of 8 bits, and a flat array of packed uint8 for smaller types."""
        if lib.value_kind(self._handle) != TENSOR:
            raise TypeError(f"this is a {self.kind}, not a tensor: see items()")
        number = lib.value_dtype(self._handle)
        if number == STRING:
            return self._texts()
        name, kind, bits = DTYPES[number]
        shape, ml_dtype = self.shape, None
        if kind is None:
            ml_dtype = _ml_dtype(number)
            kind = np.uint16 if bits == 16 else np.uint8
            shape = shape if bits >= 8 else (lib.value_bytes(self._handle),)
        address = lib.value_data(self._handle)
        if not address:
            if lib.value_count(self._handle) > 0:
                raise Unsupported(f"the tensor is in device memory, not in host memory ({name})")
            return np.empty(self.shape if ml_dtype else shape, ml_dtype or kind)
        array = np.asarray(_View(self, address, shape, np.dtype(kind)))
        if ml_dtype is None:
            return array
        return array.view(ml_dtype) if bits >= 8 else _unpack(array, bits, self.shape, ml_dtype)

    def _texts(self):
        return decode_texts(lib.value_data(self._handle), self.shape)

    def to_python(self) -> Any:
        """An array, a list of arrays, a dict for a map, or None for an empty optional."""
        kind = lib.value_kind(self._handle)
        if kind == TENSOR:
            return self.numpy()
        if kind == OPTIONAL:
            items = self.items()
            return items[0].to_python() if items else None
        if kind == MAP:
            return dict(zip(*(item.numpy().tolist() for item in self.items())))
        return [item.to_python() for item in self.items()]

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"{self!r} is {array.dtype}, not {np.dtype(dtype)}, without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, *, stream: Optional[int] = None, **_):
        if stream is not None:
            raise InlayError("tensors in host memory have no stream")
        out = ctypes.c_void_p()
        check(lib.value_to_dlpack, self._handle, ctypes.byref(out))
        if self._keep is not None:
            _kept.hold(out.value, self)
        return _capsule.make(out.value, b"dltensor", ctypes.cast(_capsule.destructor, ctypes.c_void_p))

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (1, 0)


class _View:
    """The object from which numpy creates an array. The array keeps a reference to this object, which keeps one to the
    value."""

    __slots__ = ("_value", "__array_interface__")

    def __init__(self, value, address, shape, dtype):
        self._value = value
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": dtype.str, "data": (address, False)}


class _Kept:
    """Values whose memory belongs to Python and that have a DLPack view. A value is kept until the consumer of its view
    calls the deleter."""

    def __init__(self):
        self._held = {}
        self._deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._delete)

    def hold(self, address, value):
        tensor = _DLManagedTensor.from_address(address)
        self._held[address] = (value, ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
            ctypes.cast(tensor.deleter, ctypes.c_void_p).value))
        tensor.deleter = self._deleter

    def _delete(self, address):
        _, deleter = self._held.pop(address)
        deleter(address)


_kept = _Kept()

if native is not None:
    native.configure(
        np.ndarray, tuple(np.dtype(DTYPES[i][1]) if i in DTYPES and DTYPES[i][1] is not None else None
                          for i in range(max(DTYPES) + 1)),
        Value, lambda status, address: error_of(status, Diag.from_address(address)))
