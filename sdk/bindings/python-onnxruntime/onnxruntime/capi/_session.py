"""Sessions and bindings of the C interface."""
import ctypes
import json
import re
import threading
from ctypes import byref, c_int64, c_size_t, c_void_p
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np

from . import _model
from ._devices import OrtEpDevice, assigned_subgraphs
from ._enums import ExecutionMode, GraphOptimizationLevel
from ._errors import error
from ._options import RunOptions, SessionOptions, append_provider
from ._ort import Handle, allocator, api, cpu_memory, encode, env, handles, native, out, strings, take_text
from ._types import STRING, TENSOR, OrtDevice, OrtMemoryInfo, Type, check_host, element_number, type_from
from ._values import OrtValue, OrtValueVector, array_over, numpy_type, of_python

#: the providers that ONNX Runtime knows; here only the last one exists
ALL_PROVIDERS = (
    "NvTensorRTRTXExecutionProvider", "TensorrtExecutionProvider", "CUDAExecutionProvider", "MIGraphXExecutionProvider",
    "OpenVINOExecutionProvider", "DnnlExecutionProvider", "VitisAIExecutionProvider", "QNNExecutionProvider",
    "NnapiExecutionProvider", "VSINPUExecutionProvider", "JsExecutionProvider", "CoreMLExecutionProvider",
    "ACLExecutionProvider", "DmlExecutionProvider", "RknpuExecutionProvider", "WebNNExecutionProvider",
    "WebGpuExecutionProvider", "XnnpackExecutionProvider", "CANNExecutionProvider", "AzureExecutionProvider",
    "CPUExecutionProvider")


class NodeArg:
    """An input or output. shape has a size, a name, or None per axis."""

    def __init__(self, name: str, type_of: Type):
        self.name, self.type_of = name, type_of
        self.type, self.shape = str(type_of), list(type_of.shape)

    def __repr__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


class ModelMetadata:
    """Metadata of a model."""

    def __init__(self, session: int):
        handle = out(api.SessionGetModelMetadata, session)
        try:
            self.producer_name = take_text(api.ModelMetadataGetProducerName, handle)
            self.graph_name = take_text(api.ModelMetadataGetGraphName, handle)
            self.domain = take_text(api.ModelMetadataGetDomain, handle)
            self.description = take_text(api.ModelMetadataGetDescription, handle)
            self.graph_description = take_text(api.ModelMetadataGetGraphDescription, handle)
            version = c_int64()
            api.ModelMetadataGetVersion(handle, byref(version))
            self.version = version.value
            self.custom_metadata_map = self._map(handle)
        finally:
            api.ReleaseModelMetadata(handle)

    @staticmethod
    def _map(handle: int) -> Dict[str, str]:
        keys, count = ctypes.POINTER(c_void_p)(), c_int64()
        api.ModelMetadataGetCustomMetadataMapKeys(handle, allocator, byref(keys), byref(count))
        found = {}
        for i in range(count.value):
            key = ctypes.string_at(keys[i])
            result = c_void_p()
            api.ModelMetadataLookupCustomMetadataMap(handle, allocator, key, byref(result))
            found[key.decode("utf-8", "replace")] = ctypes.string_at(result.value).decode("utf-8", "replace")
            api.AllocatorFree(allocator, result.value)
            api.AllocatorFree(allocator, keys[i])
        if count.value:
            api.AllocatorFree(allocator, ctypes.cast(keys, c_void_p))
        return found


def _text_of(function, session, index) -> str:
    result = c_void_p()
    function(session, index, allocator, byref(result))
    text = ctypes.string_at(result.value).decode("utf-8", "surrogateescape")
    api.AllocatorFree(allocator, result.value)
    return text


def _arguments(session: int, kind: str) -> List[NodeArg]:
    count = out(getattr(api, f"SessionGet{kind}Count"), session)
    name, type_info = getattr(api, f"SessionGet{kind}Name"), getattr(api, f"SessionGet{kind}TypeInfo")
    return [NodeArg(_text_of(name, session, i), type_from(type_info, session, i)) for i in range(count)]


