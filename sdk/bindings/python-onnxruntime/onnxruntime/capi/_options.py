"""Options of sessions and runs, and the other objects that configure them."""
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import numpy as np

from ._enums import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from ._ort import Handle, api, encode, env, handles, out, strings
from ._values import OrtValue


class _Settings(Handle):
    """Attributes that are stored and, for those with a setter, passed to the library. Others do not exist: setting one
    raises AttributeError."""

    DEFAULTS: Dict[str, Any] = {}
    SETTERS: Dict[str, Callable] = {}
    __slots__ = ("_values", "_entries")

    def __init__(self, handle: int):
        super().__init__(handle)
        object.__setattr__(self, "_values", dict(self.DEFAULTS))
        object.__setattr__(self, "_entries", {})

    def __getattr__(self, name: str) -> Any:
        if name in type(self).DEFAULTS:
            return self._values[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in type(self).DEFAULTS:
            object.__setattr__(self, name, value)  # a slot, or AttributeError
            return
        self._values[name] = self._converted(name, value)
        setter = type(self).SETTERS.get(name)
        if setter is not None:
            setter(self, self._values[name])

    def __dir__(self) -> List[str]:
        return sorted(set(super().__dir__()) | set(type(self).DEFAULTS))

    def _converted(self, name: str, value: Any) -> Any:
        """The value as the type of the default, as ONNX Runtime requires it."""
        default = type(self).DEFAULTS[name]
        if isinstance(default, str) and isinstance(value, (str, os.PathLike)):
            return os.fspath(value)
        if isinstance(default, bool) and isinstance(value, (bool, np.bool_)):
            return bool(value)
        if isinstance(default, int) and not isinstance(default, bool) and isinstance(value, (int, np.integer)):
            return type(default)(int(value))
        raise TypeError(f"{name} of {type(self).__name__} must be of type {type(default).__name__}, not "
                        f"{type(value).__name__}")


def _number(function_name: str) -> Callable:
    return lambda self, value: getattr(api, function_name)(self.handle, int(value))


def _text(function_name: str) -> Callable:
    return lambda self, value: getattr(api, function_name)(self.handle, encode(value))


def _switch(on: str, off: str) -> Callable:
    return lambda self, value: getattr(api, on if value else off)(self.handle)


def _profiling(self, _) -> None:
    if self.enable_profiling:
        api.EnableProfiling(self.handle, encode(self.profile_file_prefix))
    else:
        api.DisableProfiling(self.handle)


def _own_threads(self, on) -> None:
    if not on:
        api.DisablePerSessionThreads(self.handle)


class SessionOptions(_Settings):
    """Options of sessions. 0 threads: as many as there are cores. Config entries with the name of an option of inlay,
    with or without the prefix "inlay.", set that option."""

    RELEASE = "ReleaseSessionOptions"
    DEFAULTS = {
        "enable_cpu_mem_arena": True, "enable_mem_pattern": True, "enable_mem_reuse": True, "enable_profiling": False,
        "profile_file_prefix": "onnxruntime_profile_", "optimized_model_filepath": "", "logid": "",
        "log_severity_level": -1, "log_verbosity_level": 0, "intra_op_num_threads": 0, "inter_op_num_threads": 0,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL, "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL, "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }
    SETTERS = {
        "enable_cpu_mem_arena": _switch("EnableCpuMemArena", "DisableCpuMemArena"),
        "enable_mem_pattern": _switch("EnableMemPattern", "DisableMemPattern"),
        "enable_profiling": _profiling, "profile_file_prefix": _profiling,
        "optimized_model_filepath": _text("SetOptimizedModelFilePath"), "logid": _text("SetSessionLogId"),
        "log_severity_level": _number("SetSessionLogSeverityLevel"),
        "log_verbosity_level": _number("SetSessionLogVerbosityLevel"),
        "intra_op_num_threads": _number("SetIntraOpNumThreads"), "inter_op_num_threads": _number("SetInterOpNumThreads"),
        "execution_mode": _number("SetSessionExecutionMode"),
        "graph_optimization_level": _number("SetSessionGraphOptimizationLevel"),
        "use_deterministic_compute": _number("SetDeterministicCompute"), "use_per_session_threads": _own_threads,
    }
    __slots__ = ("_keep", "_providers")

    def __init__(self):
        super().__init__(out(api.CreateSessionOptions))
        self._keep: List[Any] = []
        self._providers: Dict[str, Dict[str, str]] = {}  # options by name

    def clone(self) -> "SessionOptions":
        """A copy of which later changes do not change these options."""
        made = SessionOptions.__new__(SessionOptions)
        _Settings.__init__(made, out(api.CloneSessionOptions, self.handle))
        made._values.update(self._values)
        made._entries.update(self._entries)
        made._keep = list(self._keep)
        made._providers = dict(self._providers)
        return made

    def add_session_config_entry(self, key: str, value: str) -> None:
        api.AddSessionConfigEntry(self.handle, encode(key), encode(value))
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return self._entries[key]

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        api.AddFreeDimensionOverrideByName(self.handle, encode(name), int(value))

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        api.AddFreeDimensionOverride(self.handle, encode(denotation), int(value))

    def register_custom_ops_library(self, path: Any) -> None:
        api.RegisterCustomOpsLibrary_V2(self.handle, encode(path))

    def add_initializer(self, name: str, value: Any) -> None:
        """Replaces an initializer; the value must exist as long as the session."""
        inner = getattr(value, "_ortvalue", value)
        api.AddInitializer(self.handle, encode(name), inner.handle)
        self._keep.append(inner)

    def add_external_initializers(self, names: Sequence[str], values: Sequence[Any]) -> None:
        inner = [getattr(value, "_ortvalue", value) for value in values]
        api.AddExternalInitializers(self.handle, strings(names), handles(inner), len(inner))
        self._keep += inner

    def add_external_initializers_from_files_in_memory(self, names: Sequence[str], buffers: Sequence[bytes],
                                                       lengths: Sequence[int]) -> None:
        if not len(names) == len(buffers) == len(lengths):
            raise RuntimeError("Expecting names, buffers and lengths of the same length")
        sizes = np.array(lengths, np.uintp)
        pointers = strings(buffers)
        api.AddExternalInitializersFromFilesInMemory(self.handle, strings(names), pointers, sizes.ctypes.data,
                                                     len(names))
        self._keep += [pointers, list(buffers)]

    def add_provider(self, name: str, options: Optional[Mapping[str, str]] = None) -> None:
        if name != "CPUExecutionProvider":
            append_provider(self, name, options or {})
        self._providers[name] = dict(options or {})

    def add_provider_for_devices(self, devices: Sequence[Any], options: Optional[Mapping[str, str]] = None) -> None:
        options = dict(options or {})
        api.SessionOptionsAppendExecutionProvider_V2(self.handle, env, handles(devices), len(devices),
                                                     strings(list(options)), strings(list(options.values())),
                                                     len(options))
        self._providers.update((device.ep_name, options) for device in devices)

    def has_providers(self) -> bool:
        return bool(self._providers)

    def set_provider_selection_policy(self, policy: int) -> None:
        api.SessionOptionsSetEpSelectionPolicy(self.handle, int(policy))


def append_provider(options: SessionOptions, name: str, settings: Mapping[str, str]) -> None:
    """Requests a provider by inlay's name."""
    api.SessionOptionsAppendExecutionProvider(options.handle, encode(name), strings(list(settings)),
                                              strings([str(value) for value in settings.values()]), len(settings))


_default = None


def get_default_session_options() -> SessionOptions:
    """The options of sessions that are created without options."""
    global _default
    _default = _default or SessionOptions()
    return _default


def _terminate(self, on) -> None:
    (api.RunOptionsSetTerminate if on else api.RunOptionsUnsetTerminate)(self.handle)


class RunOptions(_Settings):
    """Options of runs; ``terminate = True`` from another thread stops them."""

    RELEASE = "ReleaseRunOptions"
    DEFAULTS = {"log_severity_level": -1, "log_verbosity_level": 0, "logid": "", "terminate": False,
                "only_execute_path_to_fetches": False, "synchronize_execution_providers": True, "training_mode": False}
    SETTERS = {"log_severity_level": _number("RunOptionsSetRunLogSeverityLevel"),
               "log_verbosity_level": _number("RunOptionsSetRunLogVerbosityLevel"),
               "logid": _text("RunOptionsSetRunTag"), "terminate": _terminate}
    __slots__ = ("_adapters",)

    def __init__(self):
        super().__init__(out(api.CreateRunOptions))
        self._adapters: List[Any] = []

    def add_run_config_entry(self, key: str, value: str) -> None:
        api.AddRunConfigEntry(self.handle, encode(key), encode(value))
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"RunOptions does not have configuration with key: {key}")
        return self._entries[key]

    def add_active_adapter(self, adapter: "LoraAdapter") -> None:
        api.RunOptionsAddActiveLoraAdapter(self.handle, adapter.handle)
        self._adapters.append(adapter)


