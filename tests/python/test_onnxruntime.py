"""The package onnxruntime: names, sessions, values, bindings, errors, options."""
import gc
import importlib
import json
import os
import re
import sys
import tempfile
import threading
import unittest
import warnings

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as C
from onnxruntime.capi._table import COMPILE_ENTRIES, ENTRIES

from test_inlay import case, field, ml_model, tensor_type

TABLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sdk/bindings/onnxruntime")
#: what ONNX Runtime 1.30's package has without an underscore
NAMES = """AdapterFormat ExecutionMode ExecutionOrder GraphOptimizationLevel IOBinding InferenceSession LoraAdapter
ModelCompiler ModelMetadata NodeArg OrtAllocatorType OrtArenaCfg OrtCompileApiFlags OrtDevice OrtDeviceMemoryType
OrtDeviceVendorId OrtEpAssignedNode OrtEpAssignedSubgraph OrtEpDevice OrtExecutionProviderDevicePolicy
OrtExternalInitializerInfo OrtHardwareDevice OrtHardwareDeviceType OrtMemType OrtMemoryInfo OrtMemoryInfoDeviceType
OrtSparseFormat OrtSyncStream OrtValue RunOptions SessionIOBinding SessionOptions SparseTensor capi copy_tensors
create_and_register_allocator create_and_register_allocator_v2 cuda_version disable_telemetry_events
enable_telemetry_events get_all_providers get_available_providers get_build_info get_device get_ep_devices
get_version_string has_collective_ops import_capi_exception onnxruntime_validation package_name preload_dlls
print_debug_info register_execution_provider_library set_default_logger_severity set_default_logger_verbosity
set_global_thread_pool_sizes set_seed unregister_execution_provider_library version""".split()
ERRORS = """EPFail EngineError Fail InvalidArgument InvalidGraph InvalidProtobuf ModelLoaded NoModel NoSuchFile
NotImplemented RuntimeException""".split()
X = np.ones((3, 4, 5), np.float32)


def open_add(**options):
    return ort.InferenceSession(case("test_add"), providers=["CPUExecutionProvider"], **options)


def identity_model(dims, opset=17):
    """y = Identity(x); dims: pairs of a name and a denotation."""
    shape = b"".join(field(1, (field(2, name) if name else b"") + (field(3, meaning) if meaning else b""))
                     for name, meaning in dims)
    tensor = field(1, field(1, 1) + field(2, shape))
    graph = (field(1, field(1, "x") + field(2, "y") + field(4, "Identity")) + field(2, "g")
             + field(11, field(1, "x") + field(2, tensor)) + field(12, field(1, "y") + field(2, field(1, field(1, 1)))))
    return field(1, 8) + field(8, field(1, "") + field(2, opset)) + field(7, graph)


class Names(unittest.TestCase):
    def test_public_names(self):
        self.assertEqual([name for name in NAMES if not hasattr(ort, name)], [])
        self.assertEqual((ort.__version__, ort.get_version_string(), ort.get_device()), ("1.30.0", "1.30.0", "CPU"))
        self.assertEqual(ort.get_available_providers(), ["CPUExecutionProvider"])
        self.assertIn("CUDAExecutionProvider", ort.get_all_providers())
        self.assertEqual(ort.get_ep_devices()[0].ep_name, "CPUExecutionProvider")

    def test_exceptions(self):
        """Programs import them from capi, and ONNX Runtime derives them from Exception alone."""
        for module in ("onnxruntime_pybind11_state", "_pybind_state"):
            found = importlib.import_module("onnxruntime.capi." + module)
            for name in ERRORS:
                self.assertEqual(getattr(found, name).__bases__, (Exception,))
                self.assertEqual(getattr(found, name).__module__, "onnxruntime.capi.onnxruntime_pybind11_state")

    def test_table(self):
        self.check_table("api.def", r"ENTRY\(\w+,\s*(.*?),\s*(\w+),\s*\((.*?)\)\)", ENTRIES)
        self.check_table("compile.def", r"ENTRY\((.*?),\s*(\w+),\s*\((.*?)\)\)", COMPILE_ENTRIES)

    def check_table(self, name, pattern, listed):
        """Index and number of parameters of each entry agree with the table of the library."""
        with open(os.path.join(TABLES, name), encoding="utf-8") as f:
            text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
        entries = re.findall(pattern, text, flags=re.S)
        letters = {"size_t": "z", "int64_t": "l", "uint32_t": "u"}
        for line in listed.splitlines():
            name, index, signature = line.split()
            result, found, parameters = entries[int(index)]
            self.assertEqual(found, name)
            parameters = [] if parameters == "void" else re.split(r",\s*", parameters)
            self.assertEqual(len(signature) - 1, len(parameters), name)
            self.assertEqual(signature[0] == "!", result == "OrtStatus *", name)
            for letter, parameter in zip(signature[1:], parameters):
                kind = parameter.split()[0]
                pointer = "*" in parameter or "[" in parameter or kind == "OrtLoggingFunction"
                self.assertEqual(letter, "p" if pointer else letters.get(kind, "i"), f"{name}: {parameter}")


