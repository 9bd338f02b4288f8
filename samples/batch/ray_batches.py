"""Runs a model over a dataset with Ray Data: ray_batches.py MODEL IN.parquet OUT_DIR

Each actor has one session; Ray gives it batches as Arrow tables."""
import sys

import ray
from arrow_model import ArrowModel

model, source, target = sys.argv[1:]
ray.data.read_parquet(source).map_batches(
    ArrowModel, fn_constructor_args=[model], fn_constructor_kwargs={"intra_threads": 1}, batch_format="pyarrow",
    batch_size=64, num_cpus=1, concurrency=(1, 16)).write_parquet(target)
