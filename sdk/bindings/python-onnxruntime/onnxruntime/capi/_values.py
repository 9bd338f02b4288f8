"""Values: tensors, sequences, maps and sparse tensors, and their conversion from and to Python."""
import ctypes
from ctypes import byref, c_int, c_int64, c_size_t, c_void_p
from typing import Any, List, Mapping, Optional, Sequence

import numpy as np
from inlay.values import _DLManagedTensor

from ._enums import OrtSparseFormat
from ._errors import error
from ._ort import Handle, allocator, api, cpu_memory, handles, out, out_int, strings
from ._types import (BOOL, MAP, NAMES, OPTIONAL, SEQUENCE, SPARSE, STRING, TENSOR, OrtDevice, Type, check_host, dims_of,
                     element_number, numpy_type)


def _dims(shape: Sequence[int]):
    return (c_int64 * max(len(shape), 1))(*(int(size) for size in shape))


class _View:
    """The object from which numpy creates an array. The array keeps it, and it keeps the owner of the memory."""

    __slots__ = ("_owner", "__array_interface__")

    def __init__(self, owner, address, shape, dtype, read_only=False):
        self._owner = owner
        self.__array_interface__ = {"version": 3, "shape": tuple(shape), "typestr": dtype.str,
                                    "data": (address or 0, read_only)}


def array_over(owner, address: int, shape, dtype: np.dtype, read_only: bool = False) -> np.ndarray:
    """An array over memory that the owner keeps."""
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.asarray(_View(owner, address, shape, dtype, read_only))


class _Capsule:
    """A DLPack capsule as an object that numpy takes."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return (1, 0)


def is_dlpack_uint8_tensor(capsule) -> bool:
    """True if a capsule holds a tensor of uint8, which may be one of bool."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLManagedTensor.from_address(get(capsule, b"dltensor"))
    return (tensor.code, tensor.bits, tensor.lanes) == (1, 8, 1)  # kDLUInt


def _text(item: Any) -> bytes:
    if isinstance(item, bytes):
        return item
    return str(item).encode("utf-8", "surrogateescape")


def _texts(array: np.ndarray) -> List[bytes]:
    """The strings of an array; other objects, such as a NaN in data of pandas, are converted with str()."""
    if array.dtype.kind == "V":
        return [item.tobytes().rstrip(b"\0") for item in array.reshape(-1)]
    return [_text(item) for item in array.reshape(-1).tolist()]


