"""Exports that do not load: `inlay doctor` names the mistake and how to export again.

    broken_exports.py INLAY

Each row of the table writes a broken model, as exporters and downloads leave them, and states the code of the finding
and words of its line. `inlay check` must also refuse each model with an error, so no row is about a sound model."""
import json
import os
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
rows = []


def row(code, *words, severity="error"):
    """Adds a function of a folder, which writes model.onnx, to the table."""
    def add(write):
        rows.append((write.__name__, write, severity, code, words))
        return write
    return add


def model(nodes, opset=17, imports=None, weights=(), inputs=(("x", FLOAT, [2, 3]),), outputs=(("y", FLOAT, None),), ir=8):
    graph = helper.make_graph(nodes, "main_graph",
                              [helper.make_tensor_value_info(*each) for each in inputs],
                              [helper.make_tensor_value_info(*each) for each in outputs], list(weights))
    opsets = [("", opset)] if imports is None else imports
    return helper.make_model(graph, ir_version=ir, opset_imports=[helper.make_opsetid(*each) for each in opsets])


def save(made, folder):
    with open(os.path.join(folder, "model.onnx"), "wb") as file:
        file.write(made.SerializeToString())


def node(op, inputs, outputs, name="n", **attributes):
    return helper.make_node(op, inputs, outputs, name=name, **attributes)


# ---- operators of PyTorch's exporters
@row("aten-operator", "aten::_foo", "operator_export_type", "dynamo=True")
def aten_fallback(folder):
    save(model([node("ATen", ["x"], ["y"], domain="org.pytorch.aten", operator="_foo")],
               imports=[("", 17), ("org.pytorch.aten", 1)]), folder)


@row("aten-operator", "2 nodes", "aten::grid_sampler", "dynamo=True")
def aten_twice(folder):
    save(model([node("ATen", ["x"], ["t"], "a", domain="org.pytorch.aten", operator="grid_sampler"),
                node("ATen", ["t"], ["y"], "b", domain="org.pytorch.aten", operator="grid_sampler")],
               imports=[("", 17), ("org.pytorch.aten", 1)]), folder)


@row("aten-operator", "aten::unique", "dynamo=True")
def aten_as_domain(folder):
    save(model([node("unique", ["x"], ["y"], domain="aten")], imports=[("", 17), ("aten", 1)]), folder)


@row("prim-operator", "prim::ListConstruct", "dynamo=True")
def prim_list(folder):
    save(model([node("ListConstruct", ["x"], ["y"], domain="prim")], imports=[("", 17), ("prim", 1)]), folder)


@row("prim-operator", "prim::PythonOp", "symbolic")
def prim_python(folder):
    save(model([node("PythonOp", ["x"], ["y"], domain="prim")], imports=[("", 17), ("prim", 1)]), folder)


@row("prim-operator", "onnx::Placeholder", "symbolic")
def fall_through(folder):
    save(model([node("Placeholder", ["x"], ["y"], domain="onnx")], imports=[("", 17), ("onnx", 1)]), folder)


# ---- operators of others
@row("custom-domain", "mmdeploy", "--plugin-dirs")
def domain_mmdeploy(folder):
    save(model([node("NMSRotated", ["x"], ["y"], domain="mmdeploy")], imports=[("", 17), ("mmdeploy", 1)]), folder)


@row("custom-domain", "my.company", "3 nodes", "--plugin-dirs")
def domain_of_company(folder):
    save(model([node("Foo", ["x"], ["a"], "a", domain="my.company"), node("Foo", ["a"], ["b"], "b", domain="my.company"),
                node("Bar", ["b"], ["y"], "c", domain="my.company")], imports=[("", 17), ("my.company", 1)]), folder)


@row("custom-domain", "TRT", "--plugin-dirs")
def domain_tensorrt(folder):
    save(model([node("EfficientNMS_TRT", ["x"], ["y"], domain="TRT")], imports=[("", 17), ("TRT", 1)]), folder)


@row("saved-for-one-cpu", "ReorderInput", "highest level", "extended")
def layout_of_one_cpu(folder):
    save(model([node("ReorderInput", ["x"], ["y"], domain="com.microsoft.nchwc")],
               imports=[("", 17), ("com.microsoft.nchwc", 1)]), folder)


