"""ONNX Runtime's Python interface on inlay: a program written for ONNX Runtime runs unchanged.

The package takes the place of ONNX Runtime's own package of the same name; install one of them."""
from .capi import onnxruntime_validation
from .capi._pybind_state import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, LoraAdapter, ModelMetadata,
                                 NodeArg, OrtAllocatorType, OrtArenaCfg, OrtCompileApiFlags, OrtDeviceMemoryType,
                                 OrtEpAssignedNode, OrtEpAssignedSubgraph, OrtEpDevice,
                                 OrtExecutionProviderDevicePolicy, OrtExternalInitializerInfo, OrtHardwareDevice,
                                 OrtHardwareDeviceType, OrtMemoryInfo, OrtMemoryInfoDeviceType, OrtMemType,
                                 OrtSparseFormat, OrtSyncStream, RunOptions, SessionIOBinding, SessionOptions,
                                 create_and_register_allocator, create_and_register_allocator_v2,
                                 disable_telemetry_events, enable_telemetry_events, get_all_providers,
                                 get_available_providers, get_build_info, get_device, get_ep_devices,
                                 get_version_string, has_collective_ops, register_execution_provider_library,
                                 set_default_logger_severity, set_default_logger_verbosity,
                                 set_global_thread_pool_sizes, set_seed, unregister_execution_provider_library)
from .capi.onnxruntime_inference_collection import (AdapterFormat, InferenceSession, IOBinding, ModelCompiler, OrtDevice,
                                                    OrtDeviceVendorId, OrtValue, SparseTensor, copy_tensors)

package_name, version, cuda_version = onnxruntime_validation.get_package_name_and_version_info()
__version__ = version  #: the version of ONNX Runtime whose interface this is
__author__ = "inlay"
import_capi_exception = None


def print_debug_info() -> None:
    """Prints versions and the platform."""
    import platform

    import inlay

    print(f"{package_name} version: {__version__} (inlay {inlay.__version__})")
    print("platform:", platform.platform())
    print("Python version:", platform.python_version())


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory=None) -> None:
    """Does nothing: inlay has no libraries of CUDA to load."""
