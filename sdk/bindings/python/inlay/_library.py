"""The library: the declarations of inlay/inlay.h for ctypes, and the extension module.

The library is the file given by the variable INLAY_LIBRARY if it is set, otherwise ``lib/libinlay.so.1`` in this
package (a wheel) or ``../../../libinlay.so.1`` (an installation by CMake) if one exists, otherwise the libinlay.so.1
that the dynamic loader finds. ctypes releases the GIL during calls.

``native`` is the extension module ``inlay/python/_native.abi3.so`` in the folder of the library, which makes runs
faster. It is None where that file does not exist or cannot be loaded (before Python 3.11), and if the variable
INLAY_PYTHON_EXTENSION is "off": then runs use ctypes, too."""
import ctypes
import importlib.util
import os
import threading
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t,
                    c_uint32, c_uint64, c_void_p)

NONE = 0xFFFFFFFF  # INLAY_NONE, INLAY_RANK_UNKNOWN
TENSOR, SEQUENCE, OPTIONAL, MAP = 1, 2, 3, 4  # INLAY_KIND_*
SET_OPTION, TRIM, SUSPEND, RESUME = 1, 2, 3, 4  # INLAY_CONTROL_*
PRIORITIES = {"normal": 0, "low": 1, "high": 2}  # INLAY_PRIORITY_*
POWERS = {"default": 0, "efficiency": 1, "performance": 2}  # INLAY_POWER_*


class Diag(Structure):
    _fields_ = [("struct_size", c_uint64), ("code", c_int32), ("error_class", c_uint32), ("text", c_char * 512),
                ("node", c_char * 128), ("tensor", c_char * 128)]


class IoInfo(Structure):
    _fields_ = [("struct_size", c_uint64), ("name", c_char_p), ("kind", c_uint32), ("dtype", c_int32),
                ("rank", c_uint32), ("optional", c_uint32), ("dims", POINTER(c_int64)),
                ("dim_names", POINTER(c_char_p)), ("key_dtype", c_int32), ("sparse", c_uint32),
                ("declared_rank", c_uint32), ("reserved", c_uint32), ("declared_dims", POINTER(c_int64)),
                ("declared_dim_names", POINTER(c_char_p))]


class ModelInfo(Structure):
    _fields_ = [("struct_size", c_uint64), ("producer_name", c_char_p), ("producer_version", c_char_p),
                ("domain", c_char_p), ("graph_name", c_char_p), ("doc", c_char_p), ("model_version", c_int64),
                ("ir_version", c_int64), ("metadata_count", c_uint32), ("reserved", c_uint32)]


class ProviderInfo(Structure):
    _fields_ = [("struct_size", c_uint64), ("name", c_char_p), ("plugin_path", c_char_p), ("plugin_version", c_char_p),
                ("skipped", c_char_p)]


class OptionDoc(Structure):
    _fields_ = [("struct_size", c_uint64), ("name", c_char_p), ("doc", c_char_p), ("default_value", c_char_p),
                ("kind", c_uint32), ("reserved", c_uint32), ("min", c_int64), ("max", c_int64),
                ("choices", c_char_p)]


class ExplainOptions(Structure):
    _fields_ = [("struct_size", c_uint64), ("format", c_char_p), ("flags", c_uint32), ("columns", c_uint32),
                ("node", c_char_p), ("what_ifs", POINTER(c_char_p)), ("what_if_count", c_uint32),
                ("reserved", c_uint32), ("measured", c_void_p)]


class ProfileOptions(Structure):
    _fields_ = [("struct_size", c_uint64), ("format", c_char_p), ("peak_flops_per_s", c_double),
                ("peak_bytes_per_s", c_double), ("peak_integer_ops_per_s", c_double),
                ("peak_half_flops_per_s", c_double)]


class RunOptions(Structure):
    _fields_ = [("struct_size", c_uint64), ("cancel", POINTER(c_uint32)), ("timeout_ns", c_uint64),
                ("flags", c_uint32), ("priority", c_uint32), ("max_threads", c_uint32), ("power", c_uint32),
                ("deadline_ns", c_uint64)]


class ControlRequest(Structure):
    _fields_ = [("struct_size", c_uint64), ("provider", c_char_p), ("option", c_char_p), ("value", c_char_p),
                ("bytes", c_uint64), ("freed_bytes", c_uint64), ("action", c_uint32), ("reserved", c_uint32)]