@row("operator-unknown", "BatchedNMS_TRT")
def standard_domain_custom(folder):
    save(model([node("BatchedNMS_TRT", ["x"], ["y"])]), folder)


@row("opset-too-old", "Gelu", "opset 20", "opset_version")
def gelu_early(folder):
    save(model([node("Gelu", ["x"], ["y"])], opset=17), folder)


# ---- opset imports and versions
@row("opset-import-missing", "ai.onnx.ml", "opset_imports", severity="warning")
def import_missing_ml(folder):
    save(model([node("Normalizer", ["x"], ["y"], domain="ai.onnx.ml")]), folder)


@row("opset-import-missing", "com.microsoft", "opset_imports", severity="warning")
def import_missing_microsoft(folder):
    save(model([node("FastGelu", ["x"], ["y"], domain="com.microsoft")]), folder)


@row("opset-too-new", "99", "opset_version")
def opset_too_new(folder):
    save(model([node("Relu", ["x"], ["y"])], opset=99), folder)


@row("opset-too-new", "IR", "ir_version")
def ir_too_new(folder):
    save(model([node("Relu", ["x"], ["y"])], ir=99), folder)


# ---- external data
def with_external(folder, cut=None, remove=False, location="model.onnx.data", length=None):
    made = model([node("MatMul", ["x", "w"], ["y"])],
                 weights=[numpy_helper.from_array(numpy.ones((3, 400), numpy.float32), "w")])
    weight = made.graph.initializer[0]
    data = bytes(weight.raw_data)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(length or len(data)))):
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    if not remove:
        with open(os.path.join(folder, "model.onnx.data"), "wb") as file:
            file.write(data[:cut])
    save(made, folder)


@row("external-data-missing", "model.onnx.data", "folder")
def external_missing(folder):
    with_external(folder, remove=True)


@row("external-data-missing", "backslash", "Windows")
def external_backslash(folder):
    with_external(folder, location="sub\\w.bin")
    os.makedirs(os.path.join(folder, "sub"))
    os.rename(os.path.join(folder, "model.onnx.data"), os.path.join(folder, "sub", "w.bin"))


@row("external-data-cut-off", "model.onnx.data", "copy")
def external_cut(folder):
    with_external(folder, cut=1000)


@row("external-data-cut-off", "model.onnx.data", "copy")
def external_empty(folder):
    with_external(folder, cut=0)


@row("external-data-missing", "outside", "folder")
def external_elsewhere(folder):
    with_external(folder, location="/home/user/model.onnx.data")


@row("external-data-wrong", "length")
def external_length(folder):
    with_external(folder, length=100)


@row("external-data-missing", "git lfs pull")
def external_is_pointer(folder):
    with_external(folder, remove=True)
    with open(os.path.join(folder, "model.onnx.data"), "w") as file:
        file.write("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4800\n")


# ---- files that are no model, or a part of one
def write(folder, data, name="model.onnx"):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


@row("file-cut-off", "copy")
def cut_off(folder):
    made = model([node("MatMul", ["x", "w"], ["y"])],
                 weights=[numpy_helper.from_array(numpy.ones((3, 4000), numpy.float32), "w")])
    write(folder, made.SerializeToString()[:9000])


@row("two-gib-limit", "external_data=True", "2 GiB")
def cut_off_at_two_gib(folder):
    made = model([node("MatMul", ["x", "w"], ["y"])],
                 weights=[numpy_helper.from_array(numpy.ones((3, 4000), numpy.float32), "w")])
    path = os.path.join(folder, "model.onnx")
    write(folder, made.SerializeToString()[:9000])
    os.truncate(path, 2**31 - 1)  # no disk space: the file has a hole


