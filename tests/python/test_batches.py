#!/usr/bin/env python3
"""samples/batch: a model over batches of Ray Data and of Spark. Stand-ins have the functions of pyarrow, ray and pyspark
that the samples call, with their documented arguments; where pyarrow is installed, it is used itself.

  test_batches.py SAMPLES     the folder samples/batch"""
import os
import runpy
import sys
import tempfile
import types
import unittest

import numpy as np

import inlay

SAMPLES = os.path.abspath(sys.argv[1])
sys.path.insert(0, SAMPLES)
try:
    import pyarrow as pa
except ImportError:
    class Array:
        def __init__(self, values, offsets=None):
            self.values, self.offsets = values, offsets
            self.null_count = sum(value is None for value in values) if values.dtype == object else 0

        def __len__(self):
            return len(self.values) if self.offsets is None else len(self.offsets) - 1

        def to_numpy(self, zero_copy_only=True):
            if self.offsets is not None or (zero_copy_only and self.values.dtype == object):
                raise ValueError("not without a copy")
            return self.values

        def __eq__(self, other):
            return self.tolist() == other.tolist()

        def tolist(self):
            if self.offsets is None:
                return self.values.tolist()
            return [self.values[a:b].tolist() for a, b in zip(self.offsets, self.offsets[1:])]

    class ListArray(Array):
        @classmethod
        def from_arrays(cls, offsets, values):
            assert offsets.values.dtype == np.int32 and offsets.values[-1] <= len(values)
            return cls(values.values, offsets.values)

        def flatten(self):
            return Array(self.values[self.offsets[0]:self.offsets[-1]])

    class ChunkedArray:
        def __init__(self, array):
            self.array = array

        def combine_chunks(self):
            return self.array

        def tolist(self):
            return self.array.tolist()

    class RecordBatch:
        chunked = False

        def __init__(self, arrays, names):
            assert len(arrays) == len(names) == len(set(names)) and len({len(a) for a in arrays}) == 1
            self.arrays, self.schema, self.num_rows = arrays, types.SimpleNamespace(names=list(names)), len(arrays[0])

        @classmethod
        def from_arrays(cls, arrays, names=None):
            return cls([a.array if isinstance(a, ChunkedArray) else a for a in arrays], names)

        def column(self, name):
            array = self.arrays[self.schema.names.index(name)]
            return ChunkedArray(array) if self.chunked else array

    class Table(RecordBatch):
        chunked = True

    def array(values):
        if isinstance(values, list) and isinstance(values[0], list):
            offsets = np.cumsum([0] + [len(v) for v in values]).astype(np.int32)
            return ListArray(np.asarray(sum(values, [])), offsets)
        values = np.asarray(values)
        if values.ndim != 1:
            raise ValueError("only 1-dimensional arrays")
        return Array(values)

    pa = types.ModuleType("pyarrow")
    vars(pa).update(Array=Array, ListArray=ListArray, ChunkedArray=ChunkedArray, RecordBatch=RecordBatch, Table=Table,
                    array=array)
    sys.modules["pyarrow"] = pa

from arrow_model import ArrowModel  # noqa: E402

ROWS = [[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0], [7.0, -8.0, 9.0]]
WANT = [[max(v, 0) for v in row] for row in ROWS]


def make_batch(kind, rows):
    return kind.from_arrays([pa.array(list(range(len(rows)))), pa.array(rows)], names=["id", "x"])


