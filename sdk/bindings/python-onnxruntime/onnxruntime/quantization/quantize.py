"""quantize_dynamic() and quantize_static(), by `inlay quantize`.

The program chooses layers, ranges and the form of the result by measurement: layers whose quantization would harm the
outputs, or make the model slower, stay float, weights have a scale for each channel, and 8-bit weights are int8. A
warning says why nothing was quantized."""
import os
import re
import tempfile

import numpy

from ..capi._program import external, log, path_of, run_json
from .calibrate import CalibrationDataReader, CalibrationMethod
from .quant_utils import QuantFormat, QuantType

_METHODS = {CalibrationMethod.MinMax: "minmax", CalibrationMethod.Entropy: "entropy",
            CalibrationMethod.Percentile: "percentile"}
_FORMATS = {QuantFormat.QDQ: "qdq", QuantFormat.QOperator: "qoperator"}
_BITS = {QuantType.QInt8: "8", QuantType.QUInt8: "8", QuantType.QInt4: "4", QuantType.QUInt4: "4"}
# Options that ask for what inlay does anyway, or that choose among results of the same meaning.
_EXTRA = {"MatMulConstBOnly": (True,), "WeightSymmetric": (True, False), "ActivationSymmetric": (True, False),
          "EnableSubgraph": (True, False), "ForceQuantizeNoInputCheck": (True, False), "SmoothQuant": (False,),
          "AddQDQPairToWeight": (True, False), "DedicatedQDQPair": (True, False), "QuantizeBias": (True,),
          "CalibMovingAverage": (False,), "CalibTensorRangeSymmetric": (False, True)}


def _check_extra(where, options):
    for name, value in (options or {}).items():
        if value not in _EXTRA.get(name, ()):
            raise NotImplementedError(f"{where}: inlay has no extra_options[{name!r}] = {value!r}; omit it, or "
                                      "use `inlay quantize`, whose options `inlay quantize --help` lists")


def _bits(where, name, kind):
    if kind not in _BITS:
        raise NotImplementedError(f"{where}: inlay has no {name}={kind}; there are QInt8, QUInt8, QInt4 and QUInt4")
    return _BITS[kind]


def _glob(name):
    """A pattern of --skip for the nodes of that name only."""
    return re.sub(r"([][*?\\]|^op:)", r"\\\1", name)


def _skipped(path, op_types, nodes, excluded):
    """The arguments that leave out layers: excluded ones, and those that the lists of wanted ones do not contain."""
    if not (op_types or nodes or excluded):
        return []
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "model.onnx")
        layers = run_json("quantize", path, "-o", output, "--weights", "8", "--samples", "1")["layers"]
    names = {layer["name"] for layer in layers if layer["name"] in (excluded or ()) or
             (op_types and layer["op"] not in op_types) or (nodes and layer["name"] not in nodes)}
    return [argument for name in sorted(names) for argument in ("--skip", _glob(name))]


def _report(result):
    if result["handed_back"]:
        log.warning("%s is %s: %s", result["output"], result["what"], result["handed_back"])


def quantize_dynamic(model_input, model_output, op_types_to_quantize=None, per_channel=False, reduce_range=False,
                     weight_type=QuantType.QInt8, nodes_to_quantize=None, nodes_to_exclude=None,
                     use_external_data_format=False, extra_options=None):
    """Writes a model with 8-bit weights that computes with integers, whose ranges are found in each run. Where that is
    slower, and with 4-bit weights, only the weights are integers. per_channel and reduce_range have no effect."""
    output = os.fspath(model_output)
    _check_extra("quantize_dynamic", extra_options)
    bits = _bits("quantize_dynamic", "weight_type", weight_type)
    with path_of(model_input) as path:
        fixed = [path, "-o", output, *external(output, use_external_data_format),
                 *_skipped(path, op_types_to_quantize, nodes_to_quantize, nodes_to_exclude)]
        result = run_json("quantize", *fixed, "--mode", "dynamic") if bits == "8" else {"handed_back": True}
        if result["handed_back"]:
            result = run_json("quantize", *fixed, "--weights", bits)
    _report(result)


