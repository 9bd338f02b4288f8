"""optimize_model(), by `inlay optimize`, which finds attention, normalisations and activations without a model type."""
import argparse
import os
import tempfile

from ..capi._program import external, not_supported, path_of, run
from .onnx_model import OnnxModel

_LEVEL = "2"  # extended: fused operators of com.microsoft, no layouts of one machine


def optimize_model(input, model_type="bert", num_heads=0, hidden_size=0, optimization_options=None, opt_level=None,
                   use_gpu=False, only_onnxruntime=False, verbose=False, *, provider=None):
    """Returns the optimised model. model_type, num_heads and hidden_size have no effect; opt_level 0, ONNX Runtime's
    default, means the fusions without other optimisations, which are the same here."""
    if optimization_options is not None:
        raise NotImplementedError("optimize_model: inlay has no optimization_options; leave the argument out, or use "
                                  "`inlay optimize --no-pass PASS` (`inlay optimize --list` lists the passes)")
    if use_gpu or provider not in (None, "cpu", "CPUExecutionProvider"):
        raise NotImplementedError("optimize_model: inlay optimises for CPUs; omit use_gpu and provider")
    with path_of(input) as path, tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "optimized.onnx")
        run("optimize", path, "-o", output, "--level", str(opt_level or _LEVEL))
        return OnnxModel.load(output)


def optimize_by_onnxruntime(onnx_model, use_gpu=False, optimized_model_path=None, opt_level=99,
                            disabled_optimizers=None, verbose=False, save_as_external_data=False, **others):
    """Writes the optimised model and returns its path."""
    for name, value in {"use_gpu": use_gpu, "disabled_optimizers": disabled_optimizers, **others}.items():
        if value:
            raise NotImplementedError(f"optimize_by_onnxruntime: inlay has no {name}={value!r}; leave the argument out")
    with path_of(onnx_model) as path:
        output = optimized_model_path or f"{os.path.splitext(path)[0]}_o{opt_level}_cpu.onnx"
        run("optimize", path, "-o", output, "--level", str(opt_level), *external(output, save_as_external_data))
    return output


globals().update(not_supported(__name__, ("FusionOptions", "get_fusion_statistics"),
                               "`inlay optimize --explain` shows what was fused"))


def main():
    parser = argparse.ArgumentParser(description="Optimises a transformer model.")
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--model_type", default="bert")
    parser.add_argument("--num_heads", type=int, default=0)
    parser.add_argument("--hidden_size", type=int, default=0)
    parser.add_argument("--opt_level", type=int, default=None)
    parser.add_argument("--use_external_data_format", action="store_true")
    given = parser.parse_args()
    run("optimize", given.input, "-o", given.output, "--level", str(given.opt_level or _LEVEL),
        *external(given.output, given.use_external_data_format))


if __name__ == "__main__":
    main()