class OrtValue(Handle):
    """A value. Its memory is that of the data from which it was created, or the runtime's."""

    RELEASE = "ReleaseValue"
    __slots__ = ("keep", "__weakref__")

    def __init__(self, handle: int, keep: Any = None):
        super().__init__(handle)
        self.keep = keep

    # ------------------------------------------------------------ creation
    @staticmethod
    def of_array(array: np.ndarray, element: Optional[int] = None) -> "OrtValue":
        """A tensor over the memory of an array, which is copied if it is not contiguous."""
        number = element_number(array.dtype) if element is None else element
        if number == STRING:
            return OrtValue._of_strings(array)
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        shape = array.shape
        if not (array.flags.c_contiguous and array.flags.aligned):
            array = array.copy()
        handle = out(api.CreateTensorWithDataAsOrtValue, cpu_memory, array.ctypes.data, array.nbytes, _dims(shape),
                     len(shape), number)
        return OrtValue(handle, array)

    @staticmethod
    def _of_strings(array: np.ndarray) -> "OrtValue":
        value = OrtValue(out(api.CreateTensorAsOrtValue, allocator, _dims(array.shape), array.ndim, STRING))
        texts = _texts(array)
        api.FillStringTensor(value.handle, strings(texts), len(texts))
        return value

    @staticmethod
    def of_items(kind: int, items: Sequence["OrtValue"]) -> "OrtValue":
        """A sequence of values, or a map of two tensors."""
        return OrtValue(out(api.CreateValue, handles(items), len(items), kind), list(items))

    @staticmethod
    def ortvalue_from_numpy(array: np.ndarray, device: OrtDevice) -> "OrtValue":
        check_host(device)
        if not isinstance(array, np.ndarray):
            raise RuntimeError("ortvalue_from_numpy(): the data must be a numpy array")
        return OrtValue.of_array(array)

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(array: np.ndarray, onnx_element_type: int) -> "OrtValue":
        number = element_number(onnx_element_type)
        if numpy_type(number).itemsize != array.dtype.itemsize:
            raise RuntimeError(f"the elements of an array of {array.dtype} do not have the size of {NAMES[number]}")
        return OrtValue.of_array(array, number)

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any, device: OrtDevice) -> "OrtValue":
        check_host(device)
        number = element_number(element_type)
        if number == STRING:
            raise RuntimeError("Creation of OrtValues is currently only supported from non-string element types")
        return OrtValue(out(api.CreateTensorAsOrtValue, allocator, _dims(shape), len(shape), number))

    ortvalue_from_shape_and_onnx_type = ortvalue_from_shape_and_type

    @staticmethod
    def ort_value_from_sparse_tensor(tensor: "SparseTensor") -> "OrtValue":
        return tensor.value

    @staticmethod
    def from_dlpack(capsule: Any, is_bool_tensor: bool = False) -> "OrtValue":
        array = np.from_dlpack(_Capsule(capsule))
        return OrtValue.of_array(array.view(np.bool_) if is_bool_tensor else array)

    # ------------------------------------------------------------ facts
    def kind(self) -> int:
        return out_int(api.GetValueType, self.handle)

    def _tensor(self):
        """(number of the element type, shape) of a tensor."""
        number, dims, rank = c_int(), ctypes.POINTER(c_int64)(), c_size_t()
        api.GetTensorElementTypeAndShapeDataReference(self.handle, byref(number), byref(dims), byref(rank))
        return number.value, tuple(dims[:rank.value])

    def _needs_tensor(self):
        if self.kind() != TENSOR:
            raise RuntimeError("Only OrtValues that are Tensors are currently supported")

    def type_of(self) -> Type:
        kind = self.kind()
        if kind == TENSOR:
            return Type(kind, *self._tensor())
        if kind == SPARSE:
            return Type(kind, SparseTensor(self).element)
        items = self.items()
        if kind == MAP:
            return Type(kind, key=items[0]._tensor()[0], inner=items[1].type_of())
        return Type(kind, inner=items[0].type_of() if items else Type(TENSOR))

    def shape(self) -> List[int]:
        return SparseTensor(self).dense_shape() if self.is_sparse_tensor() else list(self._tensor()[1])

    def data_type(self) -> str:
        return str(self.type_of())

    def element_type(self) -> int:
        return self.type_of().element

    def data_ptr(self) -> int:
        self._needs_tensor()
        return out(api.GetTensorMutableData, self.handle)

    def tensor_size_in_bytes(self) -> int:
        return out(api.GetTensorSizeInBytes, self.handle)

    def device_name(self) -> str:
        return "Cpu"

    def has_value(self) -> bool:
        return out_int(api.HasValue, self.handle) != 0

    def is_tensor(self) -> bool:
        return self.kind() == TENSOR

    def is_tensor_sequence(self) -> bool:
        return self.kind() == SEQUENCE

    def is_sparse_tensor(self) -> bool:
        return out_int(api.IsSparseTensor, self.handle) != 0

    def items(self) -> List["OrtValue"]:
        """The elements of a sequence, or the keys and values of a map."""
        count = out(api.GetValueCount, self.handle)
        return [OrtValue(out(api.GetValue, self.handle, i, allocator), self) for i in range(count)]

    def as_sparse_tensor(self) -> "SparseTensor":
        if not self.is_sparse_tensor():
            raise RuntimeError("This OrtValue does not contain a sparse tensor")
        return SparseTensor(self)

    # ------------------------------------------------------------ contents
    def numpy(self) -> np.ndarray:
        """An array over the memory of a tensor; a new array of strings."""
        self._needs_tensor()
        number, shape = self._tensor()
        if number == STRING:
            return read_strings(self.handle, shape)
        return array_over(self, out(api.GetTensorMutableData, self.handle), shape, numpy_type(number))

    def to_python(self) -> Any:
        """An array, a list, a dict, a SparseTensor, or None for an empty optional."""
        kind = self.kind()
        if kind == TENSOR:
            return self.numpy()
        if kind == SPARSE:
            return SparseTensor(self)
        if kind == MAP:
            return dict(zip(*(item.numpy().tolist() for item in self.items())))
        return [item.to_python() for item in self.items()]

    def update_inplace(self, data: Any) -> None:
        source = data.numpy() if isinstance(data, OrtValue) else data
        number, shape = self._tensor()
        if number == STRING:
            raise RuntimeError("Inplace update of OrtValues is currently only supported for OrtValues with contiguous "
                               "memory; this one has strings")
        if tuple(source.shape) != shape or element_number(source.dtype) != number:
            raise RuntimeError(f"The input data is {source.dtype}{list(source.shape)}, which does not match the tensor: "
                               f"{NAMES[number]}{list(shape)}")
        self.numpy()[...] = source

    def to_dlpack(self) -> Any:
        array = self.numpy()
        return (array.view(np.uint8) if array.dtype == np.bool_ else array).__dlpack__()

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        return self.to_dlpack()

    def __dlpack_device__(self):
        return (1, 0)


