"""inlay: ONNX models through plug-in execution providers.

    import inlay
    session = inlay.Session("model.onnx", intra_threads=2)
    result = session.run({"input": array})["output"]
"""
from ._library import lib as _lib
from .custom import operator
from .errors import (Busy, Cancelled, DeadlineExceeded, DeviceLost, InlayError, InputOutputError, InternalError,
                     InvalidArgument, InvalidModel, LimitExceeded, NotFound, OutOfMemory, ResultsDiffer, ShapeMismatch,
                     Unsupported)
from .session import (Cancel, Context, Device, Info, Model, Plan, Profile, Provider, Report, Session, devices,
                      optimize, options)
from .text import Text, TextModel, TextUsage
from .values import Value

__version__ = _lib.version().decode()
__all__ = ["Session", "Context", "Value", "Cancel", "Device", "Info", "Model", "Plan", "Profile", "Provider", "Report",
           "Text", "TextModel", "TextUsage", "devices", "operator", "optimize", "options",
           "InlayError", "Busy", "Cancelled", "DeadlineExceeded", "DeviceLost", "InputOutputError", "InternalError",
           "InvalidArgument", "InvalidModel", "LimitExceeded", "NotFound", "OutOfMemory", "ResultsDiffer",
           "ShapeMismatch",
           "Unsupported", "__version__"]