class LoraAdapter(Handle):
    """Weights of an adapter, from a file."""

    RELEASE = "ReleaseLoraAdapter"
    __slots__ = ()

    def __init__(self):
        super().__init__(0)

    def Load(self, path: Any) -> None:  # noqa: N802 (the name is ONNX Runtime's)
        self.handle = out(api.CreateLoraAdapter, encode(path), None)


class OrtArenaCfg(Handle):
    """Sizes of an arena. They have no effect, since inlay plans its memory."""

    RELEASE = "ReleaseArenaCfg"
    NAMES = ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk",
             "initial_growth_chunk_size_bytes", "max_power_of_two_extend_bytes")
    __slots__ = NAMES

    def __init__(self, max_mem: Any, arena_extend_strategy: int = -1, initial_chunk_size_bytes: int = -1,
                 max_dead_bytes_per_chunk: int = -1):
        super().__init__(0)
        values = max_mem if isinstance(max_mem, Mapping) else dict(
            zip(self.NAMES, (max_mem, arena_extend_strategy, initial_chunk_size_bytes, max_dead_bytes_per_chunk)))
        for name in values:
            if name not in self.NAMES:
                raise RuntimeError(f"Invalid OrtArenaCfg option: {name}")
        for name in self.NAMES:
            setattr(self, name, int(values.get(name, 0 if name == "max_mem" else -1)))
        used = {name: getattr(self, name) for name in self.NAMES if getattr(self, name) > 0}
        numbers = np.array(list(used.values()), np.uintp)
        self.handle = out(api.CreateArenaCfgV2, strings(list(used)), numbers.ctypes.data, len(used))