class PlanInfo(Structure):
    _fields_ = [("struct_size", c_uint64), ("slab_bytes", c_uint64), ("lower_bound_bytes", c_uint64),
                ("constant_bytes", c_uint64), ("step_count", c_uint32), ("dynamic_step_count", c_uint32),
                ("predicted_ns", c_double)]


class Str(Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_uint64)]


class DeviceInfo(Structure):
    _fields_ = [("struct_size", c_uint64), ("provider", c_char_p), ("name", c_char_p), ("setting", c_char_p),
                ("value", c_char_p), ("unusable", c_char_p), ("facts", c_char_p), ("memory_bytes", c_uint64),
                ("free_bytes", c_uint64), ("kind", c_uint32), ("unified", c_uint32)]


class OptimizeArgs(Structure):
    _fields_ = [("struct_size", c_uint64), ("out_path", c_char_p), ("external_file", c_char_p), ("event", c_void_p),
                ("user", c_void_p), ("with_costs", c_uint32), ("nodes_before", c_uint32), ("nodes_after", c_uint32),
                ("target_opset", c_uint32)]


LogFn = CFUNCTYPE(None, c_void_p, c_uint32, c_char_p)
DeviceFn = CFUNCTYPE(None, c_void_p, POINTER(DeviceInfo))
ProgressFn = CFUNCTYPE(c_int, c_void_p, c_double, c_char_p)
WriteFn = CFUNCTYPE(None, c_void_p, POINTER(c_char), c_size_t)

_OUT, _DIAG = POINTER(c_void_p), POINTER(Diag)
_STATUS = c_int32
_PROTOTYPES = {
    "version": (c_char_p, []),
    "options_create": (_STATUS, [_OUT, _DIAG]),
    "options_destroy": (None, [c_void_p]),
    "options_set": (_STATUS, [c_void_p, c_char_p, c_char_p, _DIAG]),
    "options_load": (_STATUS, [c_void_p, c_char_p, _DIAG]),
    "options_load_environment": (_STATUS, [c_void_p, _DIAG]),
    "options_describe": (_STATUS, [c_uint32, POINTER(OptionDoc)]),
    "options_set_log": (None, [c_void_p, LogFn, c_void_p]),
    "options_set_progress": (None, [c_void_p, ProgressFn, c_void_p]),
    "plugin_register": (_STATUS, [c_void_p, _DIAG]),
    "device_list": (_STATUS, [c_void_p, DeviceFn, c_void_p, _DIAG]),
    "value_borrow": (_STATUS, [c_int32, c_uint32, POINTER(c_int64), c_void_p, c_uint64, _OUT, _DIAG]),
    "value_create_strings": (_STATUS, [c_uint32, POINTER(c_int64), POINTER(Str), _OUT, _DIAG]),
    "value_create_list": (_STATUS, [c_uint32, c_int32, _OUT, c_uint32, _OUT, _DIAG]),
    "value_ref": (c_void_p, [c_void_p]),
    "value_unref": (None, [c_void_p]),
    "value_kind": (c_uint32, [c_void_p]),
    "value_dtype": (c_int32, [c_void_p]),
    "value_rank": (c_uint32, [c_void_p]),
    "value_dims": (POINTER(c_int64), [c_void_p]),
    "value_count": (c_int64, [c_void_p]),
    "value_data": (c_void_p, [c_void_p]),
    "value_bytes": (c_uint64, [c_void_p]),
    "value_item": (c_void_p, [c_void_p, c_uint32]),
    "value_from_dlpack": (_STATUS, [c_void_p, _OUT, _DIAG]),
    "value_to_dlpack": (_STATUS, [c_void_p, _OUT, _DIAG]),
    "optimize": (_STATUS, [c_char_p, c_void_p, POINTER(OptimizeArgs), _DIAG]),
    "session_create": (_STATUS, [c_char_p, c_void_p, _OUT, _DIAG]),
    "session_create_from_bytes": (_STATUS, [c_char_p, c_uint64, c_void_p, _OUT, _DIAG]),
    "session_destroy": (None, [c_void_p]),
    "session_input_count": (c_uint32, [c_void_p]),
    "session_output_count": (c_uint32, [c_void_p]),
    "session_input": (_STATUS, [c_void_p, c_uint32, POINTER(IoInfo)]),
    "session_output": (_STATUS, [c_void_p, c_uint32, POINTER(IoInfo)]),
    "session_model": (_STATUS, [c_void_p, POINTER(ModelInfo)]),
    "session_metadata": (_STATUS, [c_void_p, c_uint32, POINTER(c_char_p), POINTER(c_char_p)]),
    "session_provider": (_STATUS, [c_void_p, c_uint32, POINTER(ProviderInfo)]),
    "session_explain": (_STATUS, [c_void_p, POINTER(ExplainOptions), WriteFn, c_void_p, _DIAG]),
    "session_control": (_STATUS, [c_void_p, POINTER(ControlRequest), _DIAG]),
    "session_plan_save": (_STATUS, [c_void_p, WriteFn, c_void_p, _DIAG]),
    "session_update": (_STATUS, [c_void_p, c_uint32, POINTER(c_char_p), POINTER(c_void_p), _DIAG]),
    "context_create": (_STATUS, [c_void_p, _OUT, _DIAG]),
    "context_destroy": (None, [c_void_p]),
    "context_set_input": (_STATUS, [c_void_p, c_uint32, c_void_p, _DIAG]),
    "context_set_output": (_STATUS, [c_void_p, c_uint32, c_void_p, _DIAG]),
    "context_run": (_STATUS, [c_void_p, POINTER(RunOptions), _DIAG]),
    "session_trim": (_STATUS, [c_void_p, _DIAG]),
    "context_trim": (_STATUS, [c_void_p, _DIAG]),
    "context_measure": (_STATUS, [c_void_p, c_uint32, _DIAG]),
    "context_profile": (_STATUS, [c_void_p, c_uint32, c_uint32, _DIAG]),
    "context_profile_write": (_STATUS, [c_void_p, POINTER(ProfileOptions), WriteFn, c_void_p, _DIAG]),
    "context_output": (c_void_p, [c_void_p, c_uint32]),
    "context_variant": (c_char_p, [c_void_p, POINTER(c_double)]),
    "context_plan": (_STATUS, [c_void_p, POINTER(PlanInfo)]),
}