def _from_model(options: SessionOptions, model: Any) -> None:
    """Applies the session options that a model has in the entry "ort_config" of its metadata."""
    config = _model.metadata(model).get("ort_config")
    if not config:
        return
    try:
        settings = json.loads(config)["session_options"]
    except (ValueError, KeyError, TypeError) as problem:
        raise error(1, f"the entry 'ort_config' of the model's metadata is not valid: {problem!r}") from None
    kinds = {"intra_op_num_threads": int, "inter_op_num_threads": int, "execution_mode": ExecutionMode,
             "graph_optimization_level": GraphOptimizationLevel, "enable_profiling": bool}
    for name, value in settings.items():
        if name in kinds:
            setattr(options, name, kinds[name](value))


def _addresses(values: Sequence[OrtValue]):
    """(first, end) of the memory of the tensors among values."""
    for value in values:
        if value.kind() == TENSOR and value._tensor()[0] != STRING:
            start = value.data_ptr()
            yield start, start + max(value.tensor_size_in_bytes(), 1)


class InferenceSession(Handle):
    """A model; ``initialize_session`` opens it."""

    RELEASE = "ReleaseSession"
    __slots__ = ("session_options", "_model", "inputs_meta", "outputs_meta", "overridable_initializers", "model_meta",
                 "_types", "_provider_options", "_runner", "__weakref__")

    def __init__(self, options: SessionOptions, model: Any, is_path: bool, read_config_from_model: bool = False):
        super().__init__(0)
        self._model, self._runner = model, None
        self.session_options = options.clone()
        if read_config_from_model:
            _from_model(self.session_options, model)

    def initialize_session(self, providers: Sequence[str] = (), provider_options: Sequence[Mapping] = (),
                           disabled_optimizers: Any = None) -> None:
        options = self.session_options.clone()
        self._provider_options = {name: given for name, given in options._providers.items()
                                  if name != "CPUExecutionProvider"}
        self._provider_options["CPUExecutionProvider"] = options._providers.get("CPUExecutionProvider", {})
        for name, settings in zip(providers, list(provider_options) or [{}] * len(providers)):
            if name == "CPUExecutionProvider":
                self._provider_options[name] = dict(settings)
            elif name not in ALL_PROVIDERS:
                try:
                    append_provider(options, name, settings)
                except Exception as problem:
                    raise RuntimeError(f"Unknown Provider Type: {name}: {problem}") from None
        if isinstance(self._model, bytes):
            self.handle = out(api.CreateSessionFromArray, env, self._model, len(self._model), options.handle)
        else:
            self.handle = out(api.CreateSession, env, encode(self._model), options.handle)
        self.inputs_meta = _arguments(self.handle, "Input")
        self.outputs_meta = _arguments(self.handle, "Output")
        self.overridable_initializers = _arguments(self.handle, "OverridableInitializer")
        self._types = {arg.name: arg.type_of for arg in self.inputs_meta + self.overridable_initializers}
        self.model_meta = ModelMetadata(self.handle)
        names = [arg.name for arg in self.inputs_meta + self.overridable_initializers + self.outputs_meta]
        if native is not None and not any(re.search("[\udc80-\udcff]", name) for name in names):  # bytes, not text
            plain = {name: True for name, kind in self._types.items() if kind.kind == TENSOR}
            self._runner = native.OrtRunner(api.addresses, self.handle, cpu_memory, plain, api.throw)

    # ------------------------------------------------------------ information
    def _memory(self, function, count) -> List[Optional[OrtMemoryInfo]]:
        found = (c_void_p * max(count, 1))()
        function(self.handle, found, count)
        return [OrtMemoryInfo._view(found[i]) if found[i] else None for i in range(count)]

    @property
    def input_meminfos(self) -> List[Optional[OrtMemoryInfo]]:
        return self._memory(api.SessionGetMemoryInfoForInputs, len(self.inputs_meta))

    @property
    def output_meminfos(self) -> List[Optional[OrtMemoryInfo]]:
        return self._memory(api.SessionGetMemoryInfoForOutputs, len(self.outputs_meta))

    @property
    def input_epdevices(self) -> List[Optional[OrtEpDevice]]:
        count = len(self.inputs_meta)
        found = (c_void_p * max(count, 1))()
        api.SessionGetEpDeviceForInputs(self.handle, found, count)
        return [OrtEpDevice(found[i]) if found[i] else None for i in range(count)]

    def get_providers(self) -> List[str]:
        return list(self._provider_options)

    def get_provider_options(self) -> Dict[str, Dict[str, str]]:
        return self._provider_options

    def get_provider_graph_assignment_info(self) -> List[Any]:
        key = "session.record_ep_graph_assignment_info"
        if self.session_options._entries.get(key) != "1":
            raise error(1, f"Session configuration entry '{key}' must be set to \"1\" to retrieve EP graph assignment "
                        "information.")
        return assigned_subgraphs(self.handle)

    def get_tuning_results(self) -> List[Dict[str, Any]]:
        return []

    def set_tuning_results(self, results: Sequence[Mapping], error_on_invalid: bool = False) -> None:
        for result in results:
            if error_on_invalid:
                raise RuntimeError(f"Cannot find execution provider {result.get('ep')}")

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        api.SetEpDynamicOptions(self.handle, strings(list(options)), strings(list(options.values())), len(options))

    @property
    def get_profiling_start_time_ns(self) -> int:
        return out(api.SessionGetProfilingStartTimeNs, self.handle)

    def end_profiling(self) -> str:
        result = c_void_p()
        api.SessionEndProfiling(self.handle, allocator, byref(result))
        text = ctypes.string_at(result.value).decode("utf-8", "surrogateescape")
        api.AllocatorFree(allocator, result.value)
        return text

    # ------------------------------------------------------------ runs
    def _run(self, names, values, output_names, options) -> List[Optional[OrtValue]]:
        results = (c_void_p * max(len(output_names), 1))()
        api.Run(self.handle, options.handle if options is not None else None, strings(names), handles(values),
                len(values), strings(output_names), len(output_names), results)
        made = [OrtValue(handle) if handle else None for handle in results[:len(output_names)]]
        spans = list(_addresses(values))
        for value in made:
            if value is None or value.kind() != TENSOR:
                if value is not None:
                    value.keep = values
            elif value._tensor()[0] != STRING:
                start = value.data_ptr()
                if any(first <= start < end for first, end in spans):
                    value.keep = values
        return made

    def _take(self, name: str, data: Any) -> Optional[OrtValue]:
        """The value of an input; None: it is left out."""
        wanted = self._types.get(name)
        if data is None:
            return None
        if wanted is None:
            raise error(2, f"Invalid input name: {name}")
        return of_python(name, data, wanted)

    def _give(self, handle: int, owners: List[Any]) -> Any:
        """The object for an output. owners: the inputs of the run."""
        return OrtValue(handle, owners).to_python()

    def run(self, output_names: Sequence[str], feed: Mapping[str, Any], options: Optional[RunOptions] = None) -> List:
        if self._runner is not None:
            return self._runner.run(self, output_names, dict(feed),
                                    0 if options is None else options.handle)
        names, values = [], []
        for name, data in feed.items():
            value = self._take(name, data)
            if value is not None:
                names.append(name)
                values.append(value)
        results = []
        for value in self._run(names, values, output_names, options):
            data = None if value is None else value.to_python()
            if value is not None and value.keep is values and isinstance(data, np.ndarray):
                data = data.copy()  # an input that is an output: the caller may change the input
            results.append(data)
        return results

    def run_with_ort_values(self, feed: Mapping[str, OrtValue], output_names: Sequence[str],
                            options: Optional[RunOptions] = None) -> OrtValueVector:
        return OrtValueVector(self._run(list(feed), list(feed.values()), output_names, options))

    def run_with_ortvaluevector(self, options, feed_names, feeds, fetch_names, fetches, fetch_devices) -> None:
        for device in fetch_devices:
            check_host(device)
        fetches[:] = self._run(feed_names, feeds, fetch_names, options)

    def run_async(self, output_names, feed, callback, user_data, options: Optional[RunOptions] = None) -> None:
        """callback(results, user_data, error) is called on another thread."""
        def work():
            try:
                results, text = self.run(output_names, feed, options), ""
            except Exception as failure:  # passed to the callback
                results, text = [], str(failure)
            callback(results, user_data, text)

        threading.Thread(target=work, daemon=True).start()

    def run_with_iobinding(self, binding: "SessionIOBinding", options: Optional[RunOptions] = None) -> None:
        if self._runner is not None:
            self._runner.run_binding(binding.handle, 0 if options is None else options.handle)
        else:
            api.RunWithBinding(self.handle, options.handle if options is not None else None, binding.handle)


