#!/usr/bin/python3
"""Triton's example clients, and its unit tests of HTTP and gRPC clients, with this server.
    triton_clients.py INLAY_SERVE EXAMPLES [QA]

EXAMPLES is src/python/examples of https://github.com/triton-inference-server/client, QA the folder qa of
https://github.com/triton-inference-server/server. The package tritonclient must be importable. The models are made
here; a client passes if it ends with 0. The last line has the counts."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from onnx import TensorProto, helper, numpy_helper
import numpy as np

STRING, INT32, INT64 = TensorProto.STRING, TensorProto.INT32, TensorProto.INT64
FLOAT = TensorProto.FLOAT
# They need other backends (Python, CUDA), models with images, or ports of their own.
LEFT_OUT = re.compile(r"cudashm|image|custom_repeat|memory_growth|^grpc_client|simple_grpc_custom_args")
EXPLICIT = re.compile(r"model_control")
# They need an option of Triton's that this server does not have: methods that need a header, set by
# --grpc-restricted-protocol.
LEFT_OUT_TESTS = re.compile(r"RestrictedProtocolTest")
LIMIT = 120 # seconds for a test
# Of L0_sequence_batcher, the tests of states without batches. The others expect Triton's schedule of batches.
SEQUENCES = {"BACKENDS": "onnx", "NO_BATCHING": "1", "MODEL_INSTANCES": "1", "IMPLICIT_STATE": "1", "ENSEMBLES": "0",
             "INITIAL_STATE_FILE": "0", "BATCHER_TYPE": "FIXED"}
SEQUENCE_TESTS = ("simple_sequence", "length1_sequence", "no_correlation_id", "no_sequence_start", "no_sequence_start2",
                  "no_sequence_end")


def info(name, code, shape):
    return helper.make_tensor_value_info(name, code, shape)


def save(folder, name, nodes, inputs, outputs, constants=(), config=""):
    path = folder / name / "1"
    path.mkdir(parents=True)
    graph = helper.make_graph(nodes, name, inputs, outputs, list(constants))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (path / "model.onnx").write_bytes(made.SerializeToString())
    if config:
        (folder / name / "config.pbtxt").write_text(config)


def write_models(folder):
    """simple: sum and difference; the same of strings; identities; and a sequence."""
    node = helper.make_node
    shape = ["batch", 16]
    pair = lambda code: ([info(f"INPUT{i}", code, shape) for i in range(2)],
                         [info(f"OUTPUT{i}", code, shape) for i in range(2)])
    for name, code in (("simple", INT32), ("simple_int8", TensorProto.INT8)):
        save(folder, name, [node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]),
                            node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"])], *pair(code),
             config="max_batch_size: 8\n")
    save(folder, "simple_string", [
        node("Cast", ["INPUT0"], ["a"], to=INT32), node("Cast", ["INPUT1"], ["b"], to=INT32),
        node("Add", ["a", "b"], ["sum"]), node("Sub", ["a", "b"], ["difference"]),
        node("Cast", ["sum"], ["OUTPUT0"], to=STRING), node("Cast", ["difference"], ["OUTPUT1"], to=STRING)],
         *pair(STRING), config="max_batch_size: 8\n")
    for name, code, dims in (("simple_identity", STRING, ["batch", "n"]), ("string_identity", STRING, ["n"]),
                             ("simple_identity_int64", INT64, ["batch", "n"]),
                             ("onnx_zero_1_float32", FLOAT, ["batch", "n"]), ("onnx_zero_1_object", STRING, ["n"]),
                             ("onnx_zero_1_object_1_element", STRING, [1]),
                             ("onnx_zero_1_float16", TensorProto.FLOAT16, ["m", "n"])):
        save(folder, name, [node("Identity", ["INPUT0"], ["OUTPUT0"])], [info("INPUT0", code, dims)],
             [info("OUTPUT0", code, dims)])
    save(folder, "onnx_zero_3_float32", [node("Identity", [f"INPUT{i}"], [f"OUTPUT{i}"]) for i in range(3)],
         [info(f"INPUT{i}", FLOAT, ["batch", 8]) for i in range(3)],
         [info(f"OUTPUT{i}", FLOAT, ["batch", 8]) for i in range(3)])
    # Adds 1 to the first input of a sequence.
    save(folder, "simple_sequence",
         [node("Sub", ["one", "past"], ["first"]), node("Add", ["INPUT", "first"], ["OUTPUT"]),
          node("Max", ["past", "one"], ["present"])],
         [info("INPUT", INT32, [1, 1]), info("past", INT32, [1, 1])],
         [info("OUTPUT", INT32, [1, 1]), info("present", INT32, [1, 1])],
         [numpy_helper.from_array(np.array([[1]], np.int32), "one")],
         'sequence_batching { }\nparameters: { key: "state" value { string_value: "past=present" } }\n')
    # The sums of sequences, for L0_sequence_batcher.
    batching = 'sequence_batching { max_sequence_idle_microseconds: 5000000 }\n'
    for name, code in (("int32", INT32), ("bool", INT32), ("object", STRING)):
        sums = [node("Cast", ["INPUT"], ["number"], to=INT32), node("Add", ["number", "past"], ["present"])]
        save(folder, f"onnx_nobatch_sequence_{name}",
             [*sums, node("Identity", ["INPUT" if code == STRING else "present"], ["OUTPUT"])],
             [info("INPUT", code, [1]), info("past", INT32, [1])],
             [info("OUTPUT", code, [1]), info("present", INT32, [1])],
             config=batching + 'parameters: { key: "state" value { string_value: "past=present" } }\n')


def start(program, folder, *flags):
    process = subprocess.Popen([program, str(folder), "--no-config", "--port", "0", "--grpc-port", "0",
                                "--shared-memory", "1", *flags], stderr=subprocess.PIPE, text=True)
    text = ""
    for line in process.stderr:
        text += line
        if ": ready" in line:
            http = re.search(r"http://(127\.0\.0\.1:\d+)", text).group(1)
            return process, http, re.search(r"[Gg][Rr][Pp][Cc]\D*(127\.0\.0\.1:\d+)", text).group(1)
    sys.exit(f"the server does not start: {text}")


def outcome(command, folder):
    try:
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return "does not end"
    lines = [line for line in (ran.stdout + ran.stderr).splitlines() if line.strip()]
    return "" if ran.returncode == 0 else " | ".join(lines[-3:])[-400:]


def copy(path, http, grpc, folder):
    """Copies a module of tests, with the addresses of this server."""
    text = path.read_text().replace("localhost:8000", http).replace("localhost:8001", grpc)
    for port, address in ((8000, http), (8001, grpc)):
        text = text.replace(f'f"{{_tritonserver_ipaddr}}:{port}"', repr(address))
    copied = folder / path.name
    copied.write_text(text.replace('"../common"', repr(str(path.parent.parent / "common"))))
    return copied.stem


LIST = """
import sys, unittest
def names(suite):
    for one in suite:
        yield from names(one) if isinstance(one, unittest.TestSuite) else [one.id()]