class Adapters(unittest.TestCase):
    def test_files(self):
        weights = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "empty": np.zeros((0, 4), np.int64),
                   "one": np.array(7, np.float16)}
        written = ort.AdapterFormat()
        written.set_adapter_version(3)
        written.set_model_version(5)
        written.set_parameters({name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in weights.items()})
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.onnx_adapter")
            written.export_adapter(path)
            read = ort.AdapterFormat.read_adapter(path)
            self.assertEqual((read.get_adapter_version(), read.get_model_version()), (3, 5))
            self.assertEqual(sorted(read.get_parameters()), sorted(weights))
            for name, value in read.get_parameters().items():
                np.testing.assert_array_equal(value.numpy(), weights[name])
            ort.LoraAdapter().Load(path)  # the library reads what the package wrote
            with open(path, "rb") as f:
                data = f.read()
            for size in range(0, len(data), 5):
                with open(path, "wb") as f:
                    f.write(data[:size])
                with self.assertRaises(C.Fail):
                    ort.AdapterFormat.read_adapter(path)


class Compiling(unittest.TestCase):
    def test_bytes(self):
        data = ort.ModelCompiler(ort.SessionOptions(), case("test_add")).compile_to_bytes()
        session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
        np.testing.assert_array_equal(session.run(None, {"x": X, "y": X})[0], X + X)
        with self.assertRaises(C.NoSuchFile):
            ort.ModelCompiler(ort.SessionOptions(), "absent.onnx").compile_to_bytes()
        with self.assertRaises(C.NotImplemented):
            ort.ModelCompiler(ort.SessionOptions(), "m.onnx", get_initializer_location_func=print)


