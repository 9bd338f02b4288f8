"""Changes of model files, and of models of the package onnx."""
import os
import pathlib
from typing import Sequence

from ..capi._enums import GraphOptimizationLevel
from ..capi._program import external, not_supported, run

_LEVELS = {"disable": GraphOptimizationLevel.ORT_DISABLE_ALL, "basic": GraphOptimizationLevel.ORT_ENABLE_BASIC,
           "extended": GraphOptimizationLevel.ORT_ENABLE_EXTENDED, "layout": GraphOptimizationLevel.ORT_ENABLE_LAYOUT,
           "all": GraphOptimizationLevel.ORT_ENABLE_ALL}


def get_optimization_level(level: str) -> GraphOptimizationLevel:
    if level not in _LEVELS:
        raise ValueError("Invalid optimization level of " + level)
    return _LEVELS[level]


def optimize_model(model_path: pathlib.Path, output_path: pathlib.Path,
                   level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_BASIC, log_level: int = 3,
                   use_external_initializers: bool = False):
    """Writes the optimised model."""
    output = os.fspath(output_path)
    run("optimize", os.fspath(model_path), "-o", output, "--level", str(int(level)),
        *external(output, use_external_initializers))


def update_onnx_opset(model_path: pathlib.Path, opset: int, out_path: pathlib.Path = None, logger=None):
    """Converts the model to a version of ai.onnx, and writes it to out_path, by default MODEL.opsetN.onnx."""
    path = pathlib.Path(model_path)
    output = path.with_suffix(f".opset{opset}.onnx") if out_path is None else pathlib.Path(out_path)
    run("optimize", os.fspath(path), "-o", os.fspath(output), "--level", "0", "--opset", str(opset))


def _shapes(graph):
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.HasField("tensor_type"):
            yield value.name, value.type.tensor_type.shape.dim


def make_dim_param_fixed(graph, param_name: str, value: int):
    """Sets the axes of that name, of a graph of the package onnx, to a size."""
    for _, dims in _shapes(graph):
        for dim in dims:
            if dim.dim_param == param_name:
                dim.dim_value = value


def make_input_shape_fixed(graph, input_name: str, fixed_shape: Sequence[int]):
    """Sets the open axes of an input, of a graph of the package onnx, to sizes, and with them axes of the same names."""
    for value in graph.input:
        if value.name != input_name:
            continue
        dims = value.type.tensor_type.shape.dim
        if len(dims) != len(fixed_shape):
            raise ValueError(f"Rank mismatch. Existing:{len(dims)} Replacement:{len(fixed_shape)}")
        for dim, size in zip(dims, fixed_shape):
            if dim.HasField("dim_value") and dim.dim_value != size:
                raise ValueError(f"Can't replace existing fixed size of {dim.dim_value} with {size} for {input_name}")
            name = dim.dim_param
            dim.dim_value = size
            if name:
                make_dim_param_fixed(graph, name, size)
        return
    raise ValueError(f"Input {input_name} was not found in graph inputs.")


globals().update(not_supported(
    __name__, ("ModelProtoWithShapeInfo", "fix_output_shapes", "get_opsets_imported", "get_producer_consumer_maps",
               "is_fixed_size_tensor", "iterate_graph_per_graph_func", "iterate_graph_per_node_func"),
    "`inlay inspect` and `inlay edit` show and change models"))
