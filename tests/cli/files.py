#!/usr/bin/env python3
"""Tests every flag that names an output file with every kind of file: special files are written in place, a regular
file completely or not at all. Output arrives on stdout, or the exit code is 1.

  files.py INLAY VERBS_DEF     the executable; host/tools/cli/verbs.def

Device nodes are created in the temporary folder, which needs root; without root they are skipped."""
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from verb_lines import PLAIN, stage_keys

INLAY, VERBS_DEF = (os.path.abspath(a) for a in sys.argv[1:3])
VERBS = [name.replace("_", "-") for name in re.findall(r"^VERB\((\w+),", pathlib.Path(VERBS_DEF).read_text(), re.M)]
ROOT = os.geteuid() == 0
NOBODY = 65534
PLUGIN = os.path.join(os.path.dirname(INLAY), "../lib/inlay/plugins/inlay-reference.so")

# verb, flag -> the rest of the line; the name of the file follows the flag. Flag "": the file is an argument.
WRITERS = {
    ("optimize", "-o"): "m.onnx",
    ("quantize", "-o"): "m.onnx",
    ("sign", "-o"): "m.onnx --key key.pem",
    ("extract", "-o"): "m.onnx --outputs y",
    ("edit", "-o"): "m.onnx --set-metadata a=b",
    ("doctor", "-o"): "m.onnx --fix --seconds 0",
    ("reduce", "-o"): "m.onnx --check false",
    ("pipe", "-o"): "m.onnx --post softmax",
    ("lock", "-o"): "m.onnx --no-time",
    ("partition", "--save"): "m.onnx",
    ("explain", "--html"): "m.onnx",
    ("explain", "--save"): "m.onnx --errors --samples 1",
    ("profile", "--trace"): "m.onnx --runs 2 --no-peak",
    ("profile", "--stacks"): "m.onnx --runs 2 --no-peak",
    ("profile", "--html"): "m.onnx --runs 2 --no-peak",
    ("inspect", "--graph"): "m.onnx",
    ("diff", "--html"): "m.onnx m.onnx",
    ("bench", "--csv"): "open.onnx --sweep batch=1 --seconds 0.02",
    ("bench", "--html"): "open.onnx --sweep batch=1 --seconds 0.02",
    ("quantize", "--front"): "m.onnx --mode static --data data -o q.onnx",
    ("quantize", "--stats"): "m.onnx --mode static --data data -o q.onnx",
    ("bundle", "-o"): "m.onnx",
    ("cache", ""): "--cache-dir cache export",
    ("cache", "-o"): "merge one.cache",
    ("plugin-check", "--certificate"): f"{PLUGIN} --quick --group file",
}
SLOW = ("bundle", "quantize --front", "quantize --stats")  # with a few kinds of files only
NO_STREAM = ("quantize --stats",)  # reads its output
# Arguments of a run with output.
PRINTS = {verb: line and re.sub("(model|classify)[.]onnx", "m.onnx", line).replace("out.onnx", "out").replace("onnx/test_one", "case").replace("features", "y")
          for verb, line in PLAIN.items()}


