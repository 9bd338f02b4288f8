"""ONNX Runtime's Python interface on top of inlay: ``from inlay.compat import onnxruntime as ort``.

It provides the names that programs commonly use: InferenceSession, SessionOptions, RunOptions, OrtValue, IOBinding and
the exceptions. Settings with a counterpart have an effect (threads, optimisation level, profiling, dimensions of the
model); others are stored and logged once. Provider names such as CPUExecutionProvider leave the choice to inlay; names
of inlay's providers ("cpu") select these."""
import json
import logging
import os
import re
import tempfile
import threading
import time
from enum import IntEnum
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

import inlay
from inlay.values import DTYPES, Value

log = logging.getLogger("inlay")
__version__ = "1.16.0+inlay"  # the version of ONNX Runtime whose interface this is

# ---------------------------------------------------------------- exceptions, with ONNX Runtime's names
Fail = inlay.InternalError
InvalidArgument = inlay.InvalidArgument
NoSuchFile = inlay.NotFound
NoModel = inlay.NotFound
InvalidProtobuf = inlay.InvalidModel
InvalidGraph = inlay.InvalidModel
NotImplemented = inlay.Unsupported  # noqa: A001
RuntimeException = inlay.InlayError
OrtInvalidValue = inlay.InvalidArgument


class GraphOptimizationLevel(IntEnum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


_logged = set()


def _log_ignored(what: str) -> None:
    if what not in _logged:
        _logged.add(what)
        log.info("%s of ONNX Runtime has no counterpart in inlay and is ignored", what)


class SessionOptions:
    """Settings of a session. 0 threads: as many as there are cores. Config entries with the name of an option of inlay,
    with or without the prefix "inlay.", set that option."""

    def __init__(self):
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.enable_profiling = False
        self.profile_file_prefix = "onnxruntime_profile_"
        self.optimized_model_filepath = ""
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self.enable_mem_pattern = True
        self.enable_cpu_mem_arena = True
        self.enable_mem_reuse = True
        self.use_deterministic_compute = False
        self._entries: Dict[str, str] = {}
        self._dims: Dict[str, int] = {}

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        if key not in self._entries:
            raise InvalidArgument(f"no session config entry '{key}'")
        return self._entries[key]

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        self._dims[name] = value

    def register_custom_ops_library(self, path: str) -> None:
            raise NotImplemented(f"{path}: libraries of custom operators for ONNX Runtime are not supported; inlay "
                                 "loads plugins from the folders of the option plugin_dirs")

    def _settings(self) -> Dict[str, Any]:
        out: Dict[str, Any] = {"level": int(self.graph_optimization_level)}
        if self.intra_op_num_threads > 0:
            out["intra_threads"] = self.intra_op_num_threads
        if self._dims:
            out["dim"] = {name + "?": value for name, value in self._dims.items()}  # "?": the model may lack it
        known = inlay.options()
        for key, value in self._entries.items():
            name = key[len("inlay."):] if key.startswith("inlay.") else key
            if name in known:
                out[name] = value
            elif key != "session.save_model_format":  # used in _save_optimized
                _log_ignored(f"the session config entry {key}")
        if self.execution_mode == ExecutionMode.ORT_PARALLEL:
            _log_ignored("ORT_PARALLEL")
        return out


class RunOptions:
    """Options of one run; ``terminate = True`` from another thread stops it."""

    def __init__(self):
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self._cancel = inlay.Cancel()

    @property
    def terminate(self) -> bool:
        return self._cancel.is_set()

    @terminate.setter
    def terminate(self, on: bool) -> None:
        if on:
            self._cancel.set()
        else:
            self._cancel.clear()

    def add_run_config_entry(self, key: str, _: str) -> None:
        _log_ignored(f"the run config entry {key}")


class NodeArg:
    """An input or output."""

    def __init__(self, info: inlay.Info):
        inner = f"sparse_tensor({info.dtype})" if info.sparse else f"tensor({info.dtype})"
        inner = f"map({info.key_dtype},{inner})" if info.key_dtype else inner
        self.name = info.name
        self.type = {"sequence": f"seq({inner})", "optional": f"optional({inner})"}.get(info.kind, inner)
        # inlay names an axis "X[0]" if the file gives it no name
        self.shape = [None if isinstance(size, str) and re.search(r"\[\d+\]", size) else size
                      for size in info.shape or ()]

    def __repr__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


class ModelMetadata:
    """Metadata of a model."""

    def __init__(self, model: inlay.Model):
        self.producer_name = model.producer_name
        self.graph_name = model.graph_name
        self.graph_description = ""
        self.description = model.doc
        self.domain = model.domain
        self.version = model.version
        self.custom_metadata_map = dict(model.metadata)


def _check_device(device_type: str) -> None:
    if device_type != "cpu":
        raise NotImplemented(f"tensors must be in host memory, not on '{device_type}'")


class OrtValue:
    """A value that stays in its memory between runs."""

    def __init__(self, value: Value):
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(array: np.ndarray, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        _check_device(device_type)
        return OrtValue(Value.of(array))

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any, device_type: str = "cpu",
                                     device_id: int = 0) -> "OrtValue":
        _check_device(device_type)
        return OrtValue(Value.of(np.zeros(shape, element_type)))

    @staticmethod
    def from_dlpack(data: Any, is_bool_tensor: bool = False) -> "OrtValue":
        value = Value.of(data)
        return OrtValue(Value.of(value.numpy().view(np.bool_)) if is_bool_tensor else value)

    def to_dlpack(self) -> Any:
        return self._value.__dlpack__()

    def __dlpack__(self, **how: Any) -> Any:
        return self._value.__dlpack__(**how)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self._value.__dlpack_device__()

    def numpy(self) -> Any:
        return self._value.to_python()

    def shape(self) -> List[int]:
        return list(self._value.shape)

    def data_type(self) -> str:
        return f"tensor({self._value.dtype})"

    def element_type(self) -> int:
        return next(number for number, (name, _, _) in DTYPES.items() if name == self._value.dtype)

    def data_ptr(self) -> int:
        return self._value.numpy().ctypes.data

    def device_name(self) -> str:
        return "cpu"

    def has_value(self) -> bool:
        return self._value.kind != "optional" or len(self._value) > 0

    def is_tensor(self) -> bool:
        return self._value.kind == "tensor"

    def is_tensor_sequence(self) -> bool:
        return self._value.kind == "sequence"

    def is_sparse_tensor(self) -> bool:
        return False

    def update_inplace(self, array: np.ndarray) -> None:
        own = self._value.numpy()
        if own.shape != array.shape or own.dtype != array.dtype:
            raise InvalidArgument(f"the tensor is {own.dtype}{list(own.shape)}, not {array.dtype}{list(array.shape)}")
        own[...] = array


class _Over:
    """An object from which numpy creates an array over memory at an address."""

    def __init__(self, device_type, element_type, shape, address):
        _check_device(device_type)
        self.__array_interface__ = {"version": 3, "shape": tuple(shape), "typestr": np.dtype(element_type).str,
                                    "data": (address, False)}


class IOBinding:
    """Inputs and outputs that are bound once for many runs."""

    def __init__(self, session: "InferenceSession"):
        self._session = session
        self._inputs: Dict[str, Any] = {}
        self._outputs: Dict[str, Any] = {}
        self._results: Dict[str, OrtValue] = {}

    def bind_cpu_input(self, name: str, array: np.ndarray) -> None:
        self._inputs[name] = array

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        self._inputs[name] = value._value

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int],
                   buffer_ptr: int) -> None:
        self._inputs[name] = np.asarray(_Over(device_type, element_type, shape, buffer_ptr))

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Optional[Sequence[int]] = None, buffer_ptr: Optional[int] = None) -> None:
        _check_device(device_type)
        self._outputs[name] = None if buffer_ptr is None else np.asarray(_Over(device_type, element_type, shape,
                                                                               buffer_ptr))

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        self._outputs[name] = value._value

    def synchronize_inputs(self) -> None:
        """Does nothing: tensors are in host memory."""

    synchronize_outputs = synchronize_inputs

    def get_outputs(self) -> List[OrtValue]:
        return [self._results[name] for name in self._outputs]

    def copy_outputs_to_cpu(self) -> List[Any]:
        return [value.numpy() for value in self.get_outputs()]

    def clear_binding_inputs(self) -> None:
        self._inputs = {}

    def clear_binding_outputs(self) -> None:
        self._outputs, self._results = {}, {}


