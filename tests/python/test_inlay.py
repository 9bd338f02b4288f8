"""The Python package: sessions, zero-copy values in both directions, errors, threads."""
import copy
import ctypes
import faulthandler
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import traceback
import unittest
import unittest.mock
import weakref

import numpy as np

import inlay
from inlay._library import native
from inlay.values import Value, _pack, _unpack

CASES = os.environ["ONNX_TEST_DATA"]


def case(name):
    return os.path.join(CASES, "node", name, "model.onnx")


class Sessions(unittest.TestCase):
    def setUp(self):
        self.session = inlay.Session(case("test_add"), config=False)
        self.x, self.y = (np.random.default_rng(i).random((3, 4, 5), np.float32) for i in range(2))

    def test_metadata(self):
        self.assertEqual([(i.name, i.dtype, i.shape) for i in self.session.inputs],
                         [("x", "float", (3, 4, 5)), ("y", "float", (3, 4, 5))])
        self.assertEqual(self.session.outputs[0].name, "sum")
        self.assertEqual(self.session.model.producer_name, "backend-test")
        self.assertTrue(all(p.skipped is None or p.name == "ort_ep" for p in self.session.providers))

    def test_profile_keeps_the_error(self):
        """The error in the with statement is raised, not the missing report."""
        with self.session.context() as context:
            with self.assertRaisesRegex(inlay.InvalidArgument, "no input 'z'"):
                with context.profile() as profiling:
                    context.run({"z": self.x})
            with self.assertRaisesRegex(inlay.InvalidArgument, "after the with"):
                _ = profiling.profile
            with self.assertRaisesRegex(ZeroDivisionError, "zero"):
                with context.profile() as profiling:
                    context.run([self.x, self.y])
                    _ = 1 // 0
            self.assertTrue(str(profiling.profile))
            with self.assertRaisesRegex(inlay.InlayError, "nothing to report"):
                with context.profile():
                    pass
            self.assertEqual(context.run([self.x, self.y])["sum"].shape, (3, 4, 5))

    def test_optimizes_files(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.onnx")
            inlay.optimize(case("test_add"), out, config=False, level=1)
            np.testing.assert_array_equal(inlay.Session(out).run([self.x, self.y])["sum"], self.x + self.y)
            with self.assertRaises(inlay.InlayError):
                inlay.optimize(case("test_add"), os.path.join(folder, "none", "out.onnx"))
            self.assertEqual(os.listdir(folder), ["out.onnx"])

    def test_runs(self):
        for feeds in ({"x": self.x, "y": self.y}, [self.x, self.y], (self.x, self.y)):
            np.testing.assert_array_equal(self.session.run(feeds)["sum"], self.x + self.y)
        self.assertEqual(list(self.session(self.x, self.y)), ["sum"])
        self.assertEqual(list(self.session.run([self.x, self.y], ["sum"])), ["sum"])

    def test_strided_inputs(self):
        turned = np.asfortranarray(self.x)
        np.testing.assert_array_equal(self.session.run([turned, self.y])["sum"], self.x + self.y)
        swapped = self.x.astype(">f4")
        np.testing.assert_array_equal(self.session.run([swapped, self.y])["sum"], self.x + self.y)
        np.testing.assert_array_equal(self.session.run([self.x.tolist(), self.y])["sum"], self.x + self.y)

    def test_results_stay(self):
        first = self.session.run([self.x, self.y])["sum"]
        self.session.run([self.x * 0, self.y * 0])
        self.session.close()
        gc.collect()
        np.testing.assert_array_equal(first, self.x + self.y)

    def test_writes_into_arrays(self):
        out = np.empty((3, 4, 5), np.float32)
        with self.session.context() as context:
            got = context.run([self.x, self.y], {"sum": out})["sum"]
        np.testing.assert_array_equal(out, self.x + self.y)
        self.assertEqual(got.numpy().ctypes.data, out.ctypes.data)

    def test_binding(self):
        out = np.empty((3, 4, 5), np.float32)
        x = self.x.copy()
        with self.session.bind({"x": x, "y": self.y}, {"sum": out}) as binding:
            with self.assertRaisesRegex(inlay.InlayError, "does not exist"):
                binding.outputs()
            for _ in range(3):
                x += 1
                binding.run(max_threads=1)
                np.testing.assert_array_equal(out, x + self.y)
            self.assertEqual(binding.outputs()["sum"].numpy().ctypes.data, out.ctypes.data)
            cancel = inlay.Cancel()
            cancel.set()
            self.assertRaises(inlay.Cancelled, binding.run, cancel=cancel)
        self.assertRaisesRegex(inlay.InvalidArgument, "closed", binding.run)
        self.assertRaisesRegex(inlay.InvalidArgument, "closed", binding.outputs)
        binding = self.session.bind([x, self.y])
        binding.run()
        first = binding.outputs()["sum"]
        x *= 0
        binding.run()
        np.testing.assert_array_equal(binding.outputs()["sum"].numpy(), self.y)
        self.assertFalse(np.array_equal(first.numpy(), self.y))  # a later run leaves it
        contexts = len(self.session._contexts)
        del binding
        self.assertEqual(len(self.session._contexts), contexts - 1)
        with self.assertRaisesRegex(ValueError, "no input 'z'"):
            self.session.bind({"z": x})
        with self.assertRaisesRegex(ValueError, "no output 'z'"):
            self.session.bind([x, self.y], {"z": out})
        self.assertEqual(len(self.session._contexts), contexts - 1)
        with self.session.bind({"x": x}) as binding:
            self.assertRaisesRegex(inlay.InvalidArgument, "'y'", binding.run)

    def test_feeds_of_every_kind(self):
        """Each array of numbers gives what numpy makes of it, whether it can be shared or not."""
        odd = np.frombuffer(bytearray(self.x.nbytes + 1), np.uint8)[1:].view(np.float32).reshape(3, 4, 5)
        odd[...] = self.x
        frozen = self.x.copy()
        frozen.flags.writeable = False
        with self.session.context() as context:
            for x in (self.x, odd, frozen, self.x[::-1][::-1], np.asfortranarray(self.x), self.x.astype(">f4"),
                      np.ma.array(self.x), self.x.tolist(), Value.of(self.x)):
                for feeds in ({"x": x, "y": self.y}, [x, self.y], (x, Value.of(self.y))):
                    np.testing.assert_array_equal(self.session.run(feeds)["sum"], self.x + self.y)
                    np.testing.assert_array_equal(context.run(feeds)["sum"], self.x + self.y)
        for wrong in (self.x.astype("M8[s]"), np.zeros((3, 4, 5), "f4,f4"), self.x.astype(object), object()):
            with self.assertRaises((TypeError, inlay.InlayError)):
                self.session.run([wrong, self.y])
        with self.assertRaises((TypeError, inlay.InlayError)):
            self.session.run({1: self.x, "y": self.y})
        with self.assertRaisesRegex(TypeError, "feeds must be"):
            self.session.run(self.x)
        empty = self.session.run({"x": self.x, "y": self.y}, [])
        self.assertEqual(empty, {})

    def test_many_inputs(self):
        """More inputs than the extension has room for without allocating, and some of them wrong."""
        names = [f"x{i}" for i in range(20)]
        node = b"".join(field(1, name) for name in names) + field(2, "y") + field(4, "Sum")
        graph = field(1, node) + field(2, "g") + b"".join(field(11, tensor_info(name, [2])) for name in names)
        graph += field(12, tensor_info("y", [2]))
        session = inlay.Session(field(1, 8) + field(8, field(1, "") + field(2, 17)) + field(7, graph), config=False)
        feeds = {name: np.float32([i, 1]) for i, name in enumerate(names)}
        self.assertEqual(session.run(feeds)["y"].tolist(), [190, 20])
        self.assertEqual(session.run(list(feeds.values()))["y"].tolist(), [190, 20])
        for wrong in (np.float32([1]), "text", np.full(2, 1e39)):
            with self.assertRaises(inlay.InlayError):
                session.run({**feeds, "x19": wrong})
        self.assertEqual(session.run(feeds)["y"].tolist(), [190, 20])

    def test_names_and_notebooks(self):
        self.assertEqual((self.session.input_names, self.session.output_names), (("x", "y"), ("sum",)))
        shown = self.session.explain()._repr_html_()
        self.assertTrue(shown.startswith("<pre>") and "predicted" in shown, shown)
        self.assertNotIn("<", shown[5:-6])

    def test_outputs_that_are_inputs(self):
        """An output that is an input, and one without elements."""
        node = field(1, "x") + field(2, "y") + field(4, "Identity")
        graph = field(1, node) + field(2, "g") + field(11, tensor_info("x", ["n"]))
        graph += field(12, tensor_info("x", ["n"])) + field(12, tensor_info("y", ["n"]))
        session = inlay.Session(field(1, 8) + field(8, field(1, "") + field(2, 17)) + field(7, graph), config=False)
        results = session.run([np.arange(3, dtype=np.float32)])
        gc.collect()
        self.assertEqual([a.tolist() for a in results.values()], [[0, 1, 2], [0, 1, 2]])
        with session.context() as context:
            values = context.run([np.arange(3, dtype=np.float32)])
            gc.collect()
            self.assertEqual([v.numpy().tolist() for v in values.values()], [[0, 1, 2], [0, 1, 2]])
        for _ in range(2):
            self.assertEqual([a.shape for a in session.run([np.empty(0, np.float32)]).values()], [(0,), (0,)])

    def test_memory_of_runs(self):
        """Runs, failing ones too, leave no reference to their inputs and outputs behind."""
        session = inlay.Session(case("test_relu"), config=False)
        x = np.ones((3, 4, 5), np.float32)
        wrong = np.ones(7, np.float32)
        feeds, wrong_feeds = {"x": x}, {"x": wrong}
        before = [sys.getrefcount(part) for part in (x, wrong, session, np.ndarray, x.dtype)]
        kept = [session.run(feeds) for _ in range(100)]
        for _ in range(100):
            self.assertRaises(inlay.ShapeMismatch, session.run, wrong_feeds)
        del kept
        gc.collect()
        after = [sys.getrefcount(part) for part in (x, wrong, session, np.ndarray, x.dtype)]
        for old, new in zip(before, after):
            self.assertLess(abs(new - old), 10)

    def test_pickle(self):
        with open(case("test_add"), "rb") as f:
            data = f.read()
        for model in (case("test_add"), data, os.path.relpath(case("test_add"))):
            session = inlay.Session(model, iter(["reference"]), config=False, intra_threads=1)
            for other in (pickle.loads(pickle.dumps(session)), copy.copy(session)):
                self.assertEqual([p.name for p in other.providers], ["reference"])
                np.testing.assert_array_equal(other.run([self.x, self.y])["sum"], self.x + self.y)
        with session.context() as context, session.bind([self.x, self.y]) as binding:
            self.assertRaisesRegex(TypeError, "its session can", pickle.dumps, context)
            self.assertRaisesRegex(TypeError, "its session can", copy.copy, binding)
        session.close()
        self.assertRaisesRegex(inlay.InvalidArgument, "closed", pickle.dumps, session)

    def test_model_objects(self):
        """Anything with SerializeToString, as onnx.ModelProto has."""
        class Proto:
            def SerializeToString(self):
                with open(case("test_add"), "rb") as f:
                    return f.read()

        session = inlay.Session(Proto(), config=False)
        np.testing.assert_array_equal(session.run([self.x, self.y])["sum"], self.x + self.y)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(session)).run([self.x, self.y])["sum"], self.x + self.y)

    def test_repr(self):
        size = "float[3, 4, 5]"
        self.assertEqual(repr(self.session),
                         f"<inlay.Session {case('test_add')}: x {size}, y {size} -> sum {size}>")
        with self.session.context() as context, self.session.bind([self.x, self.y]) as binding:
            self.assertEqual(repr(context), f"<inlay.Context of {self.session!r}>")
            self.assertEqual(repr(binding), f"<inlay.Binding of {self.session!r}>")
        self.assertEqual((repr(context), repr(binding)), ("<inlay.Context, closed>", "<inlay.Binding, closed>"))
        cancel = inlay.Cancel()
        self.assertEqual(repr(cancel), "<inlay.Cancel, not set>")
        model = custom_model("Positive", ["x"])
        self.assertEqual(repr(inlay.Session(model, config=False)),
                         f"<inlay.Session of {len(model)} bytes: x float[n, 2] -> y float>")
        self.session.close()
        self.assertEqual(repr(self.session), "<inlay.Session, closed>")

    def test_extension(self):
        """Where the extension was built, it is in use."""
        self.assertEqual(native is not None, os.environ["INLAY_PYTHON_EXTENSION"] == "on")

    def test_releases_inputs(self):
        class Array(np.ndarray):
            pass

        x = self.x.copy().view(Array)
        gone = weakref.ref(x)
        self.session.run([x, self.y])
        del x
        gc.collect()
        self.assertIsNone(gone())

    def test_explains_and_profiles(self):
        report = self.session.explain(kernels=True)
        self.assertIn("Add", str(self.session.explain(all=True)))
        self.assertIsInstance(report.json, dict)
        self.assertRaisesRegex(inlay.Unsupported, "inlay explain --from", report.save, "page.html")
        self.assertFalse(os.path.exists("page.html"))
        with self.session.context() as context:
            context.measure()
            with context.profile() as profiling:
                context.run([self.x, self.y])
            self.assertGreater(context.plan.steps, 0)
            self.assertTrue(str(self.session.explain(measured=context)))
        self.assertTrue(str(profiling.profile) and profiling.profile.stacks)
        self.assertTrue(profiling.profile.trace)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            self.session.save_plan(path)
            again = inlay.Session(case("test_add"), config=False, plan=path)
            np.testing.assert_array_equal(again.run([self.x, self.y])["sum"], self.x + self.y)

    def test_update(self):
        """y = x * W + B"""
        def node(op, inputs, output):
            return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, op))

        def weight(name, array):
            return field(5, field(1, 3) + field(2, 1) + field(8, name) + field(9, np.float32(array).tobytes()))

        graph = (node(b"Mul", [b"x", b"W"], b"t") + node(b"Add", [b"t", b"B"], b"y") + field(2, b"g") +
                 weight(b"W", [2, 2, 2]) + weight(b"B", [1, 2, 3]) + field(11, tensor_info("x", ["n", 3])) +
                 field(12, tensor_info("y", ["n", 3])))
        session = inlay.Session(field(1, 8) + field(8, field(2, 17)) + field(7, graph), config=False)
        x = np.ones((1, 3), np.float32)
        np.testing.assert_array_equal(session.run([x])["y"], [[3, 4, 5]])
        with session.context() as context:
            session.update({"W": np.arange(3, dtype=np.float32), "B": np.zeros(3, np.float32)})
            np.testing.assert_array_equal(context.run([x])["y"].numpy(), [[0, 1, 2]])
        session.update({"B": np.full(3, 4, np.float32)})
        np.testing.assert_array_equal(session.run([x])["y"], [[4, 5, 6]])
        self.assertRaisesRegex(inlay.InlayError, r"'B'.*float\[2\]", session.update, {"B": np.zeros(2, np.float32)})
        self.assertRaisesRegex(inlay.InlayError, "'C'", session.update, {"W": x[0], "C": x[0]})
        np.testing.assert_array_equal(session.run([x])["y"], [[4, 5, 6]])
        session.update({})

    def test_devices(self):
        found = inlay.devices(config=False)
        self.assertIn("reference", [d.provider for d in found])
        self.assertEqual([d.kind for d in found if d.provider == "reference"], ["cpu"])
        self.assertTrue(all(d.name or d.unusable for d in found))

    def test_options(self):
        self.assertIn("intra_threads", inlay.options())
        seen = []
        with open(case("test_add"), "rb") as f:
            model = f.read()
        session = inlay.Session(model, ["reference"], config=False, intra_threads=1,
                                cache_dir="", progress=lambda fraction, what: seen.append((fraction, what)))
        self.assertEqual([p.name for p in session.providers], ["reference"])
        self.assertTrue(seen and all(0 <= f <= 1 for f, _ in seen))

    def test_threads(self):
        wrong = []

        def work(seed):
            rng = np.random.default_rng(seed)
            for _ in range(50):
                x = rng.random((3, 4, 5), np.float32)
                if not np.array_equal(self.session.run([x, self.y])["sum"], x + self.y):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        self.assertLessEqual(len(self.session._idle), 4)