class OrtValueVector(list):
    """A list of values."""

    def shapes(self) -> List[List[int]]:
        return [value.shape() for value in self]

    def to_dlpacks(self, convert: Any) -> List[Any]:
        return [convert(value.to_dlpack()) if convert else value.to_dlpack() for value in self]

    def bool_tensor_indices(self) -> List[int]:
        return [i for i, value in enumerate(self) if value.element_type() == BOOL]

    def push_back(self, value: Any, is_bool_tensor: bool = False) -> None:
        """Appends a value, or the tensor of a DLPack capsule."""
        self.append(value if isinstance(value, OrtValue) else OrtValue.from_dlpack(value, is_bool_tensor))

    def reserve(self, _: int) -> None:
        """Does nothing: lists grow as needed."""


def read_strings(handle: int, shape) -> np.ndarray:
    """The strings of a tensor as an array of objects."""
    array = np.empty(shape, object)
    bytes_ = out(api.GetStringTensorDataLength, handle)
    buffer, offsets = ctypes.create_string_buffer(max(bytes_, 1)), (c_size_t * max(array.size, 1))()
    api.GetStringTensorContent(handle, buffer, bytes_, offsets, array.size)
    ends = list(offsets[1:array.size]) + [bytes_]
    flat = array.reshape(-1)
    for i in range(array.size):
        flat[i] = buffer.raw[offsets[i]:ends[i]].decode("utf-8", "surrogateescape")
    return flat.reshape(shape)


class SparseTensor:
    """A sparse tensor with indices in COO or CSR format."""

    __slots__ = ("value",)

    def __init__(self, value: OrtValue):
        self.value = value

    @staticmethod
    def _create(dense_shape, values, device):
        check_host(device)
        values = np.ascontiguousarray(values)
        number = element_number(values.dtype)
        dims = _dims(dense_shape)
        if number == STRING:
            handle = out(api.CreateSparseTensorAsOrtValue, allocator, dims, len(dense_shape), number)
            texts = _texts(values)
            return OrtValue(handle), values, strings(texts)
        handle = out(api.CreateSparseTensorWithValuesAsOrtValue, cpu_memory, values.ctypes.data, dims, len(dense_shape),
                     _dims(values.shape), values.ndim, number)
        return OrtValue(handle), values, None

    @classmethod
    def sparse_coo_from_numpy(cls, dense_shape, values, coo_indices, device: OrtDevice) -> "SparseTensor":
        value, values, texts = cls._create(dense_shape, values, device)
        indices = np.ascontiguousarray(coo_indices, np.int64)
        if texts is None:
            api.UseCooIndices(value.handle, indices.ctypes.data, indices.size)
        else:
            api.FillSparseTensorCoo(value.handle, cpu_memory, _dims(values.shape), values.ndim, texts,
                                    indices.ctypes.data, indices.size)
        value.keep = (values, indices)
        return cls(value)

    @classmethod
    def sparse_csr_from_numpy(cls, dense_shape, values, inner_indices, outer_indices,
                              device: OrtDevice) -> "SparseTensor":
        value, values, texts = cls._create(dense_shape, values, device)
        inner, outer = (np.ascontiguousarray(part, np.int64) for part in (inner_indices, outer_indices))
        if texts is None:
            api.UseCsrIndices(value.handle, inner.ctypes.data, inner.size, outer.ctypes.data, outer.size)
        else:
            api.FillSparseTensorCsr(value.handle, cpu_memory, _dims(values.shape), values.ndim, texts,
                                    inner.ctypes.data, inner.size, outer.ctypes.data, outer.size)
        value.keep = (values, inner, outer)
        return cls(value)

    def _info(self, function, *arguments):
        info = out(function, self.value.handle, *arguments)
        try:
            return out_int(api.GetTensorElementType, info), dims_of(info)
        finally:
            api.ReleaseTensorTypeAndShapeInfo(info)

    @property
    def element(self) -> int:
        return self._info(api.GetTensorTypeAndShape)[0]

    @property
    def format(self) -> OrtSparseFormat:
        return OrtSparseFormat(out_int(api.GetSparseTensorFormat, self.value.handle))

    def dense_shape(self) -> List[int]:
        return list(self._info(api.GetTensorTypeAndShape)[1])

    def data_type(self) -> str:
        return f"sparse_tensor({NAMES[self.element]})"

    def device_name(self) -> str:
        return "Cpu"

    def values(self) -> np.ndarray:
        number, shape = self._info(api.GetSparseTensorValuesTypeAndShape)
        if number == STRING:
            return self.value.keep[0].astype(object)  # the interface has no reader for strings of sparse tensors
        address = out(api.GetSparseTensorValues, self.value.handle)
        return array_over(self, address, shape, numpy_type(number), read_only=True)

    def indices(self, kind: int) -> np.ndarray:
        """The indices of a number of OrtSparseIndicesFormat."""
        _, shape = self._info(api.GetSparseTensorIndicesTypeShape, kind)
        count, address = c_size_t(), c_void_p()
        api.GetSparseTensorIndices(self.value.handle, kind, byref(count), byref(address))
        return array_over(self, address.value, shape, np.dtype(np.int64), read_only=True)

    def _view(self, wanted, view):
        if self.format != wanted:
            raise RuntimeError(f"This sparse tensor does not contain {wanted.name[len('ORT_SPARSE_'):]} format")
        return view(self)

    def get_coo_data(self) -> "SparseCooView":
        return self._view(OrtSparseFormat.ORT_SPARSE_COO, SparseCooView)

    def get_csrc_data(self) -> "SparseCsrView":
        return self._view(OrtSparseFormat.ORT_SPARSE_CSRC, SparseCsrView)

    def get_blocksparse_data(self) -> "SparseBlockSparseView":
        return self._view(OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE, SparseBlockSparseView)

    def to_cuda(self, _: OrtDevice) -> "SparseTensor":
        raise RuntimeError("Cuda is not available in this build")


