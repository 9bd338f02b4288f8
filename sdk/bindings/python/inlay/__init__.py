"""inlay: ONNX models through plug-in execution providers.

    import inlay
    session = inlay.Session("model.onnx", intra_threads=2)
    result = session.run({"input": array})["output"]
"""
from ._library import lib as _lib
from .custom import operator
from .errors import (Busy, Cancelled, DeadlineExceeded, DeviceLost, InlayError, InputOutputError, InternalError,
                     InvalidArgument, InvalidModel, LimitExceeded, NotFound, OutOfMemory, ShapeMismatch, Unsupported)
from .session import Cancel, Context, Info, Model, Plan, Profile, Provider, Report, Session, options
from .values import Value

__version__ = _lib.version().decode()
__all__ = ["Session", "Context", "Value", "Cancel", "Info", "Model", "Plan", "Profile", "Provider", "Report", "operator",
           "options",
           "InlayError", "Busy", "Cancelled", "DeadlineExceeded", "DeviceLost", "InputOutputError", "InternalError",
           "InvalidArgument", "InvalidModel", "LimitExceeded", "NotFound", "OutOfMemory", "ShapeMismatch",
           "Unsupported", "__version__"]
