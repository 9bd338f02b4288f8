"""quant_pre_process(), by `inlay optimize`."""
import os

from ..capi._program import external, path_of, run


def quant_pre_process(input_model=None, output_model_path=None, skip_optimization=False, skip_onnx_shape=False,
                      skip_symbolic_shape=False, auto_merge=False, int_max=2**31 - 1, guess_output_rank=False,
                      verbose=0, save_as_external_data=False, all_tensors_to_one_file=False,
                      external_data_location=None, external_data_size_threshold=1024, **deprecated):
    """Writes the model with the optimisations of level 1, which use standard operators only. quantize_static() and
    quantize_dynamic() infer shapes themselves, so the arguments about shapes have no effect."""
    model = input_model if input_model is not None else deprecated.pop("input_model_path", None)
    if deprecated:
        raise TypeError(f"quant_pre_process() got an unexpected keyword argument {next(iter(deprecated))!r}")
    output = os.fspath(output_model_path)
    arguments = external(output, save_as_external_data)
    if save_as_external_data and external_data_location:
        arguments = ["--external", os.path.basename(external_data_location)]
    with path_of(model) as path:
        run("optimize", path, "-o", output, "--level", "0" if skip_optimization else "1", *arguments)