class Batches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from onnx import TensorProto, helper, save
        cls.top = tempfile.TemporaryDirectory()
        cls.model = cls.top.name + "/model.onnx"
        value = helper.make_tensor_value_info
        nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("ReduceSum", ["x", "axis"], ["sum"], keepdims=0)]
        axis = helper.make_tensor("axis", TensorProto.INT64, [1], [1])
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["n", 3])],
                                  [value("y", TensorProto.FLOAT, ["n", 3]), value("sum", TensorProto.FLOAT, ["n"])], [axis])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), cls.model)

    @classmethod
    def tearDownClass(cls):
        cls.top.cleanup()

    def check(self, batch, kind, rows):
        self.assertIsInstance(batch, kind)
        self.assertEqual(batch.schema.names, ["id", "x", "y", "sum"])
        self.assertEqual(batch.column("x").tolist(), rows)
        self.assertEqual(batch.column("y").tolist(), [[max(v, 0) for v in row] for row in rows])
        self.assertEqual(batch.column("sum").tolist(), [sum(row) for row in rows])

    def test_model(self):
        model = ArrowModel(self.model)
        for kind in (pa.RecordBatch, pa.Table):
            for count in (1, 2, 3):
                self.check(model(make_batch(kind, ROWS[:count])), kind, ROWS[:count])
        with self.assertRaises(ValueError):
            model(make_batch(pa.RecordBatch, [[1.0, 2.0], [3.0]]))
        with self.assertRaises((KeyError, ValueError)):
            model(pa.RecordBatch.from_arrays([pa.array([1.0])], names=["z"]))

    def run_sample(self, name, *arguments, **modules):
        before, sys.argv = sys.argv, [name, self.model, "in.parquet", "out", *arguments]
        sys.modules.update(modules)
        try:
            runpy.run_path(os.path.join(SAMPLES, name), run_name="__main__")
        finally:
            sys.argv = before
            for module in modules:
                del sys.modules[module]

    def test_ray(self):
        made, written = [], []

        class Dataset:
            def __init__(self, batches):
                self.batches = batches

            def map_batches(self, fn, *, batch_size, batch_format, fn_constructor_args, fn_constructor_kwargs, num_cpus,
                            concurrency):
                assert batch_format == "pyarrow" and isinstance(fn, type) and batch_size > 0 and num_cpus > 0
                assert concurrency[0] <= concurrency[1]
                made.append(fn(*fn_constructor_args, **fn_constructor_kwargs))
                return Dataset([made[0](batch) for batch in self.batches])

            def write_parquet(self, path):
                written.append((path, self.batches))

        ray = types.ModuleType("ray")
        ray.data = types.SimpleNamespace(read_parquet=lambda path: Dataset([make_batch(pa.Table, ROWS[:2]),
                                                                            make_batch(pa.Table, ROWS[2:])]))
        self.run_sample("ray_batches.py", ray=ray)
        (path, batches), = written
        self.assertEqual(path, "out")
        self.check(batches[0], pa.Table, ROWS[:2])
        self.check(batches[1], pa.Table, ROWS[2:])

    def test_spark(self):
        written, schemas = [], []

        class Frame:
            schema = types.SimpleNamespace(simpleString=lambda: "struct<id:bigint,x:array<float>>")

            def __init__(self, batches):
                self.batches = batches

            def mapInArrow(self, func, schema):
                schemas.append(schema)
                return Frame(func(iter(self.batches)))

            @property
            def write(self):
                return types.SimpleNamespace(parquet=lambda path: written.append((path, list(self.batches))))

        read = types.SimpleNamespace(parquet=lambda path: Frame([make_batch(pa.RecordBatch, ROWS[:1]),
                                                                 make_batch(pa.RecordBatch, ROWS)]))
        sql = types.ModuleType("pyspark.sql")
        session = types.SimpleNamespace(read=read)
        sql.SparkSession = types.SimpleNamespace(builder=types.SimpleNamespace(getOrCreate=lambda: session))
        self.run_sample("spark_batches.py", "y array<float>, sum float",
                        **{"pyspark": types.ModuleType("pyspark"), "pyspark.sql": sql})
        self.assertEqual(schemas, ["id:bigint,x:array<float>, y array<float>, sum float"])
        (path, batches), = written
        self.assertEqual(path, "out")
        self.check(batches[0], pa.RecordBatch, ROWS[:1])
        self.check(batches[1], pa.RecordBatch, ROWS)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
