"""Errors as exceptions. Each is derived from the corresponding built-in exception."""
import collections
import ctypes
from typing import Deque, Tuple

from ._library import Diag


class InlayError(RuntimeError):
    """A failed call. ``str()`` is one sentence with the problem, its place, and the fix."""

    code = "internal error"  #: the name of the status
    node = ""                #: the affected node of the graph, if any
    tensor = ""              #: the affected tensor, if any
    error_class = 5          #: 1 retry, 2 device lost, 3 memory, 4 shape, 5 permanent


class InvalidArgument(InlayError, ValueError):
    code = "invalid argument"


class OutOfMemory(InlayError, MemoryError):
    code = "out of memory"


class NotFound(InlayError, FileNotFoundError):
    code = "not found"


class Unsupported(InlayError, NotImplementedError):
    code = "unsupported"


class InvalidModel(InlayError, ValueError):
    code = "invalid model"


class InputOutputError(InlayError, OSError):
    code = "input/output error"


class LimitExceeded(InlayError):
    code = "limit exceeded"


class ShapeMismatch(InlayError, ValueError):
    code = "wrong shape"


class Cancelled(InlayError):
    code = "cancelled"


class DeadlineExceeded(InlayError, TimeoutError):
    code = "deadline exceeded"


class DeviceLost(InlayError):
    code = "device lost"


class Busy(InlayError):
    code = "busy"


class InternalError(InlayError):
    code = "internal error"


class ResultsDiffer(InlayError):
    code = "results differ"


_BY_STATUS = {1: InvalidArgument, 2: OutOfMemory, 3: NotFound, 4: Unsupported, 5: InvalidModel, 6: InputOutputError,
              7: LimitExceeded, 8: ShapeMismatch, 9: Cancelled, 10: DeadlineExceeded, 11: DeviceLost, 12: Busy,
              13: InternalError, 14: ResultsDiffer}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


#: the latest exceptions that functions of the program raised below a call of the library, with the texts of their diags
_causes: Deque[Tuple[str, BaseException]] = collections.deque(maxlen=16)


def remember_cause(text: str, cause: BaseException) -> None:
    """Keeps an exception for the error with this text."""
    _causes.append((text, cause))


def _take_cause(text: str):
    for entry in list(_causes):
        if entry[0] in text:
            try:
                _causes.remove(entry)
            except ValueError:  # another thread took it
                continue
            return entry[1]
    return None


def error_of(status: int, diag: Diag) -> BaseException:
    """The exception of a failed call. If a function of the program caused it, its exception is __cause__, with its
    traceback; one that is no Exception, such as KeyboardInterrupt, is returned itself."""
    kind = _BY_STATUS.get(status, InternalError)
    error = kind(_text(diag.text) or kind.code)
    error.__cause__ = _take_cause(str(error)) if _causes else None
    if error.__cause__ is not None and not isinstance(error.__cause__, Exception):
        return error.__cause__
    error.node, error.tensor, error.error_class = _text(diag.node), _text(diag.tensor), diag.error_class
    return error


def check(function, *arguments):
    """Calls a function whose last parameter is an inlay_diag, and raises its error."""
    diag = Diag(struct_size=ctypes.sizeof(Diag))
    status = function(*arguments, ctypes.byref(diag))
    if status != 0:
        raise error_of(status, diag)
