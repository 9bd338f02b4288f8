"""The names of ONNX Runtime's extension module."""
from ._adapter import AdapterFormat
from ._compile import ModelCompiler
from ._devices import (OrtEpAssignedNode, OrtEpAssignedSubgraph, OrtEpDevice,
                       OrtExternalInitializerInfo, OrtHardwareDevice, OrtSyncStream, copy_tensors,
                       create_and_register_allocator, create_and_register_allocator_v2, disable_telemetry_events,
                       enable_telemetry_events, get_available_providers, get_build_info, get_device, get_ep_devices,
                       get_version_string, has_collective_ops, register_execution_provider_library,
                       set_default_logger_severity, set_default_logger_verbosity, set_global_thread_pool_sizes,
                       set_seed, unregister_execution_provider_library)
from ._enums import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, OrtAllocatorType, OrtCompileApiFlags,
                     OrtDeviceMemoryType, OrtExecutionProviderDevicePolicy, OrtHardwareDeviceType,
                     OrtMemoryInfoDeviceType, OrtMemType, OrtSparseFormat)
from ._errors import (EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, ModelLoadCanceled,
                      ModelLoaded, ModelRequiresCompilation, NoModel, NoSuchFile, NotFound, NotImplemented,
                      RuntimeException)
from ._options import LoraAdapter, OrtArenaCfg, RunOptions, SessionOptions, get_default_session_options
from ._session import ALL_PROVIDERS, InferenceSession, ModelMetadata, NodeArg, SessionIOBinding
from ._types import OrtDevice, OrtMemoryInfo
from ._values import (OrtValue, OrtValueVector, SparseBlockSparseView, SparseCooView, SparseCsrView, SparseTensor,
                      is_dlpack_uint8_tensor)


def get_all_providers():
    """The names of all providers that ONNX Runtime knows."""
    return list(ALL_PROVIDERS)


__all__ = [name for name in dir() if not name.startswith("_") and name != "ALL_PROVIDERS"]