class SessionIOBinding(Handle):
    """Inputs and outputs that are bound once for many runs."""

    RELEASE = "ReleaseIoBinding"
    __slots__ = ("_session", "_inputs", "_outputs")

    def __init__(self, session: InferenceSession):
        super().__init__(out(api.CreateIoBinding, session.handle))
        self._session = session
        self._inputs: Dict[str, OrtValue] = {}
        self._outputs: Dict[str, Optional[OrtValue]] = {}

    @staticmethod
    def _over(device: OrtDevice, element_type: Any, shape: Sequence[int], address: int) -> OrtValue:
        check_host(device)
        number = element_number(element_type)
        if number == STRING:
            raise RuntimeError("Only binding non-string Tensors is currently supported")
        return OrtValue.of_array(array_over(None, address, tuple(shape), numpy_type(number)), number)

    def bind_input(self, name: str, *what: Any) -> None:
        """bind_input(name, array), or (name, device, element_type, shape, address)."""
        if len(what) == 1:
            array = np.asarray(what[0])
            if element_number(array.dtype) == STRING:
                raise RuntimeError("Only binding non-string Tensors is currently supported")
            self.bind_ortvalue_input(name, OrtValue.of_array(array))
        else:
            self.bind_ortvalue_input(name, self._over(*what))

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        api.BindInput(self.handle, encode(name), value.handle)
        self._inputs[name] = value

    def bind_output(self, name: str, device: OrtDevice, *what: Any) -> None:
        """bind_output(name, device), or (name, device, element_type, shape, address)."""
        if what:
            self.bind_ortvalue_output(name, self._over(device, *what))
            return
        check_host(device)
        api.BindOutputToDevice(self.handle, encode(name), cpu_memory)
        self._outputs[name] = None

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        api.BindOutput(self.handle, encode(name), value.handle)
        self._outputs[name] = value

    def synchronize_inputs(self) -> None:
        api.SynchronizeBoundInputs(self.handle)

    def synchronize_outputs(self) -> None:
        api.SynchronizeBoundOutputs(self.handle)

    def get_outputs(self) -> OrtValueVector:
        found, count = ctypes.POINTER(c_void_p)(), c_size_t()
        api.GetBoundOutputValues(self.handle, allocator, byref(found), byref(count))
        keep = (list(self._inputs.values()), list(self._outputs.values()))
        values = OrtValueVector(OrtValue(found[i], keep) for i in range(count.value))
        if count.value:
            api.AllocatorFree(allocator, ctypes.cast(found, c_void_p))
        return values

    def copy_outputs_to_cpu(self) -> List[Any]:
        return [data.copy() if isinstance(data, np.ndarray) else data
                for data in (value.to_python() for value in self.get_outputs())]

    def clear_binding_inputs(self) -> None:
        api.ClearBoundInputs(self.handle)
        self._inputs = {}

    def clear_binding_outputs(self) -> None:
        api.ClearBoundOutputs(self.handle)
        self._outputs = {}
