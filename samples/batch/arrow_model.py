"""A model as a function of Arrow batches: the columns with the names of its inputs go in, its outputs are added.

A column has numbers, or lists of as many numbers as a row of the input has elements. The first axis of each input and
output is that of the rows."""
import functools

import numpy as np
import pyarrow as pa

import inlay


class ArrowModel:
    def __init__(self, path, **options):
        self.session = inlay.Session(path, **options)

    def __call__(self, batch):
        """batch: a pyarrow.RecordBatch or Table. Returns one of the same kind."""
        names = set(batch.schema.names)
        if batch.num_rows == 0:
            raise ValueError("a batch without rows")
        feeds = {info.name: self._rows(info, batch.column(info.name), batch.num_rows)
                 for info in self.session.inputs if info.name in names or not info.optional}
        outputs = self.session.run(feeds)
        columns = [batch.column(name) for name in batch.schema.names] + [self._column(o) for o in outputs.values()]
        return type(batch).from_arrays(columns, names=[*batch.schema.names, *outputs])

    @staticmethod
    def _rows(info, column, rows):
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if column.null_count > 0:
            raise ValueError(f"column '{info.name}' has nulls")
        if hasattr(column, "flatten"):  # lists
            column = column.flatten()
        shape = [size if isinstance(size, int) else -1 for size in info.shape[1:]]
        return column.to_numpy(zero_copy_only=False).reshape(rows, *(shape if shape.count(-1) < 2 else [-1]))

    @staticmethod
    def _column(output):
        if output.ndim < 2:
            return pa.array(output)
        rows = output.reshape(len(output), -1)
        offsets = np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(rows.reshape(-1)))


@functools.lru_cache(maxsize=None)
def load(path):
    """The model at the path, one of each in a process, on one thread."""
    return ArrowModel(path, intra_threads=1)