def get_available_providers() -> List[str]:
    return ["CPUExecutionProvider"]


get_all_providers = get_available_providers


def get_device() -> str:
    return "CPU"


def set_default_logger_severity(level: int) -> None:
    log.setLevel((logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)[max(0, min(level, 4))])


def disable_telemetry_events() -> None:
    """Does nothing: inlay sends no telemetry."""


def _texts(info: inlay.Info, data: Any) -> Any:
    """Converts objects in an input of strings (such as a NaN in data of pandas) with str(), as ONNX Runtime does."""
    if info.kind != "tensor" or info.dtype != "string" or not isinstance(data, (np.ndarray, list, tuple)):
        return data
    array = np.asarray(data, None if isinstance(data, np.ndarray) else object)
    if array.dtype.kind != "O":
        return data
    texts = np.empty(array.size, object)
    texts[:] = [item if isinstance(item, (str, bytes)) else str(item) for item in array.reshape(-1).tolist()]
    return texts.reshape(array.shape)


class InferenceSession:
    """A model that runs on inlay."""

    def __init__(self, path_or_bytes: Union[str, bytes, os.PathLike], sess_options: Optional[SessionOptions] = None,
                 providers: Optional[Sequence[Any]] = None, provider_options: Optional[Sequence[Mapping]] = None,
                 **_: Any):
        self._options = sess_options or SessionOptions()
        names: List[str] = []
        own: Dict[str, Mapping] = {}
        for i, provider in enumerate(providers or []):
            name, values = provider if isinstance(provider, tuple) else (provider, {})
            if provider_options is not None and i < len(provider_options):
                values = {**values, **provider_options[i]}
            if not name.endswith("ExecutionProvider"):
                names.append(name)
                own[name] = values
            elif name != "CPUExecutionProvider":
                _log_ignored(name)
        settings = {"providers": names or None, "provider_options": own, **self._options._settings()}
        self._session = inlay.Session(path_or_bytes, **settings)
        self._events: Optional[List[Any]] = [] if self._options.enable_profiling else None
        if self._options.optimized_model_filepath:
            self._save_optimized(path_or_bytes, settings)

    def _save_optimized(self, path_or_bytes, settings):
        out = os.fspath(self._options.optimized_model_filepath)
        default = "ORT" if out.endswith(".ort") else "ONNX"
        model_format = self._options._entries.get("session.save_model_format", default)
        if model_format != "ONNX":
            raise NotImplemented(f"{out}: inlay writes the optimised model in the format ONNX, not {model_format}; use "
                                 "a file name that does not end in .ort, and do not set session.save_model_format")
        if not isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
            inlay.optimize(path_or_bytes, out, **settings)
            return
        with tempfile.NamedTemporaryFile(suffix=".onnx") as f:
            f.write(path_or_bytes)
            f.flush()
            inlay.optimize(f.name, out, **settings)

    # ------------------------------------------------------------ information
    def get_inputs(self) -> List[NodeArg]:
        return [NodeArg(info) for info in self._session.inputs if not info.optional]

    def get_overridable_initializers(self) -> List[NodeArg]:
        return [NodeArg(info) for info in self._session.inputs if info.optional]

    def get_outputs(self) -> List[NodeArg]:
        return [NodeArg(info) for info in self._session.outputs]

    def get_modelmeta(self) -> ModelMetadata:
        return ModelMetadata(self._session.model)

    def get_providers(self) -> List[str]:
        return ["CPUExecutionProvider"]

    def get_provider_options(self) -> Dict[str, Dict[str, str]]:
        return {"CPUExecutionProvider": {}}

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        _log_ignored("set_providers")

    def get_session_options(self) -> SessionOptions:
        return self._options

    # ------------------------------------------------------------ runs
    def _run(self, input_feed, run_options, outputs=None):
        session = self._session
        feed = {name: data._value if isinstance(data, OrtValue) else data for name, data in input_feed.items()}
        feed.update({info.name: _texts(info, feed[info.name]) for info in session.inputs if info.name in feed})
        missing = [info.name for info in session.inputs
                   if not info.optional and info.kind != "optional" and info.name not in feed]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(feed)}).")
        cancel = run_options._cancel if run_options is not None else None
        with session.borrow_context() as context:
            if self._events is None:
                return context.run(feed, outputs, cancel=cancel)
            with context.profile() as profiling:
                results = context.run(feed, outputs, cancel=cancel)
            trace = profiling.profile.trace
            self._events += trace["traceEvents"] if isinstance(trace, dict) else trace
            return results

    def _names(self, output_names):
        known = [output.name for output in self._session.outputs]
        for name in output_names or []:
            if name not in known:
                raise InvalidArgument(f"the model has no output '{name}'; its outputs are {', '.join(known)}")
        return list(output_names) if output_names else known

    def run(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any],
            run_options: Optional[RunOptions] = None) -> List[Any]:
        names = self._names(output_names)
        results = self._run(input_feed, run_options)
        return [results[name].to_python() for name in names]

    def run_with_ort_values(self, output_names: Optional[Sequence[str]], input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: Optional[RunOptions] = None) -> List[OrtValue]:
        names = self._names(output_names)
        results = self._run(input_dict_ort_values, run_options)
        return [OrtValue(results[name]) for name in names]

    def run_async(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any], callback: Any,
                  user_data: Any, run_options: Optional[RunOptions] = None) -> None:
        """callback(results, user_data, error) is called on another thread."""
        def work():
            try:
                results, error = self.run(output_names, input_feed, run_options), ""
            except Exception as failure:  # passed to the callback
                results, error = [], str(failure)
            callback(results, user_data, error)

        threading.Thread(target=work, daemon=True).start()

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Optional[RunOptions] = None) -> None:
        outputs = {name: data for name, data in iobinding._outputs.items() if data is not None}
        results = self._run(iobinding._inputs, run_options, outputs)
        iobinding._results = {name: OrtValue(results[name]) for name in iobinding._outputs}

    def end_profiling(self) -> str:
        """Writes the Chrome trace events of the runs so far; returns the name of the file."""
        if self._events is None:
            return ""
        path = f"{self._options.profile_file_prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        with open(path, "w", encoding="utf-8") as f:
            json.dump(self._events, f)
        self._events = []
        return path
