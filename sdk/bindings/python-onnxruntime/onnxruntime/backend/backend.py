"""ONNX's backend interface. Models are files, their contents, or ModelProto objects of the package onnx.

Keyword arguments set options of the session or of the run. Arguments that could come from a user of the program must
not write files, so options that do are refused; names of no option are ignored."""
import os
from typing import Any, List, Tuple

from ..capi.onnxruntime_inference_collection import InferenceSession
from ..capi.onnxruntime_pybind11_state import RunOptions, SessionOptions, get_available_providers

_SESSION = {"enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "execution_mode", "execution_order",
            "graph_optimization_level", "inter_op_num_threads", "intra_op_num_threads", "log_severity_level",
            "log_verbosity_level", "logid", "use_deterministic_compute", "use_per_session_threads"}
_RUN = {"log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches"}


def _set(options: Any, allowed: set, settings: dict) -> Any:
    for name, value in settings.items():
        if name in allowed:
            setattr(options, name, value)
        elif hasattr(options, name):
            raise RuntimeError(f"{type(options).__name__}.{name} is not permitted as an argument of the backend; create "
                               "an InferenceSession with it")
    return options


class BackendRep:
    """A model that is ready to run."""

    def __init__(self, session: InferenceSession):
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> List[Any]:
        """inputs: a list with a value per input, or the value of the only input."""
        names = [argument.name for argument in self._session.get_inputs()]
        if not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        if len(inputs) != len(names):
            raise RuntimeError(f"Model expect {len(names)} inputs, but {len(inputs)} were given")
        return self._session.run(None, dict(zip(names, inputs)), _set(RunOptions(), _RUN, kwargs))


class OnnxRuntimeBackend:
    """The functions of ONNX's class Backend."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = None, **kwargs: Any) -> bool:
        return device is None or cls.supports_device(device)

    @classmethod
    def is_opset_supported(cls, model: Any) -> Tuple[bool, str]:
        """True: a session reports versions that it does not support."""
        return True, ""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0].upper() == "CPU"

    @classmethod
    def prepare(cls, model: Any, device: str = None, **kwargs: Any) -> BackendRep:
        """Makes a model ready to run. Sessions and prepared models are returned as they are."""
        if isinstance(model, BackendRep):
            return model
        if isinstance(model, InferenceSession):
            return BackendRep(model)
        if isinstance(model, (str, bytes, os.PathLike)):
            if device is not None and not cls.supports_device(device):
                raise RuntimeError(f"Incompatible device expected '{device}', got 'CPU'")
            options = _set(SessionOptions(), _SESSION, kwargs)
            return BackendRep(InferenceSession(model, options, get_available_providers()))
        return cls.prepare(model.SerializeToString(), device, **kwargs)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = None, **kwargs: Any) -> List[Any]:
        session = {name: value for name, value in kwargs.items() if not _run_only(name)}
        run = {name: value for name, value in kwargs.items() if _run_only(name) or name in _RUN}
        return cls.prepare(model, device, **session).run(inputs, **run)

    @classmethod
    def run_node(cls, node: Any, inputs: Any, device: str = None, outputs_info: Any = None, **kwargs: Any) -> Any:
        raise NotImplementedError("It is much more efficient to run a whole model than every node independently.")


def _run_only(name: str) -> bool:
    return name in RunOptions.DEFAULTS and name not in SessionOptions.DEFAULTS


is_compatible = OnnxRuntimeBackend.is_compatible
is_opset_supported = OnnxRuntimeBackend.is_opset_supported
prepare = OnnxRuntimeBackend.prepare
run = OnnxRuntimeBackend.run_model
run_model = OnnxRuntimeBackend.run_model
supports_device = OnnxRuntimeBackend.supports_device