class Sessions(unittest.TestCase):
    def test_run(self):
        session = open_add()
        feed = {"x": X, "y": X}
        self.assertEqual(repr(session.get_inputs()[0]), "NodeArg(name='x', type='tensor(float)', shape=[3, 4, 5])")
        self.assertEqual(session.get_modelmeta().producer_name, "backend-test")
        for names in (None, [], ["sum"]):
            np.testing.assert_array_equal(session.run(names, feed)[0], 2 * X)
        np.testing.assert_array_equal(session.run(None, {"x": X.tolist(), "y": X[::-1]})[0], 2 * X)
        value = ort.OrtValue.ortvalue_from_numpy(X)
        result = session.run_with_ort_values(["sum"], {"x": value, "y": value})[0]
        np.testing.assert_array_equal(result.numpy(), 2 * X)
        self.assertEqual(session.get_providers(), ["CPUExecutionProvider"])

    def test_results_outlive_all(self):
        session = open_add()
        result = session.run(None, {"x": X, "y": X})[0]
        del session
        gc.collect()
        np.testing.assert_array_equal(result, 2 * X)

    def test_errors(self):
        session = open_add()
        with self.assertRaisesRegex(ValueError, r"Required inputs \(\['y'\]\) are missing from input feed \(\['x'\]\)"):
            session.run(None, {"x": X})
        for feed in ({"x": X.astype(np.float64), "y": X}, {"x": X[0, 0], "y": X}, {"x": X[:, :2], "y": X},
                     {"x": X, "y": X, "z": X}, {"x": X.astype(object), "y": X}):
            with self.assertRaisesRegex(C.InvalidArgument, r"^\[ONNXRuntimeError\] : 2 : INVALID_ARGUMENT : "):
                session.run(None, feed)
        with self.assertRaisesRegex(C.InvalidArgument, "nothing"):
            session.run(["nothing"], {"x": X, "y": X})
        with self.assertRaisesRegex(C.NoSuchFile, r"^\[ONNXRuntimeError\] : 3 : NO_SUCHFILE : .*missing\.onnx"):
            ort.InferenceSession("missing.onnx")
        with self.assertRaises(C.InvalidProtobuf):
            ort.InferenceSession(b"\x08\x08nonsense")
        with self.assertRaises(TypeError):
            ort.InferenceSession(3)

    def test_passed_through_inputs_are_copied(self):
        session = ort.InferenceSession(identity_model([("n", "")]))
        x = np.arange(3, dtype=np.float32)
        y = session.run(None, {"x": x})[0]
        self.assertFalse(np.shares_memory(x, y))

        value = ort.OrtValue.ortvalue_from_numpy(x)
        y = session.run(None, {"x": value})[0]
        self.assertEqual(y.tolist(), [0, 1, 2])
        self.assertFalse(np.shares_memory(x, y))

    def test_memory_of_runs(self):
        """Runs, failing ones too, leave no reference to their inputs behind."""
        session = open_add()
        x, wrong = X.copy(), np.ones(7, np.float32)
        value = ort.OrtValue.ortvalue_from_numpy(x)
        watched = (x, wrong, value._ortvalue, X, np.ndarray)
        before = [sys.getrefcount(part) for part in watched]
        for _ in range(100):
            session.run(None, {"x": x, "y": X})
            session.run(None, {"x": value, "y": x[::-1]})
            for feed in ({"x": wrong, "y": x}, {"x": x, "y": "text"}, {"x": value, "y": object()}):
                with self.assertRaises(Exception):
                    session.run(None, feed)
            with self.assertRaises(C.InvalidArgument):
                session.run(["nothing"], {"x": x, "y": x})
        gc.collect()
        for old, new in zip(before, [sys.getrefcount(part) for part in watched]):
            self.assertLess(abs(new - old), 10)

    def test_unnamed_dimensions(self):
        model = identity_model([("batch", ""), ("", "")])
        self.assertEqual(ort.InferenceSession(model).get_inputs()[0].shape, ["batch", None])

    def test_providers(self):
        for providers in (["CUDAExecutionProvider", "CPUExecutionProvider"], [("CUDAExecutionProvider", {"a": 1})]):
            with self.assertWarnsRegex(UserWarning, "Specified provider 'CUDAExecutionProvider' is not in available"):
                session = ort.InferenceSession(case("test_add"), providers=providers)
            self.assertEqual(session.get_providers(), ["CPUExecutionProvider"])
        with self.assertRaisesRegex(RuntimeError, "Unknown Provider Type: FooExecutionProvider"), \
                warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ort.InferenceSession(case("test_add"), providers=["FooExecutionProvider"], enable_fallback=0)
        for providers, options in (("CPU", [{}, {}]), (["CPU"], [{}, {}]), ([("CPU", {})], [{}]), ([3], None)):
            with self.assertRaises(ValueError):
                ort.InferenceSession(case("test_add"), providers=providers, provider_options=options,
                                     enable_fallback=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session = ort.InferenceSession(case("test_add"), providers=["reference"], enable_fallback=0)
        np.testing.assert_array_equal(session.run(None, {"x": X, "y": X})[0], 2 * X)

    @unittest.skipUnless(os.environ.get("TEST_EP"), "the library of tests/ort_ep is not built")
    def test_library_of_a_vendor(self):
        ort.register_execution_provider_library("a vendor's", os.environ["TEST_EP"])
        try:
            options = ort.SessionOptions()
            options.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == "test_ep"], {"fault": "Mul"})
            session = ort.InferenceSession(case("test_mul"), options)
            self.assertEqual(session.get_providers(), ["test_ep", "CPUExecutionProvider"])
            self.assertEqual(session.get_provider_options(), {"test_ep": {"fault": "Mul"}, "CPUExecutionProvider": {}})
            self.assertTrue((session.run(None, {"x": X, "y": X})[0] != X).any())  # the library ran it, with its fault
            del session
        finally:
            ort.unregister_execution_provider_library("a vendor's")

    def test_async(self):
        done, got = threading.Event(), []

        def callback(results, data, text):
            got.append((results, data, text))
            done.set()

        open_add().run_async(None, {"x": X, "y": X}, callback, "tag")
        self.assertTrue(done.wait(30))
        self.assertEqual(got[0][1:], ("tag", ""))
        np.testing.assert_array_equal(got[0][0][0], 2 * X)

    def test_threads(self):
        session, wrong = open_add(), []

        def work(number):
            for _ in range(50):
                got = session.run(None, {"x": X * number, "y": X})[0]
                if not np.array_equal(got, X * (number + 1)):
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Options(unittest.TestCase):
    def test_attributes(self):
        for options in (ort.SessionOptions(), ort.RunOptions()):
            with self.assertRaises(AttributeError):
                options.nonsense = 1
            with self.assertRaises(AttributeError):
                options.nonsense  # noqa: B018 (the access raises)
            with self.assertRaises(TypeError):
                options.log_severity_level = "loud"
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("inlay.policy", "priority")
        self.assertEqual(options.get_session_config_entry("inlay.policy"), "priority")
        with self.assertRaisesRegex(RuntimeError, "SessionOptions does not have configuration with key: nothing"):
            options.get_session_config_entry("nothing")
        kept = open_add(sess_options=options).get_session_options()
        self.assertEqual((kept.intra_op_num_threads, kept.graph_optimization_level),
                         (1, ort.GraphOptimizationLevel.ORT_DISABLE_ALL))

    def test_run_options(self):
        run = ort.RunOptions()
        run.add_run_config_entry("key", "value")
        self.assertEqual(run.get_run_config_entry("key"), "value")
        session = open_add()
        run.terminate = True
        with self.assertRaises(Exception):
            session.run(None, {"x": X, "y": X}, run)
        run.terminate = False
        np.testing.assert_array_equal(session.run(None, {"x": X, "y": X}, run)[0], 2 * X)

    def test_free_dimensions(self):
        model = identity_model([("batch", "DATA_BATCH"), ("width", "DATA_FEATURE")])
        options = ort.SessionOptions()
        options.add_free_dimension_override_by_denotation("DATA_BATCH", 3)
        options.add_free_dimension_override_by_denotation("DATA_CHANNEL", 9)
        options.add_free_dimension_override_by_name("width", 2)
        with tempfile.NamedTemporaryFile(suffix=".onnx") as f:
            f.write(model)
            f.flush()
            for source in (model, f.name):
                self.assertEqual(ort.InferenceSession(source, options).get_inputs()[0].shape, [3, 2])
        plain = identity_model([("batch", ""), ("width", "")])  # the options keep no names of the model before
        self.assertEqual(ort.InferenceSession(plain, options).get_inputs()[0].shape, ["batch", 2])

    def test_missing_libraries(self):
        with self.assertRaises(C.Fail):
            ort.SessionOptions().register_custom_ops_library("/nowhere/lib.so")

    def test_profile(self):
        options = ort.SessionOptions()
        options.enable_profiling = True
        with tempfile.TemporaryDirectory() as folder:
            options.profile_file_prefix = os.path.join(folder, "profile")
            session = open_add(sess_options=options)
            session.run(None, {"x": X, "y": X})
            self.assertGreater(session.get_profiling_start_time_ns(), 0)
            path = session.end_profiling()
            self.assertTrue(path.startswith(options.profile_file_prefix))
            with open(path, encoding="utf-8") as f:
                events = json.load(f)
            self.assertEqual([e["name"] for e in events if e["cat"] == "Session"], ["model_run"])
            self.assertEqual([e["args"]["op_name"] for e in events if e["cat"] == "Node"], ["Add"])
            self.assertTrue(all(e["name"].endswith("_kernel_time") for e in events if e["cat"] == "Node"))