def _find():
    configured = os.environ.get("INLAY_LIBRARY")
    if configured:
        return configured
    package = os.path.dirname(os.path.abspath(__file__))
    for folder in (os.path.join(package, "lib"), os.path.join(package, "..", "..", "..")):
        path = os.path.normpath(os.path.join(folder, "libinlay.so.1"))
        if os.path.exists(path):
            return path
    return "libinlay.so.1"


class _Library:
    """The functions of inlay.h without their prefix."""

    def __init__(self):
        path = _find()
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise ImportError(f"inlay: cannot load {path}: {error}; install libinlay, or set the variable "
                              "INLAY_LIBRARY to the file") from None
        for name, (result, arguments) in _PROTOTYPES.items():
            try:
                function = library["inlay_" + name]
            except AttributeError:
                raise ImportError(f"inlay: {path} has no inlay_{name}: it is older than this package") from None
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)


lib = _Library()


class _PluginsInUse(threading.local):
    """A ``with`` statement around calls that may call operators written in Python while they hold the library's lock of
    plugins. The garbage collector may run there, too. What it finalizes is destroyed afterwards, because that takes the
    lock."""

    def __init__(self):
        self._depth = 0
        self._late = []  # arguments of destroy()

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_) -> None:
        self._depth -= 1
        while self._depth == 0 and self._late:
            self.destroy(*self._late.pop())

    def destroy(self, function, handle: int, kept=None) -> None:
        """Destroys what has sessions. kept: must exist as long as it."""
        if self._depth > 0:
            self._late.append((function, handle, kept))
            return
        with self:
            function(handle)


plugins_in_use = _PluginsInUse()


class _Place(Structure):
    """Dl_info of dlfcn.h."""
    _fields_ = [("file", c_char_p), ("base", c_void_p), ("symbol", c_char_p), ("address", c_void_p)]


def folder():
    """The folder of the library that was loaded; None: unknown."""
    place = _Place()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [c_void_p, POINTER(_Place)]
    return os.path.dirname(os.fsdecode(place.file)) if dladdr(lib.version, ctypes.byref(place)) else None


def _load_native():
    place = folder()
    if os.environ.get("INLAY_PYTHON_EXTENSION") == "off" or place is None:
        return None
    path = os.path.join(place, "inlay", "python", "_native.abi3.so")
    try:
        spec = importlib.util.spec_from_file_location("inlay._native", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError:
        return None
    return module if module.INTERFACE == NATIVE_INTERFACE else None


NATIVE_INTERFACE = 1  # the version of the interface between this package and the extension module
native = _load_native()
