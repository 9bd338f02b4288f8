"""The optimiser of onnxruntime.transformers, by `inlay optimize`."""
