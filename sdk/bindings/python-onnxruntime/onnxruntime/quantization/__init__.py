"""Quantization with the functions of ONNX Runtime, by `inlay quantize` (quantize.py says what differs)."""
from ..capi._program import not_supported
from .calibrate import CalibrationDataReader, CalibrationMethod
from .quant_utils import QuantFormat, QuantizationMode, QuantType
from .quantize import (DynamicQuantConfig, QuantConfig, StaticQuantConfig, quantize, quantize_dynamic,
                       quantize_static)
from .shape_inference import quant_pre_process

globals().update(not_supported(
    __name__, ("CalibraterBase", "EntropyCalibrater", "MinMaxCalibrater", "PercentileCalibrater", "QDQQuantizer",
               "ONNXQuantizer", "TensorQuantOverridesHelper", "create_calibrator", "get_qnn_qdq_config",
               "get_qdq_config", "load_tensors_data", "write_calibration_table", "write_tensors_data"),
    "`inlay quantize --help` shows what there is"))
