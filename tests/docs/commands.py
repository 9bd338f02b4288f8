#!/usr/bin/env python3
"""Every command that a document shows works as it is written: each one runs here, in order, in a checkout with an
installation in ~/opt/inlay, or has a line in commands.txt that says which test runs it or why none does.

  commands.py BUILD

Commands are the indented lines of the documents below that begin as COMMAND says. Blocks with '$ ' are
those of tests/package/readme.sh, which compares their output, too."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(sys.argv[1]).resolve()
# Every README and every page. The other documents of tests/bench state how measurements were made.
DOCUMENTS = sorted(str(path.relative_to(ROOT)) for name in ("README.md", "sdk/docs/pages/*.md", "host/**/README.md",
                                                            "ops/**/README.md", "providers/**/README.md",
                                                            "samples/**/README.md", "sdk/**/README.md",
                                                            "tests/**/README.md") for path in ROOT.glob(name))
COMMAND = re.compile(r"(?:! )?(?:(?:inlay|apt|sudo|sh|cmake|ctest|ninja|npm|npx|pip|python3|node|curl|cp|mkdir|ln|"
                     r"unzip|java|javac|docker|podman|helm|kubectl|generate|git|sed|echo|sha256sum) |"
                     r"[A-Z_]+=\S+ |"
                     r"(?:tests|samples|sdk|host|build)/)")
MODEL = """
from onnx import TensorProto, helper, save
import numpy
def info(name, shape): return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
weights = helper.make_tensor("w", TensorProto.FLOAT, [3, 8], numpy.ones(24).tolist())
def model(name, x, y):
    nodes = [helper.make_node("MatMul", [x, "w"], [y])]
    graph = helper.make_graph(nodes, "g", [info(x, ["N", 3])], [info(y, ["N", 8])], [weights])
    save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), name)
model("model.onnx", "image", "y")
open("my.yaml", "w").write("policy: cost")
model("classifier.onnx", "x", "y")
model("models/model.onnx", "x", "y")
numpy.save("cat.npy", numpy.ones((1, 3), numpy.float32))
numpy.savez("samples/a.npz", image=numpy.ones((4, 1, 3), numpy.float32))
numpy.savez("inputs.npz", image=numpy.ones((1, 3), numpy.float32))
numpy.savez("results.npz", y=numpy.full((1, 8), 3, numpy.float32))
"""


def commands(document):
    """Pairs of a line number and a command; a line that ends in a backslash goes on in the next one."""
    found, block = [], []
    for number, line in enumerate([*(ROOT / document).read_text().split("\n"), ""], 1):
        if line.startswith("    "):
            block.append((number, line.strip()))
            continue
        texts = iter([] if any(text.startswith("$ ") for _, text in block) else block)
        for at, text in texts:
            while text.endswith("\\"):
                text = text[:-1] + next(texts)[1]
            if COMMAND.match(text):
                found.append((at, re.sub(r"\s+#( .*)?$", "", text)))
        block = []
    return found


def main():
    explained = {}  # (document, beginning of a command): the reason
    for line in (HERE / "commands.txt").read_text().split("\n"):
        if line and not line.startswith("#"):
            document, command, reason = line.split(" | ")
            explained[document, command] = reason
    wrong, ran, used = [], 0, set()
    with tempfile.TemporaryDirectory() as folder:
        home, work = pathlib.Path(folder) / "home", pathlib.Path(folder) / "checkout"
        shutil.copytree(BUILD / "installed", home / "opt/inlay", symlinks=True)
        work.mkdir()
        for name in os.listdir(ROOT):
            if name not in ("build", "samples"):
                (work / name).symlink_to(ROOT / name)
        for name in ("build", "samples", "models"):
            (work / name).mkdir()
        for name in os.listdir(ROOT / "samples"):
            (work / "samples" / name).symlink_to(ROOT / "samples" / name)
        (work / "build/release").symlink_to(BUILD)
        subprocess.run(["/usr/bin/python3", "-c", MODEL], cwd=work, check=True)
        environment = dict(os.environ, HOME=str(home), PATH=f"{home}/opt/inlay/bin:/usr/bin:{os.environ['PATH']}",
                           INLAY_CACHE_DIR="", PYTHONDONTWRITEBYTECODE="1")
        for document in DOCUMENTS:
            for number, command in commands(document):
                key = next((key for key in explained if key[0] == document and command.startswith(key[1])), None)
                used.add(key)
                if key is not None:
                    continue
                ran += 1
                typed = ""  # what the reader goes on with
                if command.endswith("python3"):
                    typed = "import onnxruntime" if "python-onnxruntime" in command else "import inlay"
                done = subprocess.run(["bash", "-c", command.replace("PREFIX", f"{home}/opt/inlay")], cwd=work,
                                      env=environment, input=typed, capture_output=True, text=True, timeout=300)
                if done.returncode != 0:
                    wrong.append(f"{document}:{number}: exit code {done.returncode}: {command}\n"
                                 f"{done.stdout[-500:]}{done.stderr[-500:]}")
    wrong += [f"commands.txt: no command of {key[0]} begins with: {key[1]}" for key in explained if key not in used]
    print("\n".join(wrong), end="\n" if wrong else "")
    print(f"{ran} commands ran, {len(used - {None})} are explained, {len(wrong)} are wrong")
    sys.exit(1 if wrong else 0)


if len(sys.argv) > 2:
    print(*(f"{d} | {c}" for d in DOCUMENTS for _, c in commands(d)), sep="\n")
else:
    main()