class Values(unittest.TestCase):
    def test_shares_memory(self):
        array = np.arange(12, dtype=np.float32).reshape(3, 4)
        value = Value.of(array)
        self.assertEqual(value.numpy().ctypes.data, array.ctypes.data)
        self.assertEqual((value.kind, value.dtype, value.shape, len(value)), ("tensor", "float", (3, 4), 3))
        again = np.from_dlpack(value)
        self.assertEqual(again.ctypes.data, array.ctypes.data)
        del value, array
        gc.collect()
        self.assertEqual(float(again.sum()), 66)

    def test_unused_capsules(self):
        array = np.ones(3, np.float32)
        before = sys.getrefcount(array)
        for _ in range(10):
            Value.of(array).__dlpack__()
        gc.collect()
        self.assertEqual(sys.getrefcount(array), before)

    def test_conversions(self):
        """Arrays of every type for inputs of every type, and the same numbers as lists: rounded to floats, equal as
        integers, or refused with the fix."""
        types = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()
        numbers = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
                   "float16": 10, "float64": 11, "uint32": 12, "uint64": 13}
        for wanted in types:
            shape = field(2, field(1, field(2, "n")))
            x, y = (field(1, name) + field(2, field(1, field(1, numbers[wanted]) + shape)) for name in "xy")
            node = field(1, "x") + field(2, "y") + field(4, "Identity")
            graph = field(1, node) + field(2, "g") + field(11, x) + field(12, y)
            session = inlay.Session(field(1, 8) + field(7, graph) + field(8, field(2, 17)), providers="reference")
            for dtype in types:
                for values in [0, 1], [2], [-1], [200], [-2**31], [2**31], [2**24 + 1], [2**53 + 1], [0.5], [0.1], [1e39]:
                    with np.errstate(all="ignore"):
                        array = np.array(values).astype(dtype)
                    held = array.tolist()
                    with np.errstate(all="ignore"):
                        made = [np.array(v).astype(wanted).item() for v in held]
                    whole = wanted[0] in "iu" and all(v == v and abs(v) < 2**70 and v == int(v) for v in held)
                    if whole:  # numpy's conversion of what is out of range is not defined
                        limits = np.iinfo(wanted)
                        good = all(limits.min <= v <= limits.max for v in held)
                    else:
                        good = wanted[0] == "f" and not any(np.isinf(m) and not np.isinf(v) for m, v in zip(made, held))
                        good = good or wanted == "bool" and made == held
                    for data in array, held:
                        if good:
                            got = session.run({"x": data})["y"]
                            np.testing.assert_array_equal(got, np.array(made, wanted), str((wanted, dtype, held)))
                            self.assertEqual(got.dtype, np.dtype(wanted))
                        else:
                            with self.assertRaisesRegex(inlay.InvalidArgument, r"convert it: array.astype\(numpy", msg=(wanted, dtype, held)):
                                session.run({"x": data})
                    if dtype != wanted:
                        with self.assertRaisesRegex(inlay.InvalidArgument, "convert it before"):
                            session.bind({"x": array})

    def test_tables(self):
        """A DataFrame is taken by the names of its columns, or as the value of one input; its numbers are rounded."""
        class Table:  # what pandas' and polars' tables have in common
            def __init__(self, columns):
                self.of, self.columns = columns, list(columns)

            def __getitem__(self, name):
                return Table({name: self.of[name]})

            def to_numpy(self):
                columns = [np.array(c) for c in self.of.values()]
                return columns[0] if len(columns) == 1 else np.stack(columns, 1)

        def tables(columns):
            try:
                import pandas
                return [Table(columns), pandas.DataFrame(columns)]
            except ImportError:
                return [Table(columns)]
        shape = field(2, field(1, field(2, "n")) + field(1, field(1, 1)))
        info = lambda kind, name, shape: field(kind, field(1, name) + field(2, field(1, field(1, 1) + shape)))
        node = field(1, "age") + field(1, "fare") + field(2, "y") + field(4, "Add")
        graph = field(1, node) + field(2, "g") + info(11, "age", shape) + info(11, "fare", shape) + info(12, "y", shape)
        session = inlay.Session(field(1, 8) + field(7, graph) + field(8, field(2, 17)), providers="reference")
        for table in tables({"fare": [7.1, 14.73540496826172], "name": [1, 2], "age": [22, 38]}):
            wanted = np.array([[22], [38]], np.float32) + np.array([[7.1], [14.73540496826172]], np.float32)
            np.testing.assert_array_equal(session.run(table)["y"], wanted)
            np.testing.assert_array_equal(session.run({"age": [[22], [38]], "fare": [[7.1], [14.73540496826172]]})["y"], wanted)
        for table in tables({"fare": [7.1], "name": [1]}):
            with self.assertRaisesRegex(inlay.InvalidArgument, "no column named 'age' for the input; it has fare, name"):
                session.run(table)
        relu = inlay.Session(field(1, 8) + field(7, field(1, field(1, "x") + field(2, "y") + field(4, "Relu")) + field(2, "g")
                             + info(11, "x", field(2, field(1, field(2, "n")) + field(1, field(1, 2)))) + info(12, "y", shape[:0]))
                             + field(8, field(2, 17)), providers="reference")
        for table in tables({"a": [0.1, -1.0], "b": [0.7, 2.0]}):
            np.testing.assert_array_equal(relu.run({"x": table})["y"], np.array([[0.1, 0.7], [0, 2]], np.float32))

    def test_types(self):
        for dtype in ("uint8", "int8", "uint16", "int16", "int32", "int64", "bool", "float16", "float32", "float64",
                      "uint32", "uint64", "complex64", "complex128"):
            array = np.array([[0, 1], [1, 0]]).astype(dtype)
            got = Value.of(array).numpy()
            self.assertEqual(got.dtype, array.dtype)
            np.testing.assert_array_equal(got, array)
        bits = Value.of(np.array([0x3f80], np.uint16), "bfloat16")
        self.assertEqual((bits.dtype, bits.numpy().tolist()), ("bfloat16", [0x3f80]))
        with self.assertRaises(TypeError):
            Value.of(np.array(["2020-01-01"], "datetime64[D]"))
        self.assertEqual(Value.of(np.empty((0, 3), np.float32)).numpy().shape, (0, 3))
        self.assertEqual(Value.of(3.5).shape, ())

    def test_texts(self):
        value = Value.of(np.array([["a", "é"], ["", "x" * 1000]], object))
        np.testing.assert_array_equal(value.numpy(), [["a", "é"], ["", "x" * 1000]])
        self.assertEqual(Value.of("word").numpy().item(), "word")
        with self.assertRaises(TypeError):
            Value.of(np.array([1, "a"], object))

    def test_lists(self):
        value = Value.list_of([np.zeros(2, np.float32), np.ones((1, 3), np.float32)])
        self.assertEqual((value.kind, len(value)), ("sequence", 2))
        self.assertEqual([a.shape for a in value.to_python()], [(2,), (1, 3)])
        self.assertIsNone(Value.of(None).to_python())
        with self.assertRaises(TypeError):
            value.numpy()

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        value = Value.of(tensor)
        self.assertEqual(value.numpy().ctypes.data, tensor.data_ptr())
        self.assertEqual(torch.from_dlpack(value).data_ptr(), tensor.data_ptr())
        session = inlay.Session(case("test_relu"), config=False)
        x = torch.randn(3, 4, 5)
        for tensor in (x, x.flip(0), torch.randn(5, 4, 3).permute(2, 1, 0), torch.randn(6, 4, 5)[::2],
                       torch.randn(3, 4, 1).expand(3, 4, 5)):
            np.testing.assert_array_equal(session.run([tensor])["y"], torch.relu(tensor).numpy())
        for kind in (torch.int64, torch.uint8, torch.bool, torch.float16, torch.complex64):
            tensor = torch.arange(6).to(kind).reshape(2, 3).t()
            np.testing.assert_array_equal(Value.of(tensor).numpy(), tensor.numpy())
        value = Value.of(torch.tensor([[1, 2], [3, 4]], dtype=torch.bfloat16).t())
        self.assertEqual((value.dtype, value.shape), ("bfloat16", (2, 2)))
        self.assertTrue(torch.equal(torch.from_dlpack(value).float(), torch.tensor([[1., 3.], [2., 4.]])))
        self.assertEqual(Value.of(torch.zeros(0, 3).t()).shape, (3, 0))

    def test_small_types(self):
        """Elements of less than 8 bits, as ml_dtypes has them, one in a byte."""
        for count in (0, 1, 5, 8):
            for bits in (2, 4):
                wanted = np.arange(count, dtype=np.uint8) % (1 << bits)
                packed = _pack(wanted, bits)
                self.assertEqual(packed.size, -(-count * bits // 8))
                np.testing.assert_array_equal(_unpack(packed, bits, (count,), np.dtype(np.uint8)), wanted)
                signed = (wanted.astype(np.int8) - (1 << (bits - 1))).reshape(1, count)
                np.testing.assert_array_equal(_unpack(_pack(signed, bits), bits, (1, count), np.dtype(np.int8)), signed)
        self.assertEqual(_pack(np.uint8([1, 2, 3]), 4).tolist(), [0x21, 0x03])

    def test_ml_dtypes(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not installed")
        for name, kind in (("bfloat16", ml_dtypes.bfloat16), ("float8e4m3fn", ml_dtypes.float8_e4m3fn),
                           ("float8e5m2", ml_dtypes.float8_e5m2), ("int4", ml_dtypes.int4), ("uint4", ml_dtypes.uint4)):
            array = np.arange(5).astype(kind).reshape(5, 1)
            value = Value.of(array)
            self.assertEqual((value.dtype, value.shape), (name, (5, 1)))
            self.assertEqual(value.numpy().dtype, array.dtype)
            np.testing.assert_array_equal(value.numpy(), array)
        self.assertEqual(Value.of(np.array([-8, -1, 7]).astype(ml_dtypes.int4)).numpy().tolist(), [-8, -1, 7])

    def test_copies(self):
        for data in (np.arange(6.0).reshape(2, 3), np.float32(1), np.empty((0, 2), np.int8), np.array(["a", "b"]),
                     {"a": 1.0}, None):
            value = Value.of(data)
            for other in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
                self.assertEqual(repr(other), repr(value))
                np.testing.assert_equal(other.to_python(), value.to_python())
        sequence = pickle.loads(pickle.dumps(Value.list_of([np.zeros(2), np.ones(3)])))
        self.assertEqual([a.tolist() for a in sequence.to_python()], [[0, 0], [1, 1, 1]])
        bits = Value.of(np.uint16([1, 2]), "bfloat16")
        self.assertEqual(pickle.loads(pickle.dumps(bits)).dtype, "bfloat16")


# ------------------------------------------------------------------ operators written in Python


def field(number, content):
    """A field of a protobuf message: a message, a text or a number."""
    def varint(value):
        return (bytes([value & 127 | 128]) + varint(value >> 7)) if value > 127 else bytes([value])

    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor_info(name, dims, dtype=1):
    shape = b"".join(field(1, field(2, d.encode()) if isinstance(d, str) else field(1, d)) for d in dims)
    return field(1, name.encode()) + field(2, field(1, field(1, dtype) + field(2, shape)))


def custom_model(op, inputs, by=None, version=1, dtype=1):
    """y = op(inputs) of domain test.python at this version; x [n, 2], c a constant [2]."""
    attribute = field(1, b"by") + bytes([2 << 3 | 5]) + np.float32(by).tobytes() + field(20, 1) if by else b""
    node = b"".join(field(1, name.encode()) for name in inputs) + field(2, b"y") + field(4, op.encode())
    node += (field(5, attribute) if by else b"") + field(7, b"test.python")
    constant = field(1, 2) + field(2, 1) + field(8, b"c") + field(9, np.float32([10, 20]).tobytes())
    graph = (field(1, node) + field(2, b"g") + field(5, constant) + field(11, tensor_info("x", ["n", 2], dtype)) +
             field(12, field(1, b"y") + field(2, field(1, field(1, dtype)))))
    imports = field(8, field(2, 17)) + field(8, field(1, b"test.python") + field(2, version))
    return field(1, 8) + imports + field(7, graph)


@inlay.operator("test.python::Scale", "X:T, C?:T -> Y:T; T=float|double; by:f=2", infer=lambda x, *rest: [x])
def scale(x, c, by):
    return x * np.float32(by) + (0 if c is None else c)


@inlay.operator("test.python::Positive", "X:T -> Y:T; T=float", pure=False)
def positive(x):
    if x.size == 0:
        raise ZeroDivisionError("nothing to divide")
    if x.max() == 666:
        raise KeyboardInterrupt
    return x[x > 0]


class Operators(unittest.TestCase):
    def test_attributes_and_constants(self):
        x = np.float32([[1, 2], [3, 4], [-5, 6]])
        for model, wanted in ((custom_model("Scale", ["x", ""]), 2 * x), (custom_model("Scale", ["x", ""], 3), 3 * x),
                              (custom_model("Scale", ["x", "c"]), 2 * x + np.float32([10, 20]))):
            session = inlay.Session(model, config=False)
            np.testing.assert_array_equal(session.run([x])["y"], wanted)
            self.assertEqual(session.outputs[0].shape[1], 2)  # inferred
            self.assertIn("python", str(session.explain()))

    def test_data_dependent_sizes(self):
        session = inlay.Session(custom_model("Positive", ["x"]), config=False)
        for _ in range(3):
            self.assertEqual(session.run([np.float32([[1, -2], [3, 4]])])["y"].tolist(), [1, 3, 4])
        self.assertEqual(session.run([np.float32([[-1, -2]])])["y"].shape, (0,))

    def test_threads(self):
        session = inlay.Session(custom_model("Scale", ["x", ""]), config=False)
        results = [None] * 4

        def run(i):
            for _ in range(20):
                results[i] = session.run([np.full((i + 1, 2), i, np.float32)])["y"]

        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        for i, result in enumerate(results):
            np.testing.assert_array_equal(result, np.full((i + 1, 2), 2 * i, np.float32))

    def test_failures(self):
        session = inlay.Session(custom_model("Positive", ["x"]), config=False)
        with self.assertRaises(inlay.InlayError) as caught:
            session.run([np.zeros((0, 2), np.float32)])
        self.assertIn("ZeroDivisionError: nothing to divide", str(caught.exception))
        self.assertTrue(caught.exception.node)
        self.assertEqual(session.run([np.float32([[1, 2]])])["y"].tolist(), [1, 2])
        with self.assertRaisesRegex(ValueError, "version 1, exists with signature 'X:T, C"):
            inlay.operator("test.python::Scale", "X:T -> Y:T; T=float")(scale)
        with self.assertRaisesRegex(ValueError, "DOMAIN::NAME"):
            inlay.operator("Scale", "X:T -> Y:T; T=float")
        with self.assertRaises(inlay.InlayError):
            inlay.operator("test.python::Wrong", "no signature")(scale)
        with self.assertRaises(inlay.InlayError):
            inlay.operator("ai.onnx::Scale", "X:T -> Y:T; T=float")(scale)


    def test_results(self):
        """A result that is missing, or of another shape than shape inference states, is an error."""
        @inlay.operator("test.python::Forgets", "X:T -> Y:T; T=float")
        def forgets(x):
            x + 1

        @inlay.operator("test.python::Shrinks", "X:T -> Y:T; T=float", infer=lambda x: [x])
        def shrinks(x):
            return x[:1, :1]

        x = np.ones((3, 2), np.float32)
        with self.assertRaisesRegex(inlay.InlayError, "returned None for output 'y'; does it lack a return"):
            inlay.Session(custom_model("Forgets", ["x"]), config=False).run([x])
        session = inlay.Session(custom_model("Shrinks", ["x"]), config=False)
        with self.assertRaisesRegex(inlay.InlayError, r"returned shape \[1, 1\] for output 'y', which is \[3, 2\]"):
            session.run([x])

    def test_strings(self):
        @inlay.operator("test.python::Upper", "X:T -> Y:T; T=string")
        def upper(x):
            return np.array([text.upper() for text in x.reshape(-1)], object).reshape(x.shape)

        session = inlay.Session(custom_model("Upper", ["x"], dtype=8), config=False)
        words = np.array([["one", "zwölf"], ["", "a\0b"]], object)
        self.assertEqual(session.run([words])["y"].tolist(), [["ONE", "ZWÖLF"], ["", "A\0B"]])
        self.assertEqual(session.run([words[:0]])["y"].shape, (0, 2))

    def test_new_definition(self):
        """A cell that runs again; two versions of an operator."""
        def define(number, version=1):
            @inlay.operator("test.python::Number", "X:T -> Y:T; T=float", version=version)
            def constant(x):
                return np.full(x.shape, number, np.float32)

        x = np.zeros((1, 2), np.float32)
        define(1)
        first = inlay.Session(custom_model("Number", ["x"]), config=False)
        define(2)
        second = inlay.Session(custom_model("Number", ["x"]), config=False)
        define(3, version=3)
        third = inlay.Session(custom_model("Number", ["x"], version=3), config=False)
        between = inlay.Session(custom_model("Number", ["x"], version=2), config=False)
        self.assertEqual([s.run([x])["y"][0, 0] for s in (first, second, third, between)], [1, 2, 3, 2])

    def test_garbage(self):
        """The garbage collector may finalize sessions while an operator is defined, also below a call of the library."""
        def session():
            made = inlay.Session(custom_model("Scale", ["x", ""]), config=False)
            made.run([np.ones((1, 2), np.float32)])
            return made

        def pointer(target):
            if garbage:
                garbage.pop()
                gc.collect()
            return real(target)

        real, garbage = ctypes.pointer, [session() for _ in range(4)]
        faulthandler.dump_traceback_later(60, exit=True)
        with unittest.mock.patch.object(ctypes, "pointer", pointer):
            for i in range(2):
                inlay.operator(f"test.python::Defined{i}", "X:T -> Y:T; T=float")(positive)
        faulthandler.cancel_dump_traceback_later()
        self.assertEqual(garbage, [])
        self.assertEqual(session().run([np.ones((1, 2), np.float32)])["y"].tolist(), [[2, 2]])

    def test_causes(self):
        """The exception of the function, with its traceback, is the cause of the error."""
        session = inlay.Session(custom_model("Positive", ["x"]), config=False)
        for _ in range(2):
            with self.assertRaises(inlay.InlayError) as caught:
                session.run([np.zeros((0, 2), np.float32)])
            cause = caught.exception.__cause__
            self.assertIsInstance(cause, ZeroDivisionError)
            names = [frame.name for frame in traceback.extract_tb(cause.__traceback__)]
            self.assertIn("positive", names)
        with self.assertRaises(inlay.InlayError) as caught:
            session.run([np.float32([1])])
        self.assertIsNone(caught.exception.__cause__)
        with self.assertRaises(KeyboardInterrupt):  # as if Ctrl-C had come while the function ran
            session.run([np.full((1, 2), 666, np.float32)])


def endless_model():
    """y = x + 1, as often as the input `times` says."""
    def info(name, dtype, dims):
        shape = b"".join(field(1, field(1, n)) for n in dims)
        return field(1, name) + field(2, field(1, field(1, dtype) + field(2, shape)))

    body = (field(1, field(1, "going") + field(2, "going_on") + field(4, "Identity")) +
            field(1, field(1, "state") + field(1, "one") + field(2, "next") + field(4, "Add")) + field(2, "body") +
            field(5, field(2, 1) + field(8, "one") + field(9, np.float32([1]).tobytes())) +
            field(11, info("i", 7, [])) + field(11, info("going", 9, [])) + field(11, info("state", 1, [])) +
            field(12, info("going_on", 9, [])) + field(12, info("next", 1, [])))
    node = (b"".join(field(1, name) for name in ("times", "", "x")) + field(2, "y") + field(4, "Loop") +
            field(5, field(1, "body") + field(6, body) + field(20, 5)))
    graph = (field(1, node) + field(2, "g") + field(11, info("times", 7, [])) + field(11, info("x", 1, [])) +
             field(12, info("y", 1, [])))
    return field(1, 8) + field(8, field(1, "") + field(2, 17)) + field(7, graph)


class Interrupts(unittest.TestCase):
    """Signals during runs on the main thread."""
    def setUp(self):
        self.session = inlay.Session(endless_model(), config=False, intra_threads=1)
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))

    def feeds(self, times):
        return {"times": np.int64(times), "x": np.float32(0)}

    def interrupt(self, run):
        """Sends SIGINT to the main thread while it waits for an interruptible run."""
        main = threading.main_thread().ident

        def send():
            frame = None
            while frame is None or frame.f_code.co_name != "_run_interruptibly":
                frame = sys._current_frames()[main]
            signal.pthread_kill(main, signal.SIGINT)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            return run()
        finally:
            sender.join()

    def test_cancels_runs(self):
        session, endless = self.session, self.feeds(1 << 50)
        with session.context() as context, session.bind(endless) as binding:
            for run in (lambda: session.run(endless), lambda: context.run(endless), binding.run):
                for _ in range(2):
                    self.assertRaises(KeyboardInterrupt, self.interrupt, run)
            self.assertEqual(float(context.run(self.feeds(3))["y"].numpy()), 3)
            cancel = inlay.Cancel()
            self.assertRaises(KeyboardInterrupt, self.interrupt, lambda: context.run(endless, cancel=cancel))
            self.assertFalse(cancel.is_set())

    def test_after_fast_runs(self):
        """A run that takes longer than those before it is interruptible, too."""
        for _ in range(3):
            self.assertEqual(float(self.session.run(self.feeds(5))["y"]), 5)
        self.assertRaises(KeyboardInterrupt, self.interrupt, lambda: self.session.run(self.feeds(1 << 50)))
        self.assertEqual(float(self.session.run(self.feeds(5))["y"]), 5)
        for timeout in (0.01, 0.3):
            self.assertRaises(inlay.DeadlineExceeded, self.session.run, self.feeds(1 << 50), timeout=timeout)

    def test_handlers_that_return(self):
        """A signal whose handler raises nothing does not end a run."""
        cancel = inlay.Cancel()
        signal.signal(signal.SIGINT, lambda *_: cancel.set())
        with self.assertRaises(inlay.Cancelled):
            self.interrupt(lambda: self.session.run(self.feeds(1 << 50), cancel=cancel))

    def test_other_threads(self):
        results = []
        thread = threading.Thread(target=lambda: results.append(self.session.run(self.feeds(7))["y"]))
        thread.start()
        thread.join()
        self.assertEqual(float(results[0]), 7)


class Errors(unittest.TestCase):
    def setUp(self):
        self.session = inlay.Session(case("test_add"), config=False)
        self.x = np.zeros((3, 4, 5), np.float32)

    def expect(self, kind, words, call):
        with self.assertRaises(kind) as caught:
            call()
        self.assertIsInstance(caught.exception, inlay.InlayError)
        self.assertIn(words, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_feeds(self):
        run = self.session.run
        self.expect(ValueError, "no input 'z'; its inputs are x, y", lambda: run({"z": self.x}))
        self.expect(ValueError, "3 values for 2 inputs", lambda: run([self.x] * 3))
        self.expect(inlay.ShapeMismatch, "input 'x'", lambda: run([self.x[:2], self.x]))
        odd = np.full(self.x.shape, 1e39)  # no float
        self.expect(inlay.InvalidArgument, "input 'x' is float, in which element 0", lambda: run([odd, self.x]))
        self.expect(inlay.InlayError, "'y'", lambda: run([self.x]))
        self.expect(ValueError, "no output 'q'", lambda: run([self.x, self.x], ["q"]))
        np.testing.assert_array_equal(run([self.x, self.x])["sum"], self.x)  # the next run works

    def test_models(self):
        self.expect(FileNotFoundError, "cannot be opened", lambda: inlay.Session("/no/such/model.onnx"))
        self.expect(inlay.InvalidModel, "model", lambda: inlay.Session(b"garbage"))
        self.expect(ValueError, "did you mean 'intra_threads'?", lambda: inlay.Session(case("test_add"), intra_thread=1))
        self.expect(inlay.InlayError, "nonesuch", lambda: inlay.Session(case("test_add"), ["nonesuch"]))

    def test_closed(self):
        context = self.session.context()
        self.session.close()
        self.session.close()
        self.expect(ValueError, "session is closed", lambda: self.session.run([self.x, self.x]))
        self.expect(ValueError, "context is closed", lambda: context.run([self.x, self.x]))

    def test_cancel(self):
        cancel = inlay.Cancel()
        cancel.set()
        self.expect(inlay.Cancelled, "", lambda: self.session.run([self.x, self.x], cancel=cancel))
        self.expect(inlay.Cancelled, "", lambda: inlay.Session(case("test_add"), progress=lambda *_: False))

        def fails(*_):
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            inlay.Session(case("test_add"), progress=fails)


class Threads(unittest.TestCase):
    def test_of_a_run(self):
        session = inlay.Session(case("test_relu"), ["counting"], config=False, intra_threads=2,
                                plugin_dirs=os.environ["COUNTING_DIR"])
        x = np.zeros((3, 4, 5), np.float32)
        all_of_them = min(2, len(os.sched_getaffinity(0)))
        for wanted, got in ((0, all_of_them), (1, 1), (9, all_of_them)):  # the provider returns the number of threads it may use
            self.assertEqual(session.run([x], max_threads=wanted)["y"].max(), got)
        with session.context() as context:
            self.assertEqual(context.run([x], max_threads=1)["y"].numpy().max(), 1)


class Devices(unittest.TestCase):
    """The fake device with option echo: every result is 100 * delay_us + 10 * priority + power."""
    def setUp(self):
        self.x = np.zeros((3, 4, 5), np.float32)

    def session(self, **options):
        return inlay.Session(case("test_relu"), ["fake", "reference"], config=False, policy="priority",
                             plugin_dirs=os.environ["FAKE_DIR"], provider_options={"fake": {"echo": True}}, **options)

    def test_priority_and_power(self):
        session = self.session()
        self.assertEqual(session.run([self.x])["y"].max(), 0)
        self.assertEqual(session.run([self.x], priority="high", power="efficiency")["y"].max(), 21)
        with self.session(priority="high", power="performance") as hinted:
            self.assertEqual(hinted.run([self.x])["y"].max(), 22)
            with hinted.context() as context:
                self.assertEqual(context.run([self.x], priority="low")["y"].numpy().max(), 12)
        with self.assertRaisesRegex(inlay.InvalidArgument, "priority must be 'normal', 'low', 'high', not 'most'"):
            session.run([self.x], priority="most")
        with self.assertRaisesRegex(inlay.InvalidArgument, "option power"):
            self.session(power="most")

    def test_control(self):
        session = self.session()
        session.set_option("fake", "delay_us", 3)
        self.assertEqual(session.run([self.x])["y"].max(), 300)
        session.set_option("fake", "delay_us")
        self.assertEqual(session.run([self.x])["y"].max(), 0)
        self.assertEqual(session.trim("fake", 4096), 2048)
        self.assertEqual(session.trim("fake"), 0)
        self.assertEqual(session.trim(), 0)
        session.suspend("fake")
        with self.assertRaisesRegex(inlay.InlayError, "provider fake is suspended"):
            session.run([self.x])
        session.resume("fake")
        self.assertEqual(session.run([self.x])["y"].max(), 0)
        self.assertRaisesRegex(inlay.Unsupported, "cannot be controlled", session.suspend, "reference")
        self.assertRaisesRegex(inlay.NotFound, "no provider 'none'", session.trim, "none")


def tanh_model(rows, columns):
    """y = Tanh(x), large enough for all threads."""
    def value(name):
        shape = b"".join(field(1, field(1, n)) for n in (rows, columns))
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))

    node = field(1, "x") + field(2, "y") + field(4, "Tanh")
    graph = field(1, node) + field(2, "g") + field(11, value("x")) + field(12, value("y"))
    return field(1, 8) + field(8, field(1, "") + field(2, 17)) + field(7, graph)