@row("not-onnx", "Git LFS", "git lfs pull")
def lfs_pointer(folder):
    write(folder, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4800\n")


@row("not-onnx", "web page", "download")
def web_page(folder):
    write(folder, b"<!DOCTYPE html>\n<html><head><title>Not found</title></head></html>\n")


@row("not-onnx", "torch checkpoint", "export")
def torch_checkpoint(folder):
    write(folder, b"PK\x03\x04" + b"\0" * 26 + b"archive/data.pkl" + b"\0" * 100)


@row("not-onnx", "safetensors", "export")
def safetensors(folder):
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    write(folder, len(header).to_bytes(8, "little") + header + b"\0" * 4)


@row("not-onnx", "TensorFlow Lite", "tf2onnx")
def tflite(folder):
    write(folder, b"\x1c\0\0\0TFL3" + b"\0" * 100)


@row("not-onnx", "gzip", "gunzip")
def compressed(folder):
    write(folder, b"\x1f\x8b\x08\0" + b"\0" * 100)


# Other kinds of files: name, first bytes, words of the message.
for kind, magic, *words in (
        ("ggml", b"tjgg\3\0\0\0", "GGML"),
        ("old_checkpoint", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.", "pickle", "torch"),
        ("pickle", b"\x80\x04\x95\x0b\0\0\0\0\0\0\0}\x94\x8c\x01w", "pickle"), ("numpy_array", b"\x93NUMPY\1\0v\0{'descr'", "NumPy"),
        ("openvino", b"<?xml version=\"1.0\"?>\n<net name=\"m\">", "OpenVINO"), ("ncnn", b"7767517\n2 2\n", "ncnn"),
        ("xz", b"\xfd7zXZ\0\0\4", "unxz"), ("zstandard", b"\x28\xb5\x2f\xfd\4", "unzstd"), ("bzip2", b"BZh91AY&SY", "bunzip2"),
        ("json_file", b"{\n  \"architectures\": []\n}\n", "JSON", ".onnx"), ("ort_format", b"\x18\0\0\0ORTM", "ORT format")):
    def other_kind(folder, magic=magic):
        write(folder, magic + b"\0" * 100)

    other_kind.__name__ = kind
    row("not-onnx", *words)(other_kind)


@row("model-invalid", "damaged GGUF")
def gguf(folder):
    write(folder, b"GGUF\3\0\0\0" + b"\0" * 100)


@row("not-onnx", "empty")
def empty(folder):
    write(folder, b"")


# ---- graphs
@row("wrong-type", "Conv", "bfloat16", "--fix")
def bfloat16_conv(folder):
    made = model([node("Conv", ["x", "w"], ["y"])], opset=20, inputs=(("x", TensorProto.BFLOAT16, [1, 2, 4, 4]),),
                 outputs=(("y", TensorProto.BFLOAT16, None),), weights=[
                     helper.make_tensor("w", TensorProto.BFLOAT16, [2, 2, 1, 1], numpy.ones(4, numpy.float32))])
    save(made, folder)


@row("wrong-type", "ScatterND", "int64", "--fix")
def int32_indices(folder):
    made = model([node("ScatterND", ["x", "i", "u"], ["y"])], opset=17, weights=[
        numpy_helper.from_array(numpy.array([[0]], numpy.int32), "i"),
        numpy_helper.from_array(numpy.zeros((1, 3), numpy.float32), "u")])
    save(made, folder)


@row("wrong-type", "Conv", "same type")
def float_weights(folder):
    made = model([node("Conv", ["x", "w"], ["c"]), node("Add", ["c", "b"], ["y"], "a")], opset=22, ir=10,
                 inputs=(("x", TensorProto.BFLOAT16, [1, 2, 4, 4]),), outputs=(("y", TensorProto.BFLOAT16, None),),
                 weights=[numpy_helper.from_array(numpy.ones((2, 2, 1, 1), numpy.float32), "w"),
                          numpy_helper.from_array(numpy.ones((2, 1, 1), numpy.float32), "b")])
    save(made, folder)


@row("wrong-type", "Add", "same type")
def two_answers(folder):
    save(model([node("Cast", ["x"], ["h"], "h", to=TensorProto.FLOAT16), node("Add", ["x", "h"], ["y"])]), folder)


@row("wrong-type", "MatMul", "Cast")
def mixed_types(folder):
    made = model([node("MatMul", ["x", "w"], ["y"])],
                 weights=[numpy_helper.from_array(numpy.ones((3, 3), numpy.float16), "w")])
    save(made, folder)


@row("value-undefined", "'nowhere'")
def undefined_value(folder):
    save(model([node("Add", ["x", "nowhere"], ["y"])]), folder)


# What --fix does with some of them: Casts, and the opset if it is raised. None: nothing, because two repairs are possible.
REPAIRS = {"bfloat16_conv": (0, 22), "int32_indices": (1, 0), "float_weights": (2, 0), "mixed_types": (1, 0),
           "two_answers": None, "undefined_value": None}


def repair(inlay, name, path, folder):
    """Runs doctor --fix; returns the faults."""
    fixed = os.path.join(folder, "fixed.onnx")
    status, out, err = diagnose(inlay, path, "--fix", "-o", fixed, "--json")
    if REPAIRS[name] is None:
        return [] if status == 4 and not os.path.exists(fixed) and "no repair" in err else [f"--fix: {status} {out} {err}"]
    if status != 0:
        return [f"--fix: exit code {status}: {out} {err}"]
    written = json.loads(out)["written"]
    if (written["casts"], written["opset"]) != REPAIRS[name]:
        return [f"--fix: {written}"]
    ran = subprocess.run([inlay, "run", fixed, "--no-config"], capture_output=True, text=True, timeout=120)
    return [] if ran.returncode == 0 else ["the repaired model does not run: " + ran.stderr]


def scatter_is_right(inlay):
    """The repaired ScatterND computes what int64 indices compute."""
    with tempfile.TemporaryDirectory() as folder:
        int32_indices(folder)
        fixed = os.path.join(folder, "fixed.onnx")
        diagnose(inlay, os.path.join(folder, "model.onnx"), "--fix", "-o", fixed)
        numpy.save(os.path.join(folder, "x.npy"), numpy.arange(6, dtype=numpy.float32).reshape(2, 3))
        subprocess.run([inlay, "run", fixed, "--no-config", "--input", f"x={folder}/x.npy", "--outputs", folder],
                       capture_output=True, timeout=120, check=False)
        try:
            got = numpy.load(os.path.join(folder, "y.npy"))
        except OSError:
            return False
        return numpy.array_equal(got, [[0, 0, 0], [3, 4, 5]])


def diagnose(inlay, path, *flags):
    ran = subprocess.run([inlay, "doctor", path, "--no-config", "--seconds", "0", *flags], capture_output=True, text=True, timeout=120)
    return ran.returncode, ran.stdout, ran.stderr


def main():
    inlay = sys.argv[1]
    only = sys.argv[2:]
    wrong = 0
    for name, build, severity, code, words in rows:
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            build(folder)
            path = os.path.join(folder, "model.onnx")
            status, out, err = diagnose(inlay, path)
            lines = [line for line in out.splitlines() if line.startswith(f"{severity:8}{code}: ")]
            faults = []
            if status not in (1, 3, 4):
                faults.append(f"exit code {status}")
            if not lines:
                faults.append(f"no line of {code}")
            faults += [f"no '{word}'" for word in words if not any(word in line for line in lines)]
            status, out_json, _ = diagnose(inlay, path, "--json")
            try:
                found = json.loads(out_json)["findings"]
                if not any(each["code"] == code and each["severity"] == severity for each in found):
                    faults.append("not in --json")
            except (ValueError, KeyError):
                faults.append("no JSON: " + out_json[:200])
            refused = subprocess.run([inlay, "check", path, "--no-config"], capture_output=True, timeout=120).returncode
            if severity == "error" and refused == 0:
                faults.append("inlay check accepts it")
            if name in REPAIRS:
                faults += repair(inlay, name, path, folder)
            if severity == "warning":  # one that --fix repairs
                fixed = os.path.join(folder, "fixed.onnx")
                diagnose(inlay, path, "--fix", "-o", fixed)
                status, out_fixed, err_fixed = diagnose(inlay, fixed)
                if status == 3 or code in out_fixed:
                    faults.append("not repaired: " + out_fixed + err_fixed)
            if faults:
                wrong += 1
                print(f"{name}: {'; '.join(faults)}\n  stdout: {out.strip()}\n  stderr: {err.strip()}")
    if not scatter_is_right(inlay):
        wrong += 1
        print("the repaired ScatterND computes something else")
    print(f"{len(rows)} broken exports, {wrong} wrong")
    return wrong > 0 or not rows


if __name__ == "__main__":
    sys.exit(main())