def quantize_static(model_input, model_output, calibration_data_reader: CalibrationDataReader,
                    quant_format=QuantFormat.QDQ, op_types_to_quantize=None, per_channel=False, reduce_range=False,
                    activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, nodes_to_quantize=None,
                    nodes_to_exclude=None, use_external_data_format=False, calibrate_method=CalibrationMethod.MinMax,
                    calibration_providers=None, extra_options=None):
    """Writes a model that computes with 8-bit integers, whose ranges are found with the samples of the reader, also if it
    is not faster. per_channel, reduce_range, the sign of activations and calibration_providers have no effect."""
    output = os.fspath(model_output)
    _check_extra("quantize_static", extra_options)
    for name, kind in ("activation_type", activation_type), ("weight_type", weight_type):
        if _bits("quantize_static", name, kind) != "8":
            raise NotImplementedError(f"quantize_static: inlay computes with 8-bit integers, not {name}={kind}")
    if calibrate_method not in _METHODS:
        raise NotImplementedError(f"quantize_static: inlay has no {calibrate_method}")
    with path_of(model_input) as path, tempfile.TemporaryDirectory() as samples:
        count = 0
        for sample in iter(calibration_data_reader.get_next, None):
            numpy.savez(os.path.join(samples, f"{count:06}.npz"), **sample)
            count += 1
        if count == 0:
            raise ValueError("No data is collected.")
        _report(run_json("quantize", path, "-o", output, *external(output, use_external_data_format),
                         "--mode", "static", "--weights", "8", "--data", samples,
                         "--method", _METHODS[calibrate_method],
                         "--format", _FORMATS[quant_format],
                         *_skipped(path, op_types_to_quantize, nodes_to_quantize, nodes_to_exclude)))


class QuantConfig:
    def __init__(self, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, op_types_to_quantize=None,
                 nodes_to_quantize=None, nodes_to_exclude=None, per_channel=False, reduce_range=False,
                 use_external_data_format=False):
        self.activation_type = activation_type
        self.weight_type = weight_type
        self.op_types_to_quantize = op_types_to_quantize
        self.nodes_to_quantize = nodes_to_quantize
        self.nodes_to_exclude = nodes_to_exclude
        self.per_channel = per_channel
        self.reduce_range = reduce_range
        self.use_external_data_format = use_external_data_format

    def _common(self):
        return {name: getattr(self, name) for name in (
            "op_types_to_quantize", "per_channel", "reduce_range", "weight_type", "nodes_to_quantize",
            "nodes_to_exclude", "use_external_data_format")}


class StaticQuantConfig(QuantConfig):
    def __init__(self, calibration_data_reader, calibrate_method=CalibrationMethod.MinMax, quant_format=QuantFormat.QDQ,
                 activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, op_types_to_quantize=None,
                 nodes_to_quantize=None, nodes_to_exclude=None, per_channel=False, reduce_range=False,
                 use_external_data_format=False, calibration_providers=None, extra_options=None):
        super().__init__(activation_type, weight_type, op_types_to_quantize, nodes_to_quantize, nodes_to_exclude,
                         per_channel, reduce_range, use_external_data_format)
        self.calibration_data_reader = calibration_data_reader
        self.calibrate_method = calibrate_method
        self.quant_format = quant_format
        self.calibration_providers = calibration_providers
        self.extra_options = extra_options or {}


class DynamicQuantConfig(QuantConfig):
    def __init__(self, weight_type=QuantType.QInt8, op_types_to_quantize=None, nodes_to_quantize=None,
                 nodes_to_exclude=None, per_channel=False, reduce_range=False, use_external_data_format=False,
                 extra_options=None):
        super().__init__(QuantType.QUInt8, weight_type, op_types_to_quantize, nodes_to_quantize, nodes_to_exclude,
                         per_channel, reduce_range, use_external_data_format)
        self.extra_options = extra_options or {}


def quantize(model_input, model_output, quant_config):
    """quantize_static() or quantize_dynamic(), as the class of the configuration says."""
    if isinstance(quant_config, StaticQuantConfig):
        quantize_static(model_input, model_output, quant_config.calibration_data_reader,
                        quant_format=quant_config.quant_format, activation_type=quant_config.activation_type,
                        calibrate_method=quant_config.calibrate_method,
                        calibration_providers=quant_config.calibration_providers,
                        extra_options=quant_config.extra_options, **quant_config._common())
    elif isinstance(quant_config, DynamicQuantConfig):
        quantize_dynamic(model_input, model_output, extra_options=quant_config.extra_options, **quant_config._common())
    else:
        raise TypeError("Invalid quantization config type, it must be either StaticQuantConfig or DynamicQuantConfig.")