def run_in_child(inherited, x, results):
    own = inlay.Session(tanh_model(*x.shape), config=False, intra_threads=2)
    results.put([np.array(session.run([x])["y"]) for session in (inherited, own)])


class Neighbours(unittest.TestCase):
    """Other libraries in the process and their state."""

    def test_children_run(self):
        x = np.random.default_rng(1).random((1000, 1000), np.float32)
        session = inlay.Session(tanh_model(*x.shape), config=False, intra_threads=2, providers=["reference"])
        wanted = session.run([x])["y"]
        fork = multiprocessing.get_context("fork")
        for _ in range(2):
            results = fork.SimpleQueue()
            children = [fork.Process(target=run_in_child, args=(session, x, results), daemon=True) for _ in range(2)]
            for child in children:
                child.start()
            for child in children:
                self.assertTrue(results._reader.poll(60), "a child hangs")
                for got in results.get():
                    np.testing.assert_allclose(got, wanted, rtol=1e-6)
            for child in children:
                child.join(60)
                self.assertEqual(child.exitcode, 0)
            np.testing.assert_array_equal(session.run([x])["y"], wanted)

    def test_plugins_are_not_known_libraries(self):
        """threadpoolctl, which scikit-learn uses, recognises libraries by prefixes of their file names, and calls them."""
        kinds = {("libopenblas", "openblas"): ("openblas_get_num_threads",),
                 ("mkl_rt", "libmkl_rt"): ("MKL_Get_Max_Threads",), ("libblis",): ("bli_thread_get_num_threads",),
                 ("libflexiblas",): ("flexiblas_get_num_threads",),
                 ("libiomp", "libgomp", "libomp", "vcomp"): ("omp_get_max_threads",)}
        x = np.random.default_rng(1).random((3, 4, 5), np.float32)
        for providers in (None, ["openblas", "reference"], ["cpu", "reference"]):
            try:
                inlay.Session(case("test_add"), config=False, providers=providers).run([x, x])
            except inlay.InlayError:
                self.assertIsNotNone(providers)  # not built on this system
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = {line.split(None, 5)[5].strip() for line in maps if line.count("/") > 0}
        plugins = [path for path in paths if "/inlay/plugins/" in path]
        self.assertTrue(plugins)
        for path in plugins:
            self.assertTrue(os.path.basename(path).startswith("inlay-"), path)
        for path in paths:
            for names, symbols in kinds.items():
                if os.path.basename(path).lower().startswith(names):
                    library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD)
                    self.assertTrue(any(hasattr(library, symbol) for symbol in symbols), path)


