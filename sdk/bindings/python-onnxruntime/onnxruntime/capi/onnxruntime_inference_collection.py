"""The classes of ONNX Runtime's Python interface: sessions, values and bindings."""
import collections.abc
import os
import warnings
from enum import IntEnum
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import onnxruntime_pybind11_state as C
from .onnxruntime_pybind11_state import AdapterFormat, ModelCompiler  # noqa: F401


class OrtDeviceVendorId(IntEnum):
    """PCI numbers of vendors."""
    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


_VENDORS = {"cuda": OrtDeviceVendorId.NVIDIA, "dml": OrtDeviceVendorId.MICROSOFT, "cann": OrtDeviceVendorId.HUAWEI}


def get_ort_device_type(device_type: str) -> int:
    """The number of a device type."""
    if device_type not in ("cpu", "cuda", "cann", "dml", "webgpu", "gpu", "npu"):
        raise Exception("Unsupported device type: " + device_type)
    return getattr(C.OrtDevice, device_type)()


def get_vendor_id_for_device_type(device_type: str) -> Optional[OrtDeviceVendorId]:
    """The vendor of devices that only one vendor makes."""
    return _VENDORS.get(device_type)


def check_and_normalize_provider_args(providers: Optional[Sequence], provider_options: Optional[Sequence],
                                      available_provider_names: Sequence[str]) -> Tuple[List[str], List[Dict]]:
    """Names and options of providers, as two lists of the same length. Options are texts. A provider that is not
    available, or comes twice, is a warning; arguments of other forms are a ValueError."""
    if providers is None:
        return [], []
    if not isinstance(providers, collections.abc.Sequence):
        raise ValueError("'providers' should be a sequence.")
    pairs = []
    if provider_options is not None:
        if not isinstance(provider_options, collections.abc.Sequence):
            raise ValueError("'provider_options' should be a sequence.")
        if len(providers) != len(provider_options):
            raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
        if not all(isinstance(name, str) for name in providers):
            raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
        if not all(isinstance(options, dict) for options in provider_options):
            raise ValueError("'provider_options' values must be dicts.")
        pairs = list(zip(providers, provider_options))
    else:
        for entry in providers:
            pair = (entry, {}) if isinstance(entry, str) else entry
            if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
                    and isinstance(pair[1], dict)):
                raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
            pairs.append(pair)
    chosen: Dict[str, Dict[str, str]] = {}
    for name, options in pairs:
        if name not in available_provider_names:
            warnings.warn(f"Specified provider '{name}' is not in available provider names.Available providers: "
                          f"'{', '.join(available_provider_names)}'", stacklevel=4)
        if name in chosen:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=4)
            continue
        chosen[name] = {str(key): str(value) for key, value in options.items()}
    return list(chosen), list(chosen.values())


