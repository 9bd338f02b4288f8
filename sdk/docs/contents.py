"""The pages of the site in their order, and the files of the source tree that become pages."""

READMES = {
    "guide-python": "sdk/bindings/python/README.md",
    "guide-python-onnxruntime": "sdk/bindings/python-onnxruntime/README.md",
    "guide-cpp": "sdk/bindings/cpp/README.md",
    "guide-node": "sdk/bindings/node/README.md",
    "guide-web": "sdk/bindings/web/README.md",
    "guide-node-onnxruntime": "sdk/bindings/node-onnxruntime/README.md",
    "guide-web-onnxruntime": "sdk/bindings/web-onnxruntime/README.md",
    "guide-onnxruntime": "sdk/bindings/onnxruntime/README.md",
    "guide-java": "samples/java/README.md",
    "guide-onnxruntime-ep": "sdk/bindings/ort_ep/README.md",
    "guide-provider": "samples/provider_skeleton/README.md",
    "guide-device": "samples/device_skeleton/README.md",
    "guide-operator": "samples/custom_op/README.md",
    "guide-packaging": "sdk/packaging/README.md",
    "bench-scripts": "tests/bench/README.md",
    "bench-results": "tests/bench/results.md",
    "bench-accuracy": "tests/bench/accuracy.md",
    "bench-quantized": "tests/bench/model_accuracy.md",
    "bench-server": "tests/bench/serve.md",
    "bench-bundle": "tests/bench/bundle.md",
    "abi-promises": "sdk/abi/README.md",
    "abi-changes": "sdk/abi/CHANGELOG.md",
    "changes": "CHANGELOG.md",
    "changes-files": "sdk/packaging/changes/README.md",
}

# Files of the tree whose links lead to a generated page.
GENERATED = {
    "sdk/include/inlay/inlay.h": "api",
    "sdk/include/inlay/plugin.h": "abi",
    "sdk/bindings/onnxruntime/api.def": "api-onnxruntime",
    "ops/README.md": "types",
}

GROUPS = [
    ("Begin", ["install", "tutorial", "from-onnxruntime"]),
    ("Models", ["models", "choosing", "reading", "speed", "bounded", "quantizing", "numerics", "verifying", "prepost", "decoding",
                "bundles", "devices", "configuration", "security", "upgrading", "troubleshooting"]),
    ("Programs", ["programs", "guide-python", "guide-cpp", "guide-node", "guide-web", "guide-java", "guide-onnxruntime",
                  "guide-python-onnxruntime", "guide-node-onnxruntime", "guide-web-onnxruntime", "guide-onnxruntime-ep", "server", "machines", "guide-packaging"]),
    ("Plugins", ["operators", "guide-operator", "guide-provider", "guide-device", "plugins", "vendors", "shipping"]),
    ("Reference", ["verbs", "options", "providers", "types", "api", "api-types", "api-status", "api-cpp", "api-python",
                   "api-node", "api-web", "api-onnxruntime", "abi", "abi-graph", "abi-host", "abi-cost",
                   "abi-execution", "kit", "kit_table", "kit_node", "kit_call", "kit_shapes", "kit_group", "kit_region", "extensions", "abi-promises", "abi-changes",
                   "glossary"]),
    ("Benchmarks", ["bench-results", "bench-accuracy", "bench-quantized", "bench-server", "bench-bundle", "bench-scripts"]),
    ("Project", ["changes", "changes-files", "contributing"]),
]

# Titles in the contents, where they are shorter than the page's own.
SHORT = {
    "guide-python": "Python",
    "guide-cpp": "C++",
    "guide-node": "Node",
    "guide-web": "Web pages",
    "guide-java": "Java",
    "guide-onnxruntime": "ONNX Runtime's C library",
    "guide-python-onnxruntime": "ONNX Runtime's Python package",
    "guide-node-onnxruntime": "ONNX Runtime's Node package",
    "guide-web-onnxruntime": "ONNX Runtime's web package",
    "guide-packaging": "Packages",
    "guide-operator": "An operator in C, and a faster one",
    "guide-provider": "A provider",
    "guide-device": "A provider for a device",
    "bench-results": "Times and memory",
    "bench-accuracy": "Accuracy",
    "bench-quantized": "Quantized models",
    "bench-server": "The server",
    "bench-bundle": "Bundles",
    "bench-scripts": "Repeating them",
    "abi-promises": "Guarantees of the ABI",
    "abi-changes": "Changes of the ABI",
    "changes": "Changes",
    "changes-files": "How changes are recorded",
}
