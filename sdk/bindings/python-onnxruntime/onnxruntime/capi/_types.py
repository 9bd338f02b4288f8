"""Element types, devices, memory, and the types of inputs and outputs."""
import ctypes
from typing import List, NamedTuple, Optional, Union

import numpy as np
from inlay.values import DTYPES

from ._enums import OrtAllocatorType, OrtDeviceMemoryType, OrtMemType
from ._ort import Handle, api, encode, out, out_int

STRING, BOOL = 8, 9
TENSOR, SEQUENCE, MAP, SPARSE, OPTIONAL = 1, 2, 3, 5, 6  # ONNXType
#: ONNX's name by number
NAMES = {number: name for number, (name, _, _) in DTYPES.items()}
_NUMPY = {number: np.dtype(kind) for number, (_, kind, _) in DTYPES.items() if kind is not None}
_NUMBERS = {kind: number for number, kind in _NUMPY.items()}
_BITS = {number: bits for number, (_, _, bits) in DTYPES.items()}
#: names of types of the package ml_dtypes that differ from ONNX's
_ML_DTYPES = {"float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20, "bfloat16": 16}


def element_number(kind) -> int:
    """The number of an element type, given as a number or as a type of numpy or ml_dtypes."""
    if isinstance(kind, (int, np.integer)) and not isinstance(kind, bool):
        if int(kind) not in NAMES:
            raise RuntimeError(f"{kind} is not the number of an element type of ONNX")
        return int(kind)
    dtype = np.dtype(kind)
    if dtype.kind in "OUSV" and dtype.name not in _ML_DTYPES:
        return STRING
    number = _NUMBERS.get(dtype.newbyteorder("=")) or _ML_DTYPES.get(dtype.name)
    if number is None:
        raise RuntimeError(f"Numpy type {dtype} is not an element type of ONNX")
    return number


def numpy_type(number: int) -> np.dtype:
    """The type of numpy with which arrays of an element type are made: unsigned integers of the same size for the
    types that numpy does not have, and object for strings."""
    if number == STRING:
        return np.dtype(object)
    return _NUMPY.get(number) or np.dtype({16: np.uint16}.get(_BITS[number], np.uint8))


class Type(NamedTuple):
    """The type of an input or output."""
    kind: int
    element: int = 0
    shape: tuple = ()
    key: int = 0
    inner: Optional["Type"] = None

    def __str__(self) -> str:
        if self.kind == TENSOR:
            return f"tensor({NAMES.get(self.element, 'undefined')})"
        if self.kind == SPARSE:
            return f"sparse_tensor({NAMES.get(self.element, 'undefined')})"
        if self.kind == MAP:
            return f"map({NAMES.get(self.key, 'undefined')},{self.inner})"
        return f"{'seq' if self.kind == SEQUENCE else 'optional'}({self.inner})"


def dims_of(info) -> tuple:
    """The dimensions of a pointer to OrtTensorTypeAndShapeInfo: sizes, -1 where unknown."""
    rank = out(api.GetDimensionsCount, info)
    dims = (ctypes.c_int64 * max(rank, 1))()
    api.GetDimensions(info, dims, rank)
    return tuple(dims[:rank])


def _tensor(kind, info) -> Type:
    dims = dims_of(info)
    names = (ctypes.c_char_p * max(len(dims), 1))()
    api.GetSymbolicDimensions(info, names, len(dims))
    shape: List[Union[int, str, None]] = [
        size if size >= 0 else (name.decode("utf-8", "replace") if name else None) for size, name in zip(dims, names)]
    return Type(kind, out_int(api.GetTensorElementType, info), tuple(shape))


def read_type(info) -> Type:
    """The type behind a pointer to OrtTypeInfo."""
    kind = out_int(api.GetOnnxTypeFromTypeInfo, info)
    if kind in (TENSOR, SPARSE):
        return _tensor(kind, out(api.CastTypeInfoToTensorInfo, info))
    if kind == SEQUENCE:
        return Type(kind, inner=_owned(api.GetSequenceElementType, out(api.CastTypeInfoToSequenceTypeInfo, info)))
    if kind == MAP:
        view = out(api.CastTypeInfoToMapTypeInfo, info)
        return Type(kind, key=out_int(api.GetMapKeyType, view), inner=_owned(api.GetMapValueType, view))
    if kind == OPTIONAL:
        return Type(kind, inner=_owned(api.GetOptionalContainedTypeInfo, out(api.CastTypeInfoToOptionalTypeInfo, info)))
    return Type(kind)


def _owned(function, *arguments) -> Type:
    info = out(function, *arguments)
    try:
        return read_type(info)
    finally:
        api.ReleaseTypeInfo(info)


def type_from(function, session, index) -> Type:
    """The type that one of the functions Session...TypeInfo returns."""
    return _owned(function, session, index)


class OrtDevice:
    """A device by type, memory type, vendor and number. inlay's values are in host memory."""

    __slots__ = ("_type", "_memory", "_vendor", "_id")

    def __init__(self, device_type: int, memory_type: int, vendor_or_id: int, device_id: Optional[int] = None):
        self._type, self._memory = device_type, memory_type
        self._vendor, self._id = (0, vendor_or_id) if device_id is None else (vendor_or_id, device_id)

    def device_id(self) -> int:
        return self._id

    def device_type(self) -> int:
        return self._type

    def vendor_id(self) -> int:
        return self._vendor

    def mem_type(self) -> int:
        return self._memory

    @staticmethod
    def cpu() -> int:
        return 0

    @staticmethod
    def gpu() -> int:
        return 1

    cuda = dml = webgpu = gpu

    @staticmethod
    def npu() -> int:
        return 3

    cann = npu

    @staticmethod
    def default_memory() -> int:
        return 0


def check_host(device: OrtDevice) -> None:
    """Raises ONNX Runtime's error for a device that is not the host."""
    if device.device_type() != OrtDevice.cpu():
        name = "CUDA" if device.device_type() == OrtDevice.gpu() else "NPU"
        raise RuntimeError(f"Can't allocate memory on the {name} device using this package of OnnxRuntime. Please use the "
                           f"{name} package of OnnxRuntime to use this feature.")


class OrtMemoryInfo(Handle):
    """A description of memory."""

    RELEASE = "ReleaseMemoryInfo"
    __slots__ = ("_owned",)

    def __init__(self, name: str, allocator_type: OrtAllocatorType, device_id: int, mem_type: OrtMemType):
        super().__init__(out(api.CreateMemoryInfo, encode(name), int(allocator_type), device_id, int(mem_type)))
        self._owned = True

    @classmethod
    def _view(cls, handle: int) -> "OrtMemoryInfo":
        """A description that belongs to another object."""
        info = cls.__new__(cls)
        info.handle, info._owned = handle, False
        return info

    @classmethod
    def create_v2(cls, name, device_type, vendor_id, device_id, mem_type, alignment, allocator_type):
        info = cls._view(out(api.CreateMemoryInfo_V2, encode(name), int(device_type), vendor_id, device_id,
                             int(mem_type), alignment, int(allocator_type)))
        info._owned = True
        return info

    def __del__(self):
        if getattr(self, "_owned", False):
            super().__del__()

    @property
    def name(self) -> str:
        return ctypes.string_at(out(api.MemoryInfoGetName, self.handle)).decode()

    @property
    def device_id(self) -> int:
        return out_int(api.MemoryInfoGetId, self.handle)

    @property
    def mem_type(self) -> OrtMemType:
        return OrtMemType(out_int(api.MemoryInfoGetMemType, self.handle))

    @property
    def allocator_type(self) -> OrtAllocatorType:
        return OrtAllocatorType(out_int(api.MemoryInfoGetType, self.handle))

    @property
    def device_mem_type(self) -> OrtDeviceMemoryType:
        return OrtDeviceMemoryType(api.MemoryInfoGetDeviceMemType(self.handle))

    @property
    def device_vendor_id(self) -> int:
        return api.MemoryInfoGetVendorId(self.handle)
