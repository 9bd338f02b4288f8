"""onnxruntime.quantization, .tools and .transformers: arguments reach the program inlay, and what it cannot do is an
error that names it."""
import os
import tempfile
import unittest

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization
from onnxruntime.quantization import (CalibrationDataReader, CalibrationMethod, DynamicQuantConfig, QuantFormat,
                                      QuantType, StaticQuantConfig, quantize, quantize_dynamic, quantize_static)
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.tools import onnx_model_utils
from onnxruntime.transformers import optimizer

ROWS, WIDTH, HIDDEN, CLASSES = 32, 256, 1024, 256  # large enough that integers are clearly faster


def two_layers():
    """y = Relu(x * w1) * w2; its nodes are m[1], r:*, m[2]."""
    rng = numpy.random.default_rng(0)
    weights = [numpy_helper.from_array((rng.standard_normal(shape) * 0.1).astype(numpy.float32), name)
               for name, shape in (("w1", (WIDTH, HIDDEN)), ("w2", (HIDDEN, CLASSES)))]
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h"], name="m[1]"),
             helper.make_node("Relu", ["h"], ["r"], name="r:*"),
             helper.make_node("MatMul", ["r", "w2"], ["y"], name="m[2]")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", WIDTH])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


class Samples(CalibrationDataReader):
    def __init__(self, count=4):
        rng = numpy.random.default_rng(1)
        self.rows = iter([{"x": rng.standard_normal((ROWS, WIDTH)).astype(numpy.float32)} for _ in range(count)])

    def get_next(self):
        return next(self.rows, None)


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model, self.output = (os.path.join(folder.name, name) for name in ("model.onnx", "output.onnx"))
        onnx.save(two_layers(), self.model)

    def operators(self):
        """The operators of the written model, which runs and computes nearly the same."""
        x = numpy.random.default_rng(2).standard_normal((ROWS, WIDTH)).astype(numpy.float32)
        want, got = (onnxruntime.InferenceSession(path).run(None, {"x": x})[0] for path in (self.model, self.output))
        self.assertLess(numpy.abs(want - got).max(), 0.2 * numpy.abs(want).max())
        return [node.op_type for node in onnx.load(self.output).graph.node]

    def quantized(self):
        """The names of the layers with integer weights."""
        self.operators()
        graph = onnx.load(self.output).graph
        made = {node.output[0] for node in graph.node if node.op_type == "DequantizeLinear"}
        return {node.name for node in graph.node if node.op_type == "MatMul" and node.input[1] in made}

    def test_static(self):
        quantize_static(self.model, self.output, Samples())
        self.assertEqual(self.quantized(), {"m[1]", "m[2]"})
        quantize_static(onnx.load(self.model), self.output, Samples(), quant_format=QuantFormat.QOperator,
                        calibrate_method=CalibrationMethod.Percentile)
        self.assertIn("QLinearMatMul", self.operators())
        for names in {"nodes_to_exclude": ["m[2]", "r:*"]}, {"nodes_to_quantize": ["m[1]"]}:
            quantize_static(self.model, self.output, Samples(), **names)
            self.assertEqual(self.quantized(), {"m[1]"}, names)
        with self.assertLogs("onnxruntime", "WARNING") as log:
            quantize_static(self.model, self.output, Samples(), op_types_to_quantize=["Conv"])
        self.assertIn("unchanged", log.output[0])
        self.assertEqual(self.operators(), ["MatMul", "Relu", "MatMul"])
        with self.assertRaises(ValueError):
            quantize_static(self.model, self.output, Samples(0))

    def test_dynamic(self):
        for kind, share in (QuantType.QInt8, 0.3), (QuantType.QUInt8, 0.3), (QuantType.QInt4, 0.2):
            quantize_dynamic(self.model, self.output, weight_type=kind)
            self.operators()
            self.assertLess(os.path.getsize(self.output), share * os.path.getsize(self.model))
        quantize(self.model, self.output, DynamicQuantConfig(use_external_data_format=True))
        self.assertTrue(os.path.exists(self.output + ".data"))
        self.operators()

    def test_configs(self):
        quantize(self.model, self.output, StaticQuantConfig(Samples(), quant_format=QuantFormat.QDQ))
        self.assertEqual(self.quantized(), {"m[1]", "m[2]"})
        self.assertRaises(TypeError, quantize, self.model, self.output, {})

    def test_refusals(self):
        for call, part in (
                (lambda: quantize_dynamic(self.model, self.output, weight_type=QuantType.QInt16), "QInt16"),
                (lambda: quantize_dynamic(self.model, self.output, extra_options={"NoSuch": 1}), "NoSuch"),
                (lambda: quantize_static(self.model, self.output, Samples(), activation_type=QuantType.QInt16),
                 "QInt16"),
                (lambda: quantize_static(self.model, self.output, Samples(),
                                         calibrate_method=CalibrationMethod.Distribution), "Distribution"),
                (quantization.create_calibrator, "quantization.create_calibrator"),
                (lambda: optimizer.optimize_model(self.model, use_gpu=True), "use_gpu"),
                (lambda: optimizer.optimize_model(self.model).convert_float_to_float16(), "convert_float_to_float16")):
            with self.assertRaisesRegex(NotImplementedError, part):
                call()
        with self.assertRaisesRegex(Exception, "absent.onnx"):
            quantize_dynamic("absent.onnx", self.output)
        self.assertFalse(os.path.exists(self.output))

    def test_optimize(self):
        quant_pre_process(self.model, self.output)
        self.assertEqual(self.operators(), ["MatMul", "Relu", "MatMul"])
        onnx_model_utils.update_onnx_opset(self.model, 18, self.output)
        self.assertEqual(onnx.load(self.output).opset_import[0].version, 18)
        onnx_model_utils.optimize_model(self.model, self.output)
        self.operators()
        optimized = optimizer.optimize_model(onnx.load(self.model), num_heads=12)
        self.assertEqual(optimized.get_operator_statistics(), {"MatMul": 2, "Relu": 1})
        optimized.save_model_to_file(self.output)
        self.operators()
        model = onnx.load(self.model)
        onnx_model_utils.make_input_shape_fixed(model.graph, "x", [3, WIDTH])
        self.assertEqual(model.graph.output[0].type.tensor_type.shape.dim[0].dim_value, 3)


if __name__ == "__main__":
    unittest.main()