class Session:
    """What all sessions have."""

    def __init__(self, enable_fallback: bool = True):
        self._sess: Any = None
        self._enable_fallback = enable_fallback

    # ------------------------------------------------------------ information
    def get_session_options(self) -> C.SessionOptions:
        return self._sess_options

    def get_inputs(self) -> Sequence[C.NodeArg]:
        return self._inputs_meta

    def get_outputs(self) -> Sequence[C.NodeArg]:
        return self._outputs_meta

    def get_overridable_initializers(self) -> Sequence[C.NodeArg]:
        return self._overridable_initializers

    def get_modelmeta(self) -> C.ModelMetadata:
        return self._model_meta

    def get_input_memory_infos(self) -> Sequence[C.OrtMemoryInfo]:
        return self._sess.input_meminfos

    def get_output_memory_infos(self) -> Sequence[C.OrtMemoryInfo]:
        return self._sess.output_meminfos

    def get_input_epdevices(self) -> Sequence[C.OrtEpDevice]:
        return self._sess.input_epdevices

    def get_providers(self) -> Sequence[str]:
        return self._providers

    def get_provider_options(self) -> Dict[str, Dict[str, str]]:
        return self._provider_options

    def get_provider_graph_assignment_info(self) -> Sequence[C.OrtEpAssignedSubgraph]:
        return self._sess.get_provider_graph_assignment_info()

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Opens the session again with other providers."""
        self._sess_options = self._sess_options_initial
        self._create_inference_session(providers, provider_options)

    def disable_fallback(self) -> None:
        self._enable_fallback = False

    def enable_fallback(self) -> None:
        self._enable_fallback = True

    # ------------------------------------------------------------ runs
    def _validate_input(self, feed: Mapping[str, Any]) -> None:
        for name in self._required:
            if name not in feed:
                missing = [name for name in self._required if name not in feed]
                raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(feed)}).")

    def _names(self, output_names: Optional[Sequence[str]]) -> Sequence[str]:
        return output_names if output_names else self._output_names

    def _with_fallback(self, method: str, *arguments: Any) -> Any:
        try:
            return getattr(self._sess, method)(*arguments)
        except C.EPFail as failure:
            if not self._enable_fallback:
                raise
            print(f"EP Error: {failure!s} using {self._providers}")
            print(f"Falling back to {self._fallback_providers} and retrying.")
            self.set_providers(self._fallback_providers)
            self.disable_fallback()  # fall back once
            return getattr(self._sess, method)(*arguments)

    def run(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any],
            run_options: Optional[C.RunOptions] = None) -> List[Any]:
        """Runs the model. Returns the named outputs, or all of them, as arrays, lists, dicts or sparse tensors."""
        self._validate_input(input_feed)
        return self._with_fallback("run", self._names(output_names), input_feed, run_options)

    def run_async(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any], callback: Any,
                  user_data: Any, run_options: Optional[C.RunOptions] = None) -> None:
        """Runs the model on another thread, which calls callback(results, user_data, error)."""
        self._validate_input(input_feed)
        self._sess.run_async(self._names(output_names), input_feed, callback, user_data, run_options)

    def run_with_ort_values(self, output_names: Optional[Sequence[str]],
                            input_dict_ort_values: Mapping[str, "OrtValue"],
                            run_options: Optional[C.RunOptions] = None) -> List["OrtValue"]:
        """Runs the model with values; returns values."""
        self._validate_input(input_dict_ort_values)
        feed = {name: value._get_c_value() for name, value in input_dict_ort_values.items()}
        results = self._with_fallback("run_with_ort_values", feed, self._names(output_names), run_options)
        return [OrtValue(value) for value in results]

    def run_with_iobinding(self, iobinding: "IOBinding", run_options: Optional[C.RunOptions] = None) -> None:
        self._sess.run_with_iobinding(iobinding._iobinding, run_options)

    def run_with_ortvaluevector(self, run_options, feed_names, feeds, fetch_names, fetches, fetch_devices) -> None:
        self._sess.run_with_ortvaluevector(run_options, feed_names, feeds, fetch_names, fetches, fetch_devices)

    def io_binding(self) -> "IOBinding":
        return IOBinding(self)

    def end_profiling(self) -> str:
        """Ends profiling; returns the name of the file with the results."""
        return self._sess.end_profiling()

    def get_profiling_start_time_ns(self) -> int:
        """The start of profiling on the clock of time.monotonic_ns()."""
        return self._sess.get_profiling_start_time_ns

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        self._sess.set_ep_dynamic_options(options)

    def get_tuning_results(self) -> List[Dict[str, Any]]:
        return self._sess.get_tuning_results()

    def set_tuning_results(self, results: Sequence[Mapping], *, error_on_invalid: bool = False) -> None:
        self._sess.set_tuning_results(results, error_on_invalid)


class InferenceSession(Session):
    """A model that runs on inlay.

    path_or_bytes: the file, or its contents. providers: names, or pairs of a name and its options. ONNX Runtime's
    CPUExecutionProvider leaves the choice to inlay; its other names are a warning; inlay's names ("reference") select
    providers of inlay. enable_fallback=0: an error in opening the session with these providers is raised at once."""

    def __init__(self, path_or_bytes: Union[str, bytes, os.PathLike], sess_options: Optional[C.SessionOptions] = None,
                 providers: Optional[Sequence[Any]] = None, provider_options: Optional[Sequence[Mapping]] = None,
                 **kwargs: Any):
        super().__init__(enable_fallback=int(kwargs.get("enable_fallback", 1)) == 1)
        if not isinstance(path_or_bytes, (str, bytes, os.PathLike)):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        is_path = not isinstance(path_or_bytes, bytes)
        self._model_path = os.fspath(path_or_bytes) if is_path else None
        self._model_bytes = None if is_path else path_or_bytes
        self._sess_options = self._sess_options_initial = sess_options
        self._read_config_from_model = int(kwargs.get("read_config_from_model",
                                                      os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") == "1")) == 1
        self._fallback_providers = ["CPUExecutionProvider"]
        try:
            self._create_inference_session(providers, provider_options, kwargs.get("disabled_optimizers"))
        except (ValueError, RuntimeError) as failure:
            if not self._enable_fallback:
                raise
            print("*************** EP Error ***************")
            print(f"EP Error {failure} when using {providers}")
            print(f"Falling back to {self._fallback_providers} and retrying.")
            print("****************************************")
            try:
                self._create_inference_session(self._fallback_providers, None)
            except Exception as second:
                raise second from failure
            self.disable_fallback()  # fall back once

    def _create_inference_session(self, providers, provider_options, disabled_optimizers=None) -> None:
        names, settings = check_and_normalize_provider_args(providers, provider_options, C.get_available_providers())
        if {"TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"} <= set(names):
            raise ValueError("Cannot enable both 'TensorrtExecutionProvider' and 'NvTensorRTRTXExecutionProvider' in "
                             "the same session.")
        options = self._sess_options
        if options is not None and names and options.has_providers():
            warnings.warn("Specified 'providers'/'provider_options' when creating InferenceSession but SessionOptions "
                          "has already been configured with providers. InferenceSession will only use the providers "
                          "passed to InferenceSession().", stacklevel=3)
        model = self._model_path if self._model_bytes is None else self._model_bytes
        made = C.InferenceSession(options or C.get_default_session_options(), model, self._model_bytes is None,
                                  self._read_config_from_model)
        made.initialize_session(names, settings, set(disabled_optimizers or ()))
        self._sess, self._sess_options = made, made.session_options
        self._inputs_meta, self._outputs_meta = made.inputs_meta, made.outputs_meta
        self._required = [arg.name for arg in self._inputs_meta if not arg.type.startswith("optional")]
        self._output_names = [output.name for output in self._outputs_meta]
        self._overridable_initializers, self._model_meta = made.overridable_initializers, made.model_meta
        self._providers, self._provider_options = made.get_providers(), made.get_provider_options()


class IOBinding:
    """Inputs and outputs that are bound once for many runs."""

    def __init__(self, session: Session):
        self._iobinding = C.SessionIOBinding(session._sess)

    @staticmethod
    def _device(device_type: str, device_id: int) -> C.OrtDevice:
        return C.OrtDevice(get_ort_device_type(device_type), C.OrtDevice.default_memory(), device_id)

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        self._iobinding.bind_input(name, arr_on_cpu)

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int],
                   buffer_ptr: int) -> None:
        self._iobinding.bind_input(name, self._device(device_type, device_id), element_type, shape, buffer_ptr)

    def bind_ortvalue_input(self, name: str, ortvalue: "OrtValue") -> None:
        self._iobinding.bind_ortvalue_input(name, ortvalue._ortvalue)

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Optional[Sequence[int]] = None, buffer_ptr: Optional[int] = None) -> None:
        """Without buffer_ptr, the runtime allocates the output."""
        if buffer_ptr is None:
            self._iobinding.bind_output(name, self._device(device_type, device_id))
            return
        if element_type is None or shape is None:
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        self._iobinding.bind_output(name, self._device(device_type, device_id), element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: "OrtValue") -> None:
        self._iobinding.bind_ortvalue_output(name, ortvalue._ortvalue)

    def synchronize_inputs(self) -> None:
        self._iobinding.synchronize_inputs()

    def synchronize_outputs(self) -> None:
        self._iobinding.synchronize_outputs()

    def get_outputs(self) -> List["OrtValue"]:
        return [OrtValue(value) for value in self._iobinding.get_outputs()]

    def get_outputs_as_ortvaluevector(self) -> C.OrtValueVector:
        return self._iobinding.get_outputs()

    def copy_outputs_to_cpu(self) -> List[Any]:
        return self._iobinding.copy_outputs_to_cpu()

    def clear_binding_inputs(self) -> None:
        self._iobinding.clear_binding_inputs()

    def clear_binding_outputs(self) -> None:
        self._iobinding.clear_binding_outputs()


class OrtValue:
    """A value that stays in its memory between runs."""

    def __init__(self, ortvalue: C.OrtValue, numpy_obj: Optional[np.ndarray] = None):
        if not isinstance(ortvalue, C.OrtValue):
            raise ValueError("`Provided ortvalue` needs to be of type "
                             "`onnxruntime.capi.onnxruntime_pybind11_state.OrtValue`")
        self._ortvalue, self._numpy_obj = ortvalue, numpy_obj

    def _get_c_value(self) -> C.OrtValue:
        return self._ortvalue

    # ------------------------------------------------------------ creation
    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: np.ndarray, /, device_type: str = "cpu", device_id: int = 0,
                            vendor_id: int = -1) -> "OrtValue":
        """A tensor over the memory of an array."""
        device = OrtDevice.make(device_type, device_id, vendor_id)._get_c_device()
        return cls(C.OrtValue.ortvalue_from_numpy(numpy_obj, device), numpy_obj)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, /, onnx_element_type: int) -> "OrtValue":
        """A tensor over the memory of an array, of an element type of the same size that numpy does not have."""
        return cls(C.OrtValue.ortvalue_from_numpy_with_onnx_type(data, onnx_element_type), data)

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape: Sequence[int], element_type: Any, device_type: str = "cpu",
                                     device_id: int = 0, vendor_id: int = -1,
                                     memory_info: Optional[C.OrtMemoryInfo] = None) -> "OrtValue":
        """A tensor in memory of the runtime. memory_info: takes the place of the device; host memory in any case."""
        device = OrtDevice.make("cpu" if memory_info is not None else device_type, device_id, vendor_id)
        return cls(C.OrtValue.ortvalue_from_shape_and_type(shape, element_type, device._get_c_device()))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: "SparseTensor") -> "OrtValue":
        return cls(C.OrtValue.ort_value_from_sparse_tensor(sparse_tensor._get_c_tensor()))

    @classmethod
    def from_dlpack(cls, data: Any, /) -> "OrtValue":
        """A tensor over the memory of an object with __dlpack__, or of a DLPack capsule. Capsules of bool that are
        encoded as uint8 become uint8, unless the object has a dtype."""
        if isinstance(data, OrtValue):
            is_bool = data.data_type() == "tensor(bool)"
        else:
            dtype = getattr(data, "dtype", None)
            is_bool = getattr(dtype, "name", str(dtype)) in ("bool", "bool_", "torch.bool")
        if is_bool and isinstance(data, np.ndarray):
            return cls(C.OrtValue.of_array(data), data)  # older numpy has no DLPack of bool
        capsule = data.__dlpack__() if hasattr(data, "__dlpack__") else data
        return cls(C.OrtValue.from_dlpack(capsule, is_bool))

    # ------------------------------------------------------------ facts
    def as_sparse_tensor(self) -> "SparseTensor":
        return SparseTensor(self._ortvalue.as_sparse_tensor())

    def data_ptr(self) -> int:
        return self._ortvalue.data_ptr()

    def device_name(self) -> str:
        return self._ortvalue.device_name().lower()

    def shape(self) -> Sequence[int]:
        return self._ortvalue.shape()

    def data_type(self) -> str:
        return self._ortvalue.data_type()

    def element_type(self) -> int:
        return self._ortvalue.element_type()

    def tensor_size_in_bytes(self) -> int:
        return self._ortvalue.tensor_size_in_bytes()

    def has_value(self) -> bool:
        return self._ortvalue.has_value()

    def is_tensor(self) -> bool:
        return self._ortvalue.is_tensor()

    def is_sparse_tensor(self) -> bool:
        return self._ortvalue.is_sparse_tensor()

    def is_tensor_sequence(self) -> bool:
        return self._ortvalue.is_tensor_sequence()

    # ------------------------------------------------------------ contents
    def numpy(self) -> np.ndarray:
        return self._ortvalue.numpy()

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"the tensor is {array.dtype}, not {np.dtype(dtype)}, without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self._ortvalue.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self._ortvalue.__dlpack_device__()

    def update_inplace(self, data: Any) -> None:
        """Copies an array or another value into the memory of this value."""
        if isinstance(data, OrtValue):
            self._ortvalue.update_inplace(data._ortvalue)
        elif isinstance(data, np.ndarray):
            self._ortvalue.update_inplace(data)
        else:
            raise TypeError("data must be a numpy.ndarray or an OrtValue.")


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies the contents of tensors."""
    C.copy_tensors([value._get_c_value() for value in src], [value._get_c_value() for value in dst], stream)


