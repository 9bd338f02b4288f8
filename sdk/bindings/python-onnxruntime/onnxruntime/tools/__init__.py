"""The parts of onnxruntime.tools that work on ONNX files, by `inlay optimize` and `inlay edit`."""
