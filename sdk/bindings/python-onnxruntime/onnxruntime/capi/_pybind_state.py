"""The names of ONNX Runtime's extension module, under the name by which its own Python code imports them."""
from .onnxruntime_pybind11_state import *  # noqa: F401,F403