class OrtDevice:
    """A device. inlay's values are in host memory."""

    def __init__(self, c_ort_device: C.OrtDevice):
        if not isinstance(c_ort_device, C.OrtDevice):
            raise ValueError("`Provided object` needs to be of type "
                             "`onnxruntime.capi.onnxruntime_pybind11_state.OrtDevice`")
        self._ort_device = c_ort_device

    def _get_c_device(self) -> C.OrtDevice:
        return self._ort_device

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> "OrtDevice":
        kind, memory = get_ort_device_type(ort_device_name.lower()), C.OrtDevice.default_memory()
        vendor = get_vendor_id_for_device_type(ort_device_name.lower()) if vendor_id < 0 else vendor_id
        return OrtDevice(C.OrtDevice(kind, memory, int(vendor or 0), device_id))

    def device_id(self) -> int:
        return self._ort_device.device_id()

    def device_type(self) -> int:
        return self._ort_device.device_type()

    def device_vendor_id(self) -> int:
        return self._ort_device.vendor_id()

    def device_mem_type(self) -> int:
        return self._ort_device.mem_type()


class SparseTensor:
    """A sparse tensor. Arrays of numbers are shared with it; strings are copied."""

    def __init__(self, sparse_tensor: C.SparseTensor):
        if not isinstance(sparse_tensor, C.SparseTensor):
            raise ValueError("`Provided object` needs to be of type "
                             "`onnxruntime.capi.onnxruntime_pybind11_state.SparseTensor`")
        self._tensor = sparse_tensor

    def _get_c_tensor(self) -> C.SparseTensor:
        return self._tensor

    @classmethod
    def sparse_coo_from_numpy(cls, dense_shape: Sequence[int], values: np.ndarray, coo_indices: np.ndarray,
                              ort_device: OrtDevice) -> "SparseTensor":
        return cls(C.SparseTensor.sparse_coo_from_numpy(dense_shape, values, coo_indices, ort_device._get_c_device()))

    @classmethod
    def sparse_csr_from_numpy(cls, dense_shape: Sequence[int], values: np.ndarray, inner_indices: np.ndarray,
                              outer_indices: np.ndarray, ort_device: OrtDevice) -> "SparseTensor":
        return cls(C.SparseTensor.sparse_csr_from_numpy(dense_shape, values, inner_indices, outer_indices,
                                                        ort_device._get_c_device()))

    def values(self) -> np.ndarray:
        return self._tensor.values()

    def as_coo_view(self) -> C.SparseCooView:
        return self._tensor.get_coo_data()

    def as_csrc_view(self) -> C.SparseCsrView:
        return self._tensor.get_csrc_data()

    def as_blocksparse_view(self) -> C.SparseBlockSparseView:
        return self._tensor.get_blocksparse_data()

    def to_cuda(self, ort_device: OrtDevice) -> "SparseTensor":
        return SparseTensor(self._tensor.to_cuda(ort_device._get_c_device()))

    def format(self) -> C.OrtSparseFormat:
        return self._tensor.format

    def dense_shape(self) -> List[int]:
        return self._tensor.dense_shape()

    def data_type(self) -> str:
        return self._tensor.data_type()

    def device_name(self) -> str:
        return self._tensor.device_name().lower()