print(*names(unittest.defaultTestLoader.loadTestsFromName(sys.argv[1])))"""


def units(path, http, grpc, folder, tests=""):
    """The tests of a file with the addresses of this server, each in a process of its own."""
    module = copy(path, http, grpc, folder)

    def python(*arguments):
        return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=LIMIT,
                              check=False, env={**os.environ, **SEQUENCES})

    listed = python("-c", LIST, module + tests)
    if listed.returncode != 0 or "_FailedTest" in listed.stdout:
        yield path.name, (listed.stdout + listed.stderr)[-400:]
        return
    for name in listed.stdout.split():
        if LEFT_OUT_TESTS.search(name):
            continue
        try:
            ran = python("-m", "unittest", name)
        except subprocess.TimeoutExpired:
            yield name, f"does not end within {LIMIT} s"
            continue
        reason = re.search(r"^((?:\w+Error|\w+Exception|\w+\.\w+)\b.*?)^(?:-----|=====)", ran.stderr, re.M | re.S)
        if "skipped=" not in ran.stderr:
            yield name, "" if ran.returncode == 0 else (reason.group(1) if reason else ran.stderr).strip()[:400]


def main():
    program, examples, *more = sys.argv[1:]
    counts = {False: 0, True: 0}

    def note(name, text):
        counts[bool(text)] += 1
        print(f"{name}: {text or 'passed'}", flush=True)

    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        write_models(place / "models")
        if importlib.util.find_spec("ml_dtypes") is None: # their helpers compare types with it
            (place / "ml_dtypes.py").write_text("bfloat16 = None\n")
        (place / "tokens").write_text("")
        process, http, grpc = start(program, place / "models")
        for path in sorted(pathlib.Path(examples).resolve().glob("*.py")):
            if not LEFT_OUT.search(path.name) and not EXPLICIT.search(path.name):
                url = grpc if "grpc" in path.name else http
                note(path.name, outcome([sys.executable, str(path), "-u", url], place))
        for name in ("L0_http/http_test.py", "L0_http/python_http_aio_test.py", "L0_grpc/python_unit_test.py",
                     "L0_grpc/python_grpc_aio_test.py"):
            for qa in more:
                for test, text in units(pathlib.Path(qa).resolve() / name, http, grpc, place):
                    note(test, text)
        process.terminate()
        process.wait()
        for test in SEQUENCE_TESTS if more else ():
            process, http, grpc = start(program, place / "models") # its statistics begin at 0
            qa = pathlib.Path(more[0]).resolve()
            copy(qa / "common/sequence_util.py", http, grpc, place)
            for name, text in units(qa / "L0_sequence_batcher/sequence_batcher_test.py", http, grpc, place,
                                    f".SequenceBatcherTest.test_{test}"):
                note(name, text)
            process.terminate()
            process.wait()
    print(f"{counts[False]} passed, {counts[True]} failed")
    return counts[True] > 0


if __name__ == "__main__":
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.exit(main())