def make_model(path, batch):
    w = numpy_helper.from_array(np.ones((16, 16), np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [batch, 16]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", io[:1], io[1:], [w])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def line_of(verb, flag, place):
    return [verb] + WRITERS[verb, flag].split() + ([flag] if flag else []) + [place]


class Files(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp()
        os.chmod(self.top, 0o777)
        os.chdir(self.top)
        make_model("m.onnx", 1)
        make_model("open.onnx", "batch")
        stage_keys()
        os.mkdir("data")
        for i in range(2):
            np.savez(f"data/{i}.npz", x=np.full((1, 16), i, np.float32))
        os.makedirs("case/test_data_set_0")
        shutil.copy("m.onnx", "case/model.onnx")
        os.makedirs("cache/costs")
        pathlib.Path("cache/costs/machine.json").write_text('{"format": 0}')
        one = b'{"inlay":"","cpu":"","order":"little","files":[]}\n'
        sum_of = hashlib.sha256(one).hexdigest()
        pathlib.Path("one.cache").write_bytes(f"{f'inlay-cache 1 {sum_of} {len(one) - 1}':<127}\n".encode() + one)
        self.environment = dict(os.environ, INLAY_CACHE_DIR=self.top + "/cache", INLAY_PROVIDERS="reference",
                                HOME=self.top, XDG_CONFIG_HOME=self.top + "/none", TMPDIR=self.top)
        self.environment.pop("INLAY_ISA", None)  # programs of `inlay bundle` need AVX2 on x86-64
        self.maxDiff = 2000

    def tearDown(self):
        os.chdir("/")
        shutil.rmtree(self.top)

    def inlay(self, line, obeys_modes=False, **how):
        """obeys_modes: file modes apply to root, too."""
        how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
        line = [INLAY] + line
        if obeys_modes and ROOT:
            line = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] + line
        return subprocess.run(line, env=self.environment, timeout=300, check=False, **how)

    def names(self):
        return sorted(str(p) for p in pathlib.Path(".").iterdir() if p.name not in (".cache", "cache", "data", "case", "q.onnx", "one.cache"))

    def each(self, slow=False):
        """A writer, the name of its file, and the beginning of its output."""
        for verb, flag in WRITERS:
            name = f"{verb} {flag}"
            if not slow and (verb in SLOW or name in SLOW):
                continue
            place = "out.html" if name == "inspect --graph" else "out"
            with self.subTest(writer=name):
                before = self.names()
                done = self.inlay(line_of(verb, flag, place))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.names(), sorted(before + [place]), "left something behind")
                begin = pathlib.Path(place).read_bytes()[:8]
                self.assertTrue(begin)
                os.unlink(place)
                yield verb, flag, place, begin

    def test_missing_folders_are_named(self):
        """A file in a folder that does not exist: the message names the folder and the fix."""
        for verb, flag in WRITERS:
            slow = verb in SLOW or f"{verb} {flag}" in SLOW
            for place, folder in (("none/out", "none"), ("none/of/these/out", "none/of/these"))[:1 if slow else 2]:
                with self.subTest(writer=f"{verb} {flag}", place=place):
                    done = self.inlay(line_of(verb, flag, place + (".html" if flag == "--graph" else "")))
                    self.assertEqual(done.returncode, 3, done.stderr)
                    message = done.stderr.decode().splitlines()[-1]
                    self.assertIn(f"there is no folder '{folder}'; create it first (mkdir -p)", message)
                    self.assertFalse(os.path.exists("none"))
        done = self.inlay("run m.onnx --outputs none/folder".split())  # creates the last folder only
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(b"there is no folder 'none'; create it first (mkdir -p)", done.stderr)

    def test_table_is_whole(self):
        for verb in VERBS:
            text = subprocess.run([INLAY, verb, "--help-all"], capture_output=True, text=True, check=False).stdout
            text = re.sub(r"\n {20,}", " ", text)
            for name, what in re.findall(r"^ +(?:-\w, )?(--[\w-]+)=FILE +(.*)$", text, re.M):
                if re.search(r"rite|Draw|Keep", what) and verb != "serve":
                    flag = "-o" if name == "--output" else name
                    self.assertIn((verb, flag), WRITERS, what)

    def test_links(self):
        for verb, flag, place, begin in self.each(slow=True):
            os.mkdir("folder")
            os.symlink("folder/next", place)  # relative, a chain, and its end does not exist yet
            os.symlink(self.top + "/folder/end", "folder/next")
            for there in (False, True):
                done = self.inlay(line_of(verb, flag, place))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(os.path.islink(place) and os.path.islink("folder/next"), "a link was replaced")
                self.assertEqual(pathlib.Path("folder/end").read_bytes()[:8], begin)
                self.assertEqual(sorted(os.listdir("folder")), ["end", "next"])
                if not there:
                    os.chmod("folder/end", 0o640)
                    if ROOT:
                        os.chown("folder/end", NOBODY, NOBODY)
            after = os.stat("folder/end")
            self.assertEqual(after.st_mode & 0o666, 0o640)
            self.assertEqual((after.st_uid, after.st_gid), (NOBODY, NOBODY) if ROOT else (os.geteuid(), os.getegid()))
            os.unlink(place)
            shutil.rmtree("folder")

    def test_streams(self):
        for verb, flag, place, begin in self.each():
            if f"{verb} {flag}" in NO_STREAM:
                continue
            os.mkfifo(place)
            got = []
            reader = threading.Thread(target=lambda to=got, p=place: to.append(pathlib.Path(p).read_bytes()))
            reader.start()
            done = self.inlay(line_of(verb, flag, place))
            self.assertEqual(done.returncode, 0, done.stderr)
            reader.join(60)
            self.assertTrue(stat.S_ISFIFO(os.stat(place).st_mode), "the FIFO was replaced")
            self.assertEqual(got[0][:8], begin)
            os.unlink(place)
            for line in (line_of(verb, flag, "-"), line_of(verb, flag, "-") + ["--json"]):
                done = self.inlay(line)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout[:8], begin)  # messages go to stderr
                self.assertFalse(os.path.exists("-"))
                if "--json" in line:
                    printed = re.search(rb"^[{\[]", done.stderr, re.M)  # explain --html prints nothing
                    if printed is not None:
                        json.loads(done.stderr[printed.start():])

    @unittest.skipUnless(ROOT, "device nodes take root")
    def test_devices(self):
        for verb, flag, place, _ in self.each():
            for minor, code in ((3, 0), (7, 3)):  # the numbers of /dev/null and /dev/full
                os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(1, minor))
                done = self.inlay(line_of(verb, flag, place))
                self.assertTrue(stat.S_ISCHR(os.stat(place).st_mode), "the device was replaced")
                self.assertEqual(done.returncode, code, done.stderr)
                os.unlink(place)

    def test_failed_write(self):
        """A full disk, simulated by a limit whose signal would end the process."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))
        for verb, flag, place, _ in self.each():
            for old in (None, b"old"):
                if old is not None:
                    pathlib.Path(place).write_bytes(old)
                before = self.names()
                done = self.inlay(line_of(verb, flag, place), preexec_fn=limit)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(b"File too large", done.stderr)
                self.assertEqual(self.names(), before)
                if old is not None:
                    self.assertEqual(pathlib.Path(place).read_bytes(), old)
                    os.unlink(place)

    def test_folder(self):
        """A read-only folder: a new file is rejected, an existing one is overwritten in place."""
        for verb, flag, place, begin in self.each():
            os.mkdir("closed")
            inside = "closed/" + place
            os.chmod("closed", 0o555)
            done = self.inlay(line_of(verb, flag, inside), obeys_modes=True)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(os.listdir("closed"), [])
            os.chmod("closed", 0o755)
            pathlib.Path(inside).write_bytes(b"the previous content " * 9999)
            os.chmod(inside, 0o666)
            node = os.stat(inside)
            os.chmod("closed", 0o555)
            done = self.inlay(line_of(verb, flag, inside), obeys_modes=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            after = os.stat(inside)
            self.assertEqual((after.st_ino, after.st_uid), (node.st_ino, node.st_uid))
            content = pathlib.Path(inside).read_bytes()
            self.assertEqual(content[:8], begin)
            self.assertNotIn(b"the previous content", content)
            os.chmod(inside, 0o444)
            done = self.inlay(line_of(verb, flag, inside), obeys_modes=True)
            self.assertEqual(done.returncode, 3, "a file without write permission was written")
            os.chmod("closed", 0o755)
            shutil.rmtree("closed")

    def test_input(self):
        for line in ("inspect -", "run -", "optimize - -o out", "compare - -", "doctor - --seconds 0", "quantize - -o out"):
            for piped in (False, True):
                with open("m.onnx", "rb") as f, self.subTest(line=line, piped=piped):
                    model = f.read()
                    f.seek(0)
                    done = (self.inlay(line.split(), stdin=None, input=model) if piped
                            else self.inlay(line.split(), stdin=f))
                    self.assertEqual(done.returncode, 0, done.stderr)
        done = self.inlay(["check", "-"], stdin=None, input=self.inlay(["optimize", "m.onnx", "-o", "-"]).stdout)
        self.assertEqual(done.returncode, 0, done.stderr)
        # External data is stored in the working directory; a stream has no folder for it.
        self.assertEqual(self.inlay("optimize m.onnx -o e.onnx --external e.bin".split()).returncode, 0)
        done = self.inlay(["run", "-"], stdin=None, input=pathlib.Path("e.onnx").read_bytes())
        self.assertEqual(done.returncode, 0, done.stderr)
        for verb in ("optimize", "edit --set-metadata a=b", "extract --outputs y"):
            done = self.inlay(verb.split() + "e.onnx -o - --external e2.bin".split())
            self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)
            self.assertIn(b"so the tensors cannot be written", done.stderr)
            self.assertFalse(os.path.exists("e2.bin"))
        self.assertEqual(self.inlay("profile m.onnx --trace - --html -".split()).returncode, 2)

    def test_linked_models(self):
        """The cache of Hugging Face: model and external data are links into one folder of blobs. Other links out of the
        model's folder are refused."""
        self.assertEqual(self.inlay("optimize m.onnx -o e.onnx --external e.data".split()).returncode, 0)
        os.makedirs("cache1/blobs")
        os.makedirs("cache1/snapshots/abc/onnx")
        os.rename("e.onnx", "cache1/blobs/1f")
        os.rename("e.data", "cache1/blobs/2f")
        model = "cache1/snapshots/abc/onnx/model.onnx"
        os.symlink("../../../blobs/1f", model)
        os.symlink("../../../blobs/2f", "cache1/snapshots/abc/onnx/e.data")
        for line in (["run", model], ["check", model], ["doctor", model, "--seconds", "0"], ["inspect", model]):
            done = self.inlay(line)
            self.assertEqual(done.returncode, 0, done.stderr)
        os.rename("cache1/blobs/2f", "elsewhere")
        os.unlink("cache1/snapshots/abc/onnx/e.data")
        os.symlink("../../../../elsewhere", "cache1/snapshots/abc/onnx/e.data")
        done = self.inlay(["run", model])
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"is a symbolic link that leaves the folder", done.stderr)

    @unittest.skipUnless(ROOT, "another user takes root")
    def test_home_of_another_user(self):
        """A standard settings file that may not be read is a note; one that is named, an error."""
        os.makedirs("home/.config/inlay")
        pathlib.Path("home/.config/inlay/inlay.yaml").write_text("inlay:\n  intra_threads: 1\n")
        os.chmod("home", 0o700)
        environment = dict(self.environment, HOME=self.top + "/home", INLAY_CACHE_DIR="")
        environment.pop("XDG_CONFIG_HOME")
        line = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", INLAY, "run", "m.onnx"]
        how = {"env": environment, "capture_output": True, "text": True, "check": False, "timeout": 60}
        done = subprocess.run(line, **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("home/.config/inlay/inlay.yaml: not read: Permission denied", done.stderr)
        self.assertNotIn("not read", subprocess.run(line + ["--quiet"], **how).stderr)
        done = subprocess.run(line + ["--config", "home/.config/inlay/inlay.yaml"], **how)
        self.assertEqual(done.returncode, 3, done.stderr)

    @unittest.skipUnless(ROOT, "an empty /proc takes root")
    def test_no_proc(self):
        """Without /proc no plugin is loaded, and the message says why."""
        script = 'mount --make-rprivate / && mount -t tmpfs none /proc && exec "$@"'
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", INLAY, "run", "m.onnx"], check=False,
                              env=self.environment | {"INLAY_PROVIDERS": ""}, capture_output=True, text=True, timeout=60)
        if "mount:" in done.stderr or "unshare:" in done.stderr:
            self.skipTest("no namespaces")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/proc/self/maps", done.stderr)

    def test_names_of_bytes(self):
        """JSON of a path that is not UTF-8."""
        name = b"caf\xe9.onnx"
        shutil.copy("m.onnx", name)
        for line in (["run"], ["inspect"], ["bench", "--runs", "1"], ["optimize", "-o", b"o\xff.onnx"],
                     ["compare", name], ["doctor", "--seconds", "0"]):
            done = self.inlay([line[0], name, *line[1:], "--json"])
            self.assertEqual(done.returncode, 0, done.stderr)
            json.loads(done.stdout)
        done = self.inlay(["run", b"none\xe9.onnx", "--json"])
        self.assertIn("none\ufffd.onnx", json.loads(done.stdout)["error"]["text"])

    def test_full_stdout(self):
        """/dev/full, a pipe whose reader has exited, or a closed stdout."""
        self.assertEqual(set(PRINTS), set(VERBS), "verbs.def and the table differ")
        lines = [[verb] + more.split() for verb, more in PRINTS.items() if more is not None]
        lines = [line + ["--json"] for line in lines] + [line for line in lines if line[0] != "diff"]  # the same: no line
        lines += [[verb, "--help"] for verb in VERBS] + [["--help"], ["--version"], ["help", "exit-codes"]]
        if ROOT:
            os.mknod("full", stat.S_IFCHR | 0o666, os.makedev(1, 7))
        full = "full" if ROOT else "/dev/full"
        for line in lines:
            with self.subTest(line=line):
                if stat.S_ISCHR(os.stat(full).st_mode):
                    with open(full, "wb") as f:
                        done = self.inlay(line, stdout=f)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn(b"standard output cannot be written: No space left on device", done.stderr)
        with subprocess.Popen([INLAY, "inspect", "m.onnx"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              env=self.environment, preexec_fn=lambda: os.close(1)) as closed:
            self.assertIn(b"standard output cannot be written", closed.stderr.read())
            self.assertEqual(closed.wait(), 1)
        ends = os.pipe()
        os.close(ends[0])
        for ignored, code in ((True, 0), (False, -signal.SIGPIPE)):
            prepare = (lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN)) if ignored else None
            done = self.inlay(["providers"], stdout=ends[1], preexec_fn=prepare)
            self.assertEqual((done.returncode, done.stderr), (code, b""))
        os.close(ends[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