class SparseCooView:
    """Indices of a tensor in COO format."""

    def __init__(self, tensor: SparseTensor):
        self._tensor = tensor

    def indices(self) -> np.ndarray:
        return self._tensor.indices(0)


class SparseCsrView:
    """Indices of a tensor in CSR format."""

    def __init__(self, tensor: SparseTensor):
        self._tensor = tensor

    def inner(self) -> np.ndarray:
        return self._tensor.indices(1)

    def outer(self) -> np.ndarray:
        return self._tensor.indices(2)


class SparseBlockSparseView:
    """Indices of a tensor in block sparse format."""

    def __init__(self, tensor: SparseTensor):
        self._tensor = tensor

    def indices(self) -> np.ndarray:
        return self._tensor.indices(3)


# ---------------------------------------------------------------- from Python
def _array(data: Any, wanted: Type) -> np.ndarray:
    """The array of an input for a tensor: lists take the type of the input."""
    if isinstance(data, np.ndarray):
        return data
    if isinstance(data, (np.generic, list, tuple, int, float, bool, complex, str, bytes)):
        dtype = None if isinstance(data, np.generic) else numpy_type(wanted.element)
        return np.asarray(data, dtype)
    if hasattr(data, "__array__") and not hasattr(data, "__dlpack__"):
        return np.asarray(data)
    raise RuntimeError(f"Unable to handle object of type {type(data)}")


def _of_map(data: Mapping, wanted: Type) -> OrtValue:
    keys = np.array(list(data.keys()), numpy_type(wanted.key))
    values = np.array(list(data.values()), numpy_type(wanted.inner.element))
    return OrtValue.of_items(MAP, [OrtValue.of_array(keys, wanted.key),
                                   OrtValue.of_array(values, wanted.inner.element)])


def of_python(name: str, data: Any, wanted: Type) -> Optional[OrtValue]:
    """The value of an input; None for an empty optional, which is not passed to a run."""
    if isinstance(data, OrtValue):
        return data
    inner = getattr(data, "_ortvalue", None) or getattr(data, "_tensor", None) or data
    if isinstance(inner, (OrtValue, SparseTensor)):
        return inner if isinstance(inner, OrtValue) else inner.value
    if wanted.kind == OPTIONAL:
        return None if data is None else of_python(name, data, wanted.inner)
    if wanted.kind == SEQUENCE:
        if not isinstance(data, (list, tuple)):
            raise error(1, f"input '{name}' is a sequence, {wanted}: a list is expected, not {type(data).__name__}")
        return OrtValue.of_items(SEQUENCE, [of_python(name, item, wanted.inner) for item in data])
    if wanted.kind == MAP:
        if not isinstance(data, Mapping):
            raise error(1, f"input '{name}' is a map, {wanted}: a dict is expected, not {type(data).__name__}")
        return _of_map(data, wanted)
    return OrtValue.of_array(_array(data, wanted))