def ml_model(op, attribute, x, y):
    """y = op(x) of ai.onnx.ml; x and y: TypeProtos."""
    node = field(1, "x") + field(2, "y") + field(4, op) + field(5, attribute) + field(7, "ai.onnx.ml")
    values = field(11, field(1, "x") + field(2, x)) + field(12, field(1, "y") + field(2, y))
    graph = field(1, node) + field(2, "g") + values
    return (field(1, 8) + field(8, field(1, "") + field(2, 17)) + field(8, field(1, "ai.onnx.ml") + field(2, 1))
            + field(7, graph))


def tensor_type(dtype, *axes):
    shape = b"".join(field(1, field(1, n) if n is not None else b"") for n in axes)
    return field(1, field(1, dtype) + (field(2, shape) if axes else b""))


class Maps(unittest.TestCase):
    def run_all(self, model, feed):
        """The output of both interfaces, and the types as ONNX Runtime reports them."""
        from inlay.compat import onnxruntime as ort
        session = ort.InferenceSession(model)
        got = session.run(None, {"x": feed})[0]
        ours = inlay.Session(model, config=False).run([feed])["y"]
        self.assertEqual(repr(got), repr(ours))
        return got, session.get_inputs()[0], session.get_outputs()[0]

    def test_as_outputs(self):
        x = np.array([[0.25, 0.75], [1, 0]], np.float32)
        numbers = field(1, "classlabels_int64s") + field(8, 5) + field(8, 7) + field(20, 7)
        texts = field(1, "classlabels_strings") + field(9, "a") + field(9, "b") + field(20, 8)
        for attribute, key, names in ((numbers, 7, (5, 7)), (texts, 8, ("a", "b"))):
            y = field(4, field(1, field(5, field(1, key) + field(2, tensor_type(1)))))
            got, info, out = self.run_all(ml_model("ZipMap", attribute, tensor_type(1, None, 2), y), x)
            self.assertEqual(got, [dict(zip(names, row)) for row in x.tolist()])
            self.assertEqual(info.shape, [None, 2])
            self.assertEqual(out.type, f"seq(map({'int64' if key == 7 else 'string'},tensor(float)))")

    def test_as_inputs(self):
        attribute = field(1, "string_vocabulary") + b"".join(field(9, name) for name in "abc") + field(20, 8)
        x = field(5, field(1, 8) + field(2, tensor_type(1)))
        model = ml_model("DictVectorizer", attribute, x, tensor_type(1, None, 3))
        for feed, wanted in (({"a": 1, "c": 2.5}, [1, 0, 2.5]), ({}, [0, 0, 0])):
            got, info, _ = self.run_all(model, feed)
            np.testing.assert_array_equal(got.reshape(-1), wanted)
            self.assertEqual(info.type, "map(string,tensor(float))")
        self.assertEqual(Value.of({3: 1.5, -4: 2}).to_python(), {3: 1.5, -4: 2.0})

    def test_objects(self):
        """ONNX Runtime converts pandas objects in string arrays by str(); inlay's interface rejects them."""
        from inlay.compat import onnxruntime as ort
        attribute = field(1, "classes_strings") + field(9, "nan") + field(9, "q") + field(20, 8)
        model = ml_model("LabelEncoder", attribute, tensor_type(8, None), tensor_type(7, None))
        x = ["q", float("nan"), 3.5]
        for feed in (x, np.array(x, object)):
            self.assertEqual(ort.InferenceSession(model).run(None, {"x": feed})[0].tolist(), [1, 0, -1])
        with self.assertRaises(TypeError):
            inlay.Session(model, config=False).run([np.array(x, object)])


