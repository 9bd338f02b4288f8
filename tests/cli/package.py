#!/usr/bin/env python3
"""Tests model packages: inlay pack, the choice of a variant by price and error, packages of ONNX Runtime, and those that
are refused.

  package.py INLAY     the executable
"""
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import numpy as np
from onnx import TensorProto, external_data_helper, helper, load, numpy_helper, save

INLAY = os.path.abspath(sys.argv[1])
ADMIN = "0123456789abcdef0123456789abcdef"
RNG = np.random.default_rng(7)


def save_model(path):
    """Three matrix multiplications, and a table that stays float in every precision."""
    table = numpy_helper.from_array(RNG.standard_normal((8, 256)).astype(np.float32), "table")
    nodes, weights, current = [], [table], "x"
    for i in range(3):
        weights.append(numpy_helper.from_array((RNG.standard_normal((256, 256)) / 16).astype(np.float32), f"w{i}"))
        nodes += [helper.make_node("MatMul", [current, f"w{i}"], [f"m{i}"]), helper.make_node("Relu", [f"m{i}"], [f"r{i}"])]
        current = f"r{i}"
    nodes.append(helper.make_node("Add", [current, "table"], ["y"]))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [8, 256])],
                              [value("y", TensorProto.FLOAT, [8, 256])], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp()
        os.chdir(cls.top)
        save_model("model.onnx")
        done = cls.inlay("pack", "model.onnx", "--variants", "fp32,int8,int4", "-o", "model.pkg", "--json")
        cls.packed = json.loads(done.stdout)

    @classmethod
    def tearDownClass(cls):
        os.chdir("/")
        shutil.rmtree(cls.top)

    @classmethod
    def inlay(cls, *words, code=0):
        environment = dict(os.environ, INLAY_CACHE_DIR="", XDG_CONFIG_HOME=cls.top + "/none", HOME=cls.top)
        done = subprocess.run([INLAY, *words], capture_output=True, text=True, check=False, env=environment, timeout=300)
        if done.returncode != code:
            raise AssertionError(f"inlay {' '.join(words)}: {done.returncode}, not {code}\n{done.stdout}{done.stderr}")
        return done

    def chosen(self, *words, package="model.pkg"):
        """The variant that a session chooses, and its output."""
        shutil.rmtree("out", ignore_errors=True)
        done = self.inlay("run", package, "--outputs", "out", *words)
        line = [text for text in done.stderr.splitlines() if " chosen: " in text]
        self.assertEqual(len(line), 1, done.stderr)
        return line[0].split(" chosen: ")[0].rsplit(" ", 1)[1], np.load("out/y.npy"), line[0]

    def test_pack(self):
        manifest = json.loads(pathlib.Path("model.pkg/manifest.json").read_text(encoding="utf-8"))
        variants = manifest["components"]["model"]["variants"]
        self.assertEqual(list(variants), ["fp32", "int8", "int4"])
        errors = [v["additional_metadata"]["inlay"]["error"] for v in variants.values()]
        self.assertEqual(errors[0], 0)
        self.assertTrue(0 < errors[1] < errors[2] < 0.5, errors)
        self.assertEqual([v["name"] for v in self.packed["variants"]], ["fp32", "int8", "int4"])
        # The table and the small float tensors are stored once.
        tables, total = set(), 0
        for name in variants:
            model = load(f"model.pkg/models/{name}.onnx", load_external_data=False)
            for tensor in model.graph.initializer:
                if external_data_helper.uses_external_data(tensor):
                    info = external_data_helper.ExternalDataInfo(tensor)
                    total += info.length
                    if list(tensor.dims) == [8, 256] and tensor.data_type == TensorProto.FLOAT:
                        tables.add(info.offset)
        self.assertEqual(len(tables), 1)
        self.assertLess(os.path.getsize("model.pkg/models/weights.bin"), total)
        self.assertIn("cannot be created", self.inlay("pack", "model.onnx", "-o", "model.pkg", code=3).stderr)
        self.inlay("pack", "model.onnx", "--variants", "fp32,int9", "-o", "other.pkg", code=2)
        self.assertFalse(os.path.exists("other.pkg"))
        self.assertIn("--fix-dim", self.inlay("pack", "model.onnx", "--dim", "N=2", "-o", "other.pkg", code=2).stderr)

    def test_choice(self):
        errors = {v["name"]: v["error"] for v in self.packed["variants"]}
        self.inlay("run", "model.onnx", "--outputs", "want")
        want = np.load("want/y.npy")
        name, got, _ = self.chosen()
        self.assertEqual(name, "fp32")
        np.testing.assert_array_equal(got, want)
        for limit in (errors["int8"] / 2, errors["int8"] * 1.01, errors["int4"] * 1.01):
            name, got, line = self.chosen("--max-error", str(limit))
            self.assertLessEqual(errors[name], limit)
            self.assertIn(f"<= max_error {limit:g}", line)
            self.assertLessEqual(np.linalg.norm(got - want) / np.linalg.norm(want), 2 * errors[name] + 1e-6)
            prices = self.prices(n for n, e in errors.items() if e <= limit)
            self.assertLessEqual(prices[name] * 0.96, min(prices.values()))
        self.inlay("run", "model.pkg", "--variant", "int4")
        self.assertIn("it has: fp32, int8, int4", self.inlay("run", "model.pkg", "--variant", "int2", code=3).stderr)
        self.assertIn("int8", self.inlay("inspect", "model.pkg", "--variant", "int8").stdout)

    def prices(self, names):
        return {n: json.loads(self.inlay("explain", f"model.pkg/models/{n}.onnx", "--json").stdout)["cost_ns"]
                for n in names}

    @unittest.skipUnless(os.path.exists(INLAY + "-serve"), "inlay-serve is not built")
    def test_serve(self):
        with self.serving("model.pkg") as ask:
            self.assertEqual(ask("GET", "")["inputs"][0]["name"], "x")

    @contextlib.contextmanager
    def serving(self, models, *flags):
        """A server that has loaded model.pkg; a function that sends a request about it, and returns the answer."""
        ports = []
        for _ in range(2):
            with socket.create_server(("127.0.0.1", 0)) as free:
                ports.append(str(free.getsockname()[1]))

        def ask(method, path, body=None):
            request = urllib.request.Request(f"http://127.0.0.1:{ports[0]}/v2/models/model.pkg{path}", method=method,
                                             headers={"Authorization": "Bearer " + ADMIN},
                                             data=json.dumps(body).encode() if body is not None else None)
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)

        environment = dict(os.environ, INLAY_CACHE_DIR="", XDG_CONFIG_HOME=self.top + "/none", HOME=self.top)
        with subprocess.Popen([INLAY, "serve", models, "--port", ports[0], "--grpc-port", ports[1], *flags],
                              env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
            try:
                for _ in range(600):
                    try:
                        ask("GET", "")
                        break
                    except OSError:
                        self.assertIsNone(server.poll(), "the server has ended")
                        time.sleep(0.1)
                else:
                    self.fail("the model is not ready")
                yield ask
            finally:
                server.terminate()
                server.communicate(timeout=60)

    @unittest.skipUnless(os.path.exists(INLAY + "-serve"), "inlay-serve is not built")
    def test_variants_are_named(self):
        """A change of a package's variant is a rollout, which names both, and so does the trace of requests."""
        config = pathlib.Path("models/model.pkg/config.yaml")
        body = {"inputs": [{"name": "x", "shape": [8, 256], "datatype": "FP32",
                            "data": RNG.standard_normal(2048).tolist()}]}

        def configure(variant):
            new = config.with_suffix(".new")
            new.write_text("rollout: shadow\nrollout_percent: 100\nrollout_requests: 4\nrollout_bound: 1\n"
                           f"rollout_median_ratio: 0\nrollout_tail_ratio: 0\noptions: [ladder={variant}]\n")
            new.rename(config)

        shutil.copytree("model.pkg", "models/model.pkg")
        configure("fp32")
        pathlib.Path("admins").write_text(ADMIN)
        os.chmod("admins", 0o600)
        with self.serving("models", "--poll-ms", "50", "--admin-token-file", "admins", "--trace-file", "trace") as ask:
            ask("POST", "/trace/setting", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1"})
            self.assertEqual(ask("POST", "/infer", body)["parameters"]["variant"], "fp32")
            configure("int4")
            rollout = {}
            for _ in range(600):
                answer = ask("POST", "/infer", body)
                try:
                    rollout = ask("GET", "/rollout")
                except urllib.error.HTTPError:  # there is none yet
                    pass
                if rollout.get("state") == "promoted" and answer["parameters"]["variant"] == "int4":
                    break
                time.sleep(0.05)
            self.assertEqual([rollout.get(key) for key in ("state", "stable_variant", "candidate_variant")],
                             ["promoted", "fp32", "int4"], rollout)
            self.assertIn("; variant int4 (before: fp32)", rollout["reason"])
        traced = [record["variant"] for record in json.loads(pathlib.Path("trace").read_text()) if "model_name" in record]
        self.assertEqual([traced[0], traced[-1]], ["fp32", "int4"])

    def foreign(self, change=lambda manifest, component: None):
        """A package as other tools make them: a component and its settings in files, weights in a shared asset."""
        shutil.rmtree("foreign", ignore_errors=True)
        os.makedirs("foreign/decoder/cpu")
        shutil.copy("model.pkg/models/fp32.onnx", "foreign/decoder/cpu/model.onnx")
        weights = pathlib.Path("model.pkg/models/weights.bin")
        text = f"{hashlib.sha256(weights.read_bytes()).hexdigest()}  weights.bin\n"
        asset = hashlib.sha256(text.encode()).hexdigest()
        os.makedirs(f"foreign/shared_assets/sha256-{asset}")
        shutil.copy(weights, f"foreign/shared_assets/sha256-{asset}")
        ort = {"model_file": "model.onnx", "session_options":
               {"session.model_external_initializers_file_folder_path": f"sha256:{asset}", "session.intra_op": "4"}}
        pathlib.Path("foreign/decoder/cpu/ort_info.json").write_text(json.dumps(ort), encoding="utf-8")
        manifest = {"schema_version": "1.0", "package_name": "m", "components": {"decoder": "decoder"}}
        component = {"component_name": "decoder", "variants": {
            "cpu": {"ep": "CPUExecutionProvider", "device": "cpu", "executor_info": {"ort": "ort_info.json"}},
            "qnn": {"variant_directory": "cpu", "ep": "QNNExecutionProvider", "executor_info": {"other": {}}}}}
        change(manifest, component)
        pathlib.Path("foreign/manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        pathlib.Path("foreign/decoder/component.json").write_text(json.dumps(component), encoding="utf-8")

    def test_foreign(self):
        self.foreign()
        name, got, line = self.chosen(package="foreign")
        self.assertEqual(name, "cpu")
        self.assertIn("skipped: qnn: it is made for another runtime than ONNX Runtime", line)
        self.inlay("run", "model.onnx", "--outputs", "want")
        np.testing.assert_array_equal(got, np.load("want/y.npy"))
        self.assertIn("no variant states its error", self.inlay("run", "foreign", "--max-error", "0.1", code=2).stderr)

        def set_at(path, value):
            def change(manifest, component):
                target = manifest if path[0] == "manifest" else component
                for key in path[1:-1]:
                    target = target[key]
                target[path[-1]] = value
            return change

        cpu = ("component", "variants", "cpu")
        outside = {"ort": {"model_file": "../../../model.onnx"}}
        for change, words in ((set_at(("manifest", "schema_version"), "2.0"), "schema_version is not 1"),
                              (set_at(("manifest", "configs_dir"), "x"), 'unknown member "configs_dir"'),
                              (set_at(("manifest", "layout"), "odd"), "neither portable nor installed"),
                              (set_at(("manifest", "components", "b"), "decoder"), "has 2 components"),
                              (set_at(cpu + ("more",), 1), 'unknown member "more"'),
                              (set_at(cpu + ("executor_info",), outside), "leaves the package"),
                              (set_at(cpu + ("executor_info",), {"ort": {}}), "it names no model_file"),
                              (set_at(cpu + ("executor_info",), {"ort": {"model_file": "a.onnx"}}), "there is no"),
                              (set_at(cpu + ("additional_metadata",), {"inlay": {"error": "x"}}), "not a number")):
            self.foreign(change)
            done = subprocess.run([INLAY, "run", "foreign"], capture_output=True, text=True, check=False, timeout=60)
            self.assertIn(done.returncode, (1, 3, 4), done.stderr)
            self.assertIn(words, done.stderr)
        self.foreign(lambda m, c: (m.update(layout="installed"), c["variants"]["cpu"].update(executor_info=outside)))
        self.assertEqual(self.chosen(package="foreign")[0], "cpu")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
