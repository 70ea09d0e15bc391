#!/usr/bin/env python3
"""Writes tests/golden/parquet with pyarrow: the same 300 rows in the forms that are read and in some that are refused.

usage: scripts/make_parquet_samples.py [--output FOLDER]     (needs pyarrow; the tests need only the files)
"""
import argparse
import json
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


def lists():
    """Lists of structures and of lists, with what may be missing at every level; tests/data/parquet_nested_test.cc reads them."""
    def message(i, j):
        return {"role": ["system", "user", "assistant"][j % 3] if (i + j) % 5 else None, "content": f"{i}.{j} é" + "x" * (i % 9),
                "parts": [None if k == 1 else k * 0.5 for k in range(j % 4)] if j % 3 else None}
    return [{"messages": None if i % 17 == 5 else [message(i, j) for j in range(i % 6)],
             "meta": None if i % 7 == 3 else {"a": i, "ok": i % 2 == 0, "tags": [f"t{k}" for k in range(i % 3)]},
             "grid": [[k + l for l in range(k % 3)] for k in range(i % 4)]} for i in range(80)]


def write_lists(folder):
    rows = lists()
    message = pa.struct([("role", pa.string()), ("content", pa.string()), ("parts", pa.list_(pa.float64()))])
    meta = pa.struct([("a", pa.int64()), ("ok", pa.bool_()), ("tags", pa.list_(pa.string()))])
    table = pa.Table.from_pylist(rows, schema=pa.schema([("messages", pa.list_(message)), ("meta", meta), ("grid", pa.list_(pa.list_(pa.int64())))]))
    for name, codec, version, dictionary in (("lists-v1", "none", "1.0", True), ("lists-v2", "snappy", "2.0", False)):
        pq.write_table(table, folder / f"{name}.parquet", compression=codec, data_page_version=version, use_dictionary=dictionary,
                       row_group_size=32, data_page_size=128, write_batch_size=16, store_schema=False)
    (folder / "lists.json").write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


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
    write_lists(folder)
    write_glue(folder / "glue")


if __name__ == "__main__":
    main()