class OnnxRuntime(unittest.TestCase):
    def test_optimized_model(self):
        from inlay.compat import onnxruntime as ort
        x = np.ones((3, 4, 5), np.float32)
        with open(case("test_add"), "rb") as f, tempfile.TemporaryDirectory() as folder:
            for model in (case("test_add"), f.read()):
                options = ort.SessionOptions()
                options.optimized_model_filepath = os.path.join(folder, "out.onnx")
                ort.InferenceSession(model, options)
                got = ort.InferenceSession(options.optimized_model_filepath).run(None, {"x": x, "y": x})
                np.testing.assert_array_equal(got[0], 2 * x)
                os.unlink(options.optimized_model_filepath)
                for name, form in (("out.ort", None), ("out.onnx", "ORT")):
                    options.optimized_model_filepath = os.path.join(folder, name)
                    if form is not None:
                        options.add_session_config_entry("session.save_model_format", form)
                    with self.assertRaisesRegex(ort.NotImplemented, "not ORT"):
                        ort.InferenceSession(model, options)
                    self.assertEqual(os.listdir(folder), [])

    def test_interface(self):
        from inlay.compat import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.add_session_config_entry("inlay.policy", "priority")
        options.enable_profiling = True
        session = ort.InferenceSession(case("test_add"), options, providers=["CPUExecutionProvider"])
        self.assertEqual([(i.name, i.type, i.shape) for i in session.get_inputs()],
                         [("x", "tensor(float)", [3, 4, 5]), ("y", "tensor(float)", [3, 4, 5])])
        self.assertEqual(session.get_modelmeta().producer_name, "backend-test")
        x = np.ones((3, 4, 5), np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x, "y": x})[0], 2 * x)
        np.testing.assert_array_equal(session.run(["sum"], {"x": x, "y": x})[0], 2 * x)
        with self.assertRaises(ValueError):
            session.run(None, {"x": x})
        with self.assertRaises(ort.InvalidArgument):
            session.run(["nothing"], {"x": x, "y": x})
        for wrong in (x[0], np.full(x.shape, 1e39)):  # failing runs report their errors while profiling
            with self.assertRaisesRegex(inlay.InlayError, "input 'x'"):
                session.run(None, {"x": wrong, "y": x})
        value = ort.OrtValue.ortvalue_from_numpy(x)
        self.assertEqual((value.data_type(), value.shape(), value.element_type()), ("tensor(float)", [3, 4, 5], 1))
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", value)
        binding.bind_cpu_input("y", x)
        out = np.empty_like(x)
        binding.bind_output("sum", "cpu", 0, np.float32, out.shape, out.ctypes.data)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(out, 2 * x)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], 2 * x)
        with tempfile.TemporaryDirectory() as folder:
            options.profile_file_prefix = os.path.join(folder, "profile")
            self.assertTrue(os.path.getsize(session.end_profiling()) > 10)
        stop = ort.RunOptions()
        stop.terminate = True
        with self.assertRaises(ort.RuntimeException):
            session.run(None, {"x": x, "y": x}, stop)
        with self.assertRaises(ort.NotImplemented):
            ort.OrtValue.ortvalue_from_numpy(x, "cuda")

    def test_async(self):
        from inlay.compat import onnxruntime as ort
        session = ort.InferenceSession(case("test_add"))
        done, got = threading.Event(), []
        x = np.ones((3, 4, 5), np.float32)
        session.run_async(None, {"x": x, "y": x}, lambda results, data, error: (got.append((results, data, error)),
                                                                                done.set()), "tag")
        self.assertTrue(done.wait(30))
        self.assertEqual(got[0][1:], ("tag", ""))
        np.testing.assert_array_equal(got[0][0][0], 2 * x)


if __name__ == "__main__":
    unittest.main()