class Values(unittest.TestCase):
    def test_facts(self):
        value = ort.OrtValue.ortvalue_from_numpy(X)
        self.assertEqual((value.data_type(), value.shape(), value.element_type(), value.device_name()),
                         ("tensor(float)", [3, 4, 5], 1, "cpu"))
        self.assertEqual((value.tensor_size_in_bytes(), value.data_ptr()), (X.nbytes, X.ctypes.data))
        self.assertTrue(value.has_value() and value.is_tensor())
        value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(4, np.uint16), 16)
        self.assertEqual(value.data_type(), "tensor(bfloat16)")
        with self.assertRaises(RuntimeError):
            ort.OrtValue.ortvalue_from_numpy(X, "cuda", 0)
        texts = ort.OrtValue.ortvalue_from_numpy(np.array([["a", ""], ["\u00e4\u20ac", "b c"]]))
        self.assertEqual((texts.data_type(), texts.numpy().tolist()),
                         ("tensor(string)", [["a", ""], ["\u00e4\u20ac", "b c"]]))

    def test_memory(self):
        value = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
        value.update_inplace(np.full((2, 3), 7, np.float32))
        view = value.numpy()
        del value
        gc.collect()
        np.testing.assert_array_equal(view, np.full((2, 3), 7))
        other = ort.OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32))
        ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(view)], [other])
        np.testing.assert_array_equal(np.asarray(other), view)
        for wrong in (np.zeros((3, 2), np.float32), np.zeros((2, 3))):
            with self.assertRaises(RuntimeError):
                other.update_inplace(wrong)

    def test_dlpack(self):
        x = np.arange(6, dtype=np.int64).reshape(2, 3)
        value = ort.OrtValue.from_dlpack(x)
        self.assertEqual(value.data_ptr(), x.ctypes.data)
        back = np.from_dlpack(value)
        self.assertTrue(np.shares_memory(back, x))
        self.assertEqual(ort.OrtValue.from_dlpack(x > 2).data_type(), "tensor(bool)")

    def test_sparse(self):
        values, indices = np.array([1, 2, 3], np.float32), np.array([3, 5, 15])
        made = ort.SparseTensor.sparse_coo_from_numpy([9, 9], values, indices, ort.OrtDevice.make("cpu", 0))
        self.assertEqual((made.format(), made.dense_shape(), made.data_type()),
                         (ort.OrtSparseFormat.ORT_SPARSE_COO, [9, 9], "sparse_tensor(float)"))
        np.testing.assert_array_equal(made.values(), values)
        np.testing.assert_array_equal(made.as_coo_view().indices(), indices)
        with self.assertRaises(RuntimeError):
            made.as_csrc_view()
        self.assertTrue(ort.OrtValue.ort_value_from_sparse_tensor(made).is_sparse_tensor())

    def test_maps_out(self):
        """ZipMap, the default of skl2onnx for classifiers."""
        numbers = field(1, "classlabels_int64s") + field(8, 5) + field(8, 7) + field(20, 7)
        texts = field(1, "classlabels_strings") + field(9, "a") + field(9, "b") + field(20, 8)
        x = np.array([[0.25, 0.75], [1, 0]], np.float32)
        for attribute, key, names in ((numbers, 7, (5, 7)), (texts, 8, ("a", "b"))):
            y = field(4, field(1, field(5, field(1, key) + field(2, tensor_type(1)))))
            session = ort.InferenceSession(ml_model("ZipMap", attribute, tensor_type(1, None, 2), y))
            self.assertEqual(session.run(None, {"x": x})[0], [dict(zip(names, row)) for row in x.tolist()])
            self.assertEqual(session.get_outputs()[0].type,
                             f"seq(map({'int64' if key == 7 else 'string'},tensor(float)))")

    def test_maps_in(self):
        """DictVectorizer: dicts with keys and values of each type that it takes."""
        rng = np.random.default_rng(3)
        for key, value in ((7, 1), (7, 11), (8, 1), (8, 7), (8, 11)):
            names = list(range(10, 16)) if key == 7 else [f"k{i}" for i in range(6)]
            entries = field(1, "int64_vocabulary" if key == 7 else "string_vocabulary")
            for name in names:
                entries += field(8 if key == 7 else 9, name)
            entries += field(20, 7 if key == 7 else 8)
            x = field(5, field(1, key) + field(2, tensor_type(value)))
            session = ort.InferenceSession(ml_model("DictVectorizer", entries, x, tensor_type(value, None, None)))
            for _ in range(20):
                chosen = rng.permutation(6)[:rng.integers(1, 7)]
                feed = {names[i]: int(rng.integers(1, 100)) for i in chosen}
                got = session.run(None, {"x": feed})[0]
                np.testing.assert_array_equal(got.ravel(), [feed.get(name, 0) for name in names])
            with self.assertRaisesRegex(C.Fail, "a dict is expected"):
                session.run(None, {"x": np.zeros(3)})

    def test_maps_in_have_types(self):
        attribute = field(1, "string_vocabulary") + b"".join(field(9, name) for name in "abc") + field(20, 8)
        x = field(5, field(1, 8) + field(2, tensor_type(1)))
        session = ort.InferenceSession(ml_model("DictVectorizer", attribute, x, tensor_type(1, None, 3)))
        self.assertEqual(session.get_inputs()[0].type, "map(string,tensor(float))")
        np.testing.assert_array_equal(session.run(None, {"x": {"a": 1, "c": 2.5}})[0], [[1, 0, 2.5]])

    def test_objects(self):
        """Objects of pandas in string arrays, such as NaN, are converted by str()."""
        attribute = field(1, "classes_strings") + field(9, "nan") + field(9, "q") + field(20, 8)
        session = ort.InferenceSession(ml_model("LabelEncoder", attribute, tensor_type(8, None), tensor_type(7, None)))
        x = ["q", float("nan"), 3.5]
        for feed in (x, np.array(x, object), np.array(["q", "nan", "x"])):
            self.assertEqual(session.run(None, {"x": feed})[0].tolist(), [1, 0, -1])


