"""``python -m onnxruntime.quantization.preprocess --input MODEL --output MODEL``."""
import argparse

from .shape_inference import quant_pre_process


def main():
    parser = argparse.ArgumentParser(description="Optimises a model before its quantization.")
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--skip_optimization", type=bool, default=False)
    parser.add_argument("--save_as_external_data", type=bool, default=False)
    parser.add_argument("--external_data_location", default=None)
    arguments = parser.parse_args()
    quant_pre_process(arguments.input, arguments.output, skip_optimization=arguments.skip_optimization,
                      save_as_external_data=arguments.save_as_external_data,
                      external_data_location=arguments.external_data_location)


if __name__ == "__main__":
    main()
