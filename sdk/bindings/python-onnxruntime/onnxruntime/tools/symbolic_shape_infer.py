"""Not supported: inlay infers shapes when it loads a model, and does not write them."""
from ..capi._program import not_supported


class SymbolicShapeInference:
    infer_shapes = staticmethod(not_supported(
        __name__ + ".SymbolicShapeInference", ("infer_shapes",),
        "inlay infers shapes when it loads a model")["infer_shapes"])
