"""``python -m onnxruntime.tools.make_dynamic_shape_fixed MODEL OUTPUT``: sets open dimensions, by `inlay edit`."""
import argparse

from ..capi._program import run


def make_dynamic_shape_fixed_helper():
    parser = argparse.ArgumentParser(description="Sets open dimensions of a model to sizes.")
    parser.add_argument("--dim_param", help="name of a dimension")
    parser.add_argument("--dim_value", type=int, help="its size")
    parser.add_argument("--input_name", help="name of an input")
    parser.add_argument("--input_shape", help="its shape, as 1,3,256,256")
    parser.add_argument("input_model")
    parser.add_argument("output_model")
    given = parser.parse_args()
    if (given.dim_param is None) == (given.input_name is None):
        parser.error("give either --dim_param and --dim_value, or --input_name and --input_shape")
    if given.dim_param is not None:
        if given.dim_value is None or given.dim_value < 1:
            parser.error("--dim_value must be a positive number")
        fixed = [f"{given.dim_param}={given.dim_value}"]
    else:
        if given.input_shape is None:
            parser.error("--input_shape is missing")
        sizes = given.input_shape.strip("[]() ").split(",")
        fixed = [f"{given.input_name}:{axis}={int(size)}" for axis, size in enumerate(sizes)]
    run("edit", given.input_model, "-o", given.output_model, *(word for one in fixed for word in ("--fix-dim", one)))


if __name__ == "__main__":
    make_dynamic_shape_fixed_helper()