class Files(unittest.TestCase):
    def test_assignments(self):
        options = ort.SessionOptions()
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        parts = open_add(sess_options=options).get_provider_graph_assignment_info()
        self.assertEqual([(part.ep_name, [(node.op_type, node.domain) for node in part.get_nodes()]) for part in parts],
                         [("CPUExecutionProvider", [("Add", "")])])

    def test_optimized_model_with_external_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            model, target = os.path.join(folder, "model.onnx"), os.path.join(folder, "optimized.onnx")
            weights = np.arange(2048, dtype=np.float32)
            tensor = field(1, 2048) + field(2, 1) + field(8, "w") + field(9, weights.tobytes())
            node = field(1, "x") + field(1, "w") + field(2, "y") + field(4, "Mul")
            graph = (field(1, node) + field(2, "g") + field(5, tensor) +
                     field(11, field(1, "x") + field(2, tensor_type(1, 2048))) +
                     field(12, field(1, "y") + field(2, tensor_type(1, 2048))))
            with open(model, "wb") as file:
                file.write(field(1, 8) + field(7, graph) + field(8, field(2, 17)))
            options = ort.SessionOptions()
            options.optimized_model_filepath = target
            options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights.bin")
            ort.InferenceSession(model, options)
            self.assertGreaterEqual(os.path.getsize(os.path.join(folder, "weights.bin")), weights.nbytes)
            self.assertLess(os.path.getsize(target), weights.nbytes)
            x = np.ones(2048, np.float32)
            np.testing.assert_array_equal(ort.InferenceSession(target).run(None, {"x": x})[0], weights)


