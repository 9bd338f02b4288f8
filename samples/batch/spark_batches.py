"""Runs a model over a table with Spark: spark_batches.py MODEL IN.parquet OUT_DIR 'OUTPUT array<float>, ...'

Each Python worker has one session; Spark gives it batches as Arrow. The last argument is the type of the outputs."""
import sys

from arrow_model import load
from pyspark.sql import SparkSession


def predict(path):
    def run(batches):
        for batch in batches:
            if batch.num_rows > 0:
                yield load(path)(batch)
    return run


if __name__ == "__main__":
    model, source, target, outputs = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    table = spark.read.parquet(source)
    schema = table.schema.simpleString()[len("struct<"):-1]
    table.mapInArrow(predict(model), f"{schema}, {outputs}").write.parquet(target)
