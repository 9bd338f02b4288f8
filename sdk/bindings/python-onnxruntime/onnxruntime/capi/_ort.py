"""libonnxruntime.so.1 of inlay, called with ctypes, which releases the GIL during calls.

The library is the file given by the variable INLAY_ONNXRUNTIME_LIBRARY if it is set, otherwise
``inlay/onnxruntime/libonnxruntime.so.1`` in the folder of the libinlay.so.1 that the package inlay loads."""
import ctypes
import os
import sys
import time
from ctypes import CFUNCTYPE, byref, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p
from typing import Dict

from inlay._library import native  # noqa: F401 (loads libinlay.so.1, with which libonnxruntime.so.1 is linked)

from ._errors import error
from ._table import COMPILE_ENTRIES, ENTRIES

VERSION = 30  # ORT_API_VERSION
_TYPES = {"p": c_void_p, "i": c_int, "u": c_uint32, "l": c_int64, "z": c_size_t, "s": c_char_p, "v": None,
          "!": c_void_p}


def library_folders():
    """The folder of the libinlay.so.1 that the package inlay loads."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if os.path.basename(path).startswith("libinlay.so."):
                yield os.path.join("/", os.path.dirname(path))


def _candidates():
    configured = os.environ.get("INLAY_ONNXRUNTIME_LIBRARY")
    if configured:
        yield configured
        return
    for folder in library_folders():
        yield os.path.join(folder, "inlay", "onnxruntime", "libonnxruntime.so.1")


def _load():
    tried = list(dict.fromkeys(_candidates()))
    for path in tried:
        if os.path.exists(path):
            return ctypes.CDLL(path)
    raise ImportError(f"onnxruntime: {' or '.join(tried) or 'libinlay.so.1'} does not exist; install libonnxruntime.so.1 "
                      "of inlay, or set the variable INLAY_ONNXRUNTIME_LIBRARY to the file")


class _Api:
    """The entries of the table and of OrtCompileApi as functions. Those that return a status raise its error."""

    def __init__(self):
        self._library = _load()
        self.addresses: Dict[str, int] = {}  # of the entries, by name
        base = self._library.OrtGetApiBase
        base.restype = ctypes.POINTER(c_void_p)
        get_api, get_version = base()[0:2]
        self.version = CFUNCTYPE(c_char_p)(get_version)().decode()
        table = CFUNCTYPE(c_void_p, c_uint32)(get_api)(VERSION)
        if not table:
            raise ImportError(f"onnxruntime: the library has no table of version {VERSION}: it is older than this "
                              "package")
        self._bind(table, ENTRIES)
        self._bind(self.GetCompileApi(), COMPILE_ENTRIES)

    def _bind(self, table, entries):
        for line in entries.splitlines():
            name, index, signature = line.split()
            address = c_void_p.from_address(table + int(index) * ctypes.sizeof(c_void_p)).value
            self.addresses[name] = address
            kind = CFUNCTYPE(_TYPES[signature[0]], *(_TYPES[letter] for letter in signature[1:]))
            function = kind(address)
            setattr(self, name, self._checked(function) if signature[0] == "!" else function)

    def _checked(self, function):
        def call(*arguments):
            status = function(*arguments)
            if status:
                self.throw(status)

        return call

    def throw(self, status):
        """Raises the error of a status, which is released."""
        code, text = self.GetErrorCode(status), self.GetErrorMessage(status).decode("utf-8", "replace")
        self.ReleaseStatus(status)
        raise error(code, text)


api = _Api()


def out(function, *arguments) -> int:
    """Calls a function whose last parameter receives a pointer or a number of 64 bits; returns it."""
    result = c_void_p()
    function(*arguments, byref(result))
    return result.value or 0


def out_int(function, *arguments) -> int:
    """Calls a function whose last parameter receives an int."""
    result = c_int()
    function(*arguments, byref(result))
    return result.value


def encode(text) -> bytes:
    return os.fspath(text).encode("utf-8", "surrogateescape") if not isinstance(text, bytes) else text


def strings(texts):
    """An array of pointers to strings, for a parameter of type const char *const *."""
    return (c_char_p * max(len(texts), 1))(*(encode(text) for text in texts))


def handles(values):
    """An array of the pointers of objects."""
    return (c_void_p * max(len(values), 1))(*(value.handle for value in values))


_shown = set()


@CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p, c_char_p, c_char_p)
def _log(_, severity, category, log_id, place, text):
    """Writes a message to stderr, as ONNX Runtime does; a repeated one, such as of each new session, only once."""
    line = (f"[{'VIWEF'[min(max(severity, 0), 4)]}:{category.decode()}:{log_id.decode()}] "
            f"{text.decode('utf-8', 'replace')}")
    if line not in _shown and sys.stderr is not None:
        if len(_shown) < 1000:
            _shown.add(line)
        print(time.strftime("%Y-%m-%d %H:%M:%S"), line, file=sys.stderr)


env = out(api.CreateEnvWithCustomLogger, _log, None, 2, b"Default")
allocator = out(api.GetAllocatorWithDefaultOptions)
cpu_memory = out(api.CreateCpuMemoryInfo, 0, 0)


def take_text(function, *arguments) -> str:
    """Calls a function whose last two parameters are an allocator and a char **; frees the string."""
    address = out(function, *arguments, allocator)
    if not address:
        return ""
    text = ctypes.string_at(address).decode("utf-8", "surrogateescape")
    api.AllocatorFree(allocator, address)
    return text


class Handle:
    """An object that owns a pointer, released by the function of the table named RELEASE."""

    RELEASE = ""
    __slots__ = ("handle",)

    def __init__(self, handle: int):
        self.handle = handle

    def __del__(self):
        handle, self.handle = getattr(self, "handle", 0), 0
        if handle and self.RELEASE:
            getattr(api, self.RELEASE)(handle)
