#!/usr/bin/env python3
"""Writes tests/golden/parquet with pyarrow: the same 300 rows in the forms that are read and in some that are refused.

usage: scripts/make_parquet_samples.py [--output FOLDER]     (needs pyarrow; the tests need only the files)
"""
import argparse
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 300


def table():
    """What tests/data/parquet_test.cc expects of every row."""
    rows = range(ROWS)
    return pa.table({
        "text": pa.array([None if i % 11 == 5 else f"row {i} " + "xyz" * (i % 7) for i in rows], pa.string()),
        "label": pa.array([i % 3 - 1 for i in rows], pa.int64()),
        "small": pa.array([i % 3 for i in rows], pa.int32()),
        "score": pa.array([i * 0.25 for i in rows], pa.float32()),
        "wide": pa.array([i * 0.125 for i in rows], pa.float64()),
        "flag": pa.array([None if i % 13 == 0 else i % 2 == 1 for i in rows], pa.bool_()),
    })


def write_glue(folder):
    """MRPC and MNLI with the hub's names of files and columns; the words are those of tests/runs/glue_fixture.h."""
    def rows(first, second, count, labelled, classes=2):
        return pa.table({
            first: pa.array([f"w{i % 24} w{i * 7 % 24}" for i in range(count)], pa.string()),
            second: pa.array([("good " if i % classes == 1 else "") + f"w{i * 5 % 24}" for i in range(count)], pa.string()),
            "label": pa.array([i % classes if labelled else -1 for i in range(count)], pa.int64()),
            "idx": pa.array(range(count), pa.int32()),
        })
    def write(task, name, data):
        (folder / task).mkdir(parents=True, exist_ok=True)
        pq.write_table(data, folder / task / f"{name}.parquet", compression="snappy", store_schema=False)
    train = rows("sentence1", "sentence2", 96, True)
    write("mrpc", "train-00000-of-00002", train.slice(0, 50))
    write("mrpc", "train-00001-of-00002", train.slice(50))
    write("mrpc", "validation-00000-of-00001", rows("sentence1", "sentence2", 20, True))
    write("mrpc", "test-00000-of-00001", rows("sentence1", "sentence2", 7, False))
    for split in ("train", "validation_matched", "validation_mismatched", "test_matched", "test_mismatched"):
        write("mnli", f"{split}-00000-of-00001", rows("premise", "hypothesis", len(split), not split.startswith("test"), 3))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "tests/golden/parquet")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    common = {"row_group_size": 128, "data_page_size": 256, "write_batch_size": 32, "store_schema": False}
    write = lambda name, data, **options: pq.write_table(data, folder / f"{name}.parquet", **{**common, **options})
    for codec in ("none", "snappy", "gzip", "zstd"):
        for version in ("1.0", "2.0"):
            for dictionary in (True, False):
                name = f"{codec}-v{version[0]}-{'dictionary' if dictionary else 'plain'}"
                write(name, table(), compression=codec, data_page_version=version, use_dictionary=dictionary)
    write("checksum", table(), compression="snappy", write_page_checksum=True)
    write("brotli", table(), compression="brotli")
    write("delta", table().select(["text", "label"]), use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})
    write("nested", pa.table({"text": ["a", "b"], "words": [["c"], ["d", "e"]], "both": [{"x": 1}, {"x": 2}]}))
    write("empty", table().slice(0, 0))
    write_glue(folder / "glue")


if __name__ == "__main__":
    main()
