"""Not supported: inlay reads and writes ONNX files, no files in ORT format."""
from ..capi._program import not_supported

globals().update(not_supported(__name__, ("convert_onnx_models_to_ort",), "it runs ONNX files"))

if __name__ == "__main__":
    convert_onnx_models_to_ort()  # noqa: F821
