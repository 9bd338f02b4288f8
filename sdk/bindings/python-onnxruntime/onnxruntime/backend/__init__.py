"""ONNX's backend interface: prepare(model).run(inputs)."""
from .backend import (BackendRep, OnnxRuntimeBackend, is_compatible, is_opset_supported, prepare, run, run_model,
                      supports_device)

__all__ = ["BackendRep", "OnnxRuntimeBackend", "is_compatible", "is_opset_supported", "prepare", "run", "run_model",
           "supports_device"]