class Bindings(unittest.TestCase):
    def test_all_kinds(self):
        session = open_add()
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(X))
        binding.bind_input("y", "cpu", 0, np.float32, X.shape, X.ctypes.data)
        out = np.empty_like(X)
        binding.bind_output("sum", "cpu", 0, np.float32, out.shape, out.ctypes.data)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(out, 2 * X)
        binding.clear_binding_outputs()
        binding.bind_output("sum")
        binding.bind_cpu_input("y", 3 * X)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], 4 * X)
        kept = binding.get_outputs()[0]
        del binding, session
        gc.collect()
        np.testing.assert_array_equal(kept.numpy(), 4 * X)

    def test_errors(self):
        binding = open_add().io_binding()
        with self.assertRaisesRegex(RuntimeError, "Only binding non-string Tensors"):
            binding.bind_cpu_input("x", np.array(["a"]))
        with self.assertRaises(ValueError):
            binding.bind_output("sum", buffer_ptr=X.ctypes.data)
        with self.assertRaises(RuntimeError):
            binding.bind_output("sum", "cuda")


class Backend(unittest.TestCase):
    def test_prepare(self):
        import onnxruntime.backend as backend
        made = backend.prepare(case("test_add"), "CPU", intra_op_num_threads=1, unknown=3)
        np.testing.assert_array_equal(made.run([X, X])[0], 2 * X)
        self.assertFalse(backend.supports_device("CUDA:0"))
        with self.assertRaisesRegex(RuntimeError, "not permitted"):
            backend.prepare(case("test_add"), optimized_model_filepath="x.onnx")


if __name__ == "__main__":
    sys.exit(unittest.main())
