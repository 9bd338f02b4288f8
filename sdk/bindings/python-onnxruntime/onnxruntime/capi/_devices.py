"""Devices, providers and the environment of the process."""
import ctypes
import logging
from ctypes import byref, c_int, c_size_t, c_void_p
from typing import Any, Dict, List, Optional

from ._enums import OrtDeviceMemoryType, OrtHardwareDeviceType
from ._errors import error
from ._ort import api, encode, env, out
from ._types import OrtMemoryInfo
from ._values import OrtValue

log = logging.getLogger("inlay")


def _pairs(handle: int) -> Dict[str, str]:
    keys, values, count = ctypes.POINTER(ctypes.c_char_p)(), ctypes.POINTER(ctypes.c_char_p)(), c_size_t()
    api.GetKeyValuePairs(handle, byref(keys), byref(values), byref(count))
    return {keys[i].decode(): values[i].decode() for i in range(count.value)}


class OrtHardwareDevice:
    """A device of the machine."""

    def __init__(self, handle: int):
        self.handle = handle
        self.type = OrtHardwareDeviceType(api.HardwareDevice_Type(handle))
        self.vendor_id, self.device_id = api.HardwareDevice_VendorId(handle), api.HardwareDevice_DeviceId(handle)
        self.vendor = (api.HardwareDevice_Vendor(handle) or b"").decode()
        self.metadata = _pairs(api.HardwareDevice_Metadata(handle))


class OrtEpDevice:
    """A provider and the device on which it can run."""

    def __init__(self, handle: int):
        self.handle = handle
        self.ep_name = api.EpDevice_EpName(handle).decode()
        self.ep_vendor = (api.EpDevice_EpVendor(handle) or b"").decode()
        self.ep_metadata, self.ep_options = _pairs(api.EpDevice_EpMetadata(handle)), _pairs(
            api.EpDevice_EpOptions(handle))
        self.device = OrtHardwareDevice(api.EpDevice_Device(handle))

    def memory_info(self, memory_type: OrtDeviceMemoryType) -> Optional[OrtMemoryInfo]:
        found = api.EpDevice_MemoryInfo(self.handle, int(memory_type))
        return OrtMemoryInfo._view(found) if found else None


def _text(function, handle: int) -> str:
    return ctypes.string_at(out(function, handle)).decode("utf-8", "surrogateescape")


def _list(function, handle: int) -> List[int]:
    found, count = ctypes.POINTER(c_void_p)(), c_size_t()
    function(handle, byref(found), byref(count))
    return [found[i] for i in range(count.value)]


class OrtEpAssignedNode:
    """A node of the model file, assigned to a provider."""

    def __init__(self, handle: int):
        self.name, self.domain, self.op_type = (_text(function, handle) for function in (
            api.EpAssignedNode_GetName, api.EpAssignedNode_GetDomain, api.EpAssignedNode_GetOperatorType))


class OrtEpAssignedSubgraph:
    """Nodes assigned to a provider."""

    def __init__(self, handle: int):
        self.ep_name = _text(api.EpAssignedSubgraph_GetEpName, handle)
        self._nodes = [OrtEpAssignedNode(node) for node in _list(api.EpAssignedSubgraph_GetNodes, handle)]

    def get_nodes(self) -> List[OrtEpAssignedNode]:
        return self._nodes


def assigned_subgraphs(session: int) -> List[OrtEpAssignedSubgraph]:
    return [OrtEpAssignedSubgraph(handle) for handle in _list(api.Session_GetEpGraphAssignmentInfo, session)]


class OrtSyncStream:
    """A stream of a device; not provided by inlay."""


class OrtExternalInitializerInfo:
    """The place of an initializer in a file."""

    def __init__(self, filepath: Any, file_offset: int, byte_size: int):
        self.filepath, self.file_offset, self.byte_size = filepath, file_offset, byte_size


def get_available_providers() -> List[str]:
    found, count = ctypes.POINTER(ctypes.c_char_p)(), c_int()
    api.GetAvailableProviders(byref(found), byref(count))
    names = [found[i].decode() for i in range(count.value)]
    api.ReleaseAvailableProviders(ctypes.cast(found, c_void_p), count.value)
    return names


def get_ep_devices() -> List[OrtEpDevice]:
    found, count = ctypes.POINTER(c_void_p)(), c_size_t()
    api.GetEpDevices(env, byref(found), byref(count))
    return [OrtEpDevice(found[i]) for i in range(count.value)]


def register_execution_provider_library(name: str, path: Any) -> None:
    api.RegisterExecutionProviderLibrary(env, encode(name), encode(path))


def unregister_execution_provider_library(name: str) -> None:
    api.UnregisterExecutionProviderLibrary(env, encode(name))


def create_and_register_allocator(memory_info: OrtMemoryInfo, arena: Any = None) -> None:
    api.CreateAndRegisterAllocator(env, memory_info.handle, arena.handle if arena is not None else None)


def create_and_register_allocator_v2(provider: str, memory_info: OrtMemoryInfo, options: Dict[str, str],
                                     arena: Any = None) -> None:
    if provider not in get_available_providers():
        raise error(1, f"{provider} is not available; the providers are {', '.join(get_available_providers())}")
    create_and_register_allocator(memory_info, arena)


def copy_tensors(sources: List[OrtValue], targets: List[OrtValue], stream: Any = None) -> None:
    for source, target in zip(sources, targets):
        target.update_inplace(source)


def get_device() -> str:
    return "CPU"


def get_build_info() -> str:
    return api.GetBuildInfoString().decode()


def get_version_string() -> str:
    return api.version


def has_collective_ops() -> bool:
    return False


def set_default_logger_severity(level: int) -> None:
    if not 0 <= level <= 4:
        raise RuntimeError(f"Invalid logging severity {level}: it must be from 0 (verbose) to 4 (fatal)")
    api.UpdateEnvWithCustomLogLevel(env, level)


def set_default_logger_verbosity(level: int) -> None:
    """Does nothing: inlay's log has no further levels."""


def enable_telemetry_events() -> None:
    """Does nothing: inlay sends no telemetry."""
    api.EnableTelemetryEvents(env)


def disable_telemetry_events() -> None:
    """Does nothing: inlay sends no telemetry."""
    api.DisableTelemetryEvents(env)


def set_global_thread_pool_sizes(intra_op_num_threads: int, inter_op_num_threads: int) -> None:
    """Does nothing: the sessions of a process share one pool."""
    log.info("set_global_thread_pool_sizes of ONNX Runtime has no counterpart in inlay and is ignored")


def set_seed(seed: int) -> None:
    """Logs that it has no effect: operators take seeds from their attribute."""
    log.info("set_seed of ONNX Runtime has no counterpart in inlay and is ignored")
