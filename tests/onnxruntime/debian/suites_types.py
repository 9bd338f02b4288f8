"""A conftest.py: the types of onnxmltools are those of skl2onnx, as they were when hummingbird's tests were written."""
import onnxmltools.convert.common.data_types as common
import skl2onnx.common.data_types as types

for name in dir(types):
    if name[0].isupper() and hasattr(common, name):
        setattr(common, name, getattr(types, name))
