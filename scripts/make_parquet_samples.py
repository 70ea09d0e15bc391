#!/usr/bin/env python3
"""Writes tests/golden/parquet with pyarrow: the same 300 rows in the forms that are read and in some that are refused.

usage: scripts/make_parquet_samples.py [--output FOLDER]     (needs pyarrow; the tests need only the files)
"""
import argparse
import datetime
import decimal
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


def meanings():
    """Numbers that a double rounds, and logical types, as columns and within a list of structures, with their first and last values."""
    utc, naive = datetime.timezone.utc, None
    moment = lambda zone: [None, datetime.datetime(1, 1, 1, tzinfo=zone), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=zone),
                           datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=zone), datetime.datetime(2024, 2, 29, 12, 30, tzinfo=zone)]
    late = lambda zone: [None if m is None else m.replace(year=max(1680, min(m.year, 2261))) for m in moment(zone)]
    whole = lambda m: [None if x is None else x.replace(microsecond=x.microsecond // 1000 * 1000) for x in m]
    times = [None, datetime.time(0, 0), datetime.time(23, 59, 59, 999000), datetime.time(1, 2, 3), datetime.time(12, 0, 0, 1000)]
    amounts = lambda *texts: [None if text is None else decimal.Decimal(text) for text in texts]
    columns = {
        "i64": (pa.int64(), [None, -2**63, 2**63 - 1, 2**53 + 1, -5]), "u64": (pa.uint64(), [None, 0, 2**64 - 1, 2**63, 2**53 + 1]),
        "i32": (pa.int32(), [None, -2**31, 2**31 - 1, 0, 7]), "u32": (pa.uint32(), [None, 0, 2**32 - 1, 2**31, 7]),
        "i16": (pa.int16(), [None, -2**15, 2**15 - 1, 0, 7]), "u16": (pa.uint16(), [None, 0, 2**16 - 1, 2**15, 7]),
        "i8": (pa.int8(), [None, -128, 127, 0, 7]), "u8": (pa.uint8(), [None, 0, 255, 128, 7]),
        "flag": (pa.bool_(), [None, True, False, True, False]), "f64": (pa.float64(), [None, 0.1, -1e300, 5.0, 7.5]),
        "day": (pa.date32(), [None, datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)]),
        "time_ms": (pa.time32("ms"), times), "time_us": (pa.time64("us"), times), "time_ns": (pa.time64("ns"), times),
        "ms": (pa.timestamp("ms"), whole(moment(naive))), "us": (pa.timestamp("us"), moment(naive)), "ns": (pa.timestamp("ns"), late(naive)),
        "ms_utc": (pa.timestamp("ms", "UTC"), whole(moment(utc))), "us_utc": (pa.timestamp("us", "UTC"), moment(utc)),
        "small": (pa.decimal128(5, 2), amounts(None, "-999.99", "999.99", "0.00", "-0.01")),
        "wide": (pa.decimal128(38, 10), amounts(None, "-" + "9" * 28 + "." + "9" * 10, "0.0000000001", "1234567890123456789.5000000000", "7.0000000000")),
        "widest": (pa.decimal256(76, 0), amounts(None, "9" * 76, "-" + "9" * 76, "0", "18446744073709551616")),
        "text": (pa.string(), [None, "", "é", "5", "2024-02-29"]),
    }
    names = list(columns)
    table = {name: pa.array(values, kind) for name, (kind, values) in columns.items()}
    structure = pa.StructArray.from_arrays([pa.array(values, kind) for kind, values in columns.values()], names=names)
    table["list"] = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3, 4, 5], pa.int32()), structure)
    return pa.table(table)


def plain(value):
    """A value as JSON: what JSON lacks as the text that a template shows."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    return str(value) if isinstance(value, (datetime.date, datetime.time)) else value


def write_meanings(folder):
    table = meanings()
    rows = [plain(row) for row in table.to_pylist()]
    (folder / "meanings.json").write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    for name, dictionary, integers in (("plain", False, False), ("dictionary", True, True)):
        pq.write_table(table, folder / f"meanings-{name}.parquet", compression="zstd", use_dictionary=dictionary, store_schema=False,
                       store_decimal_as_integer=integers)
    only = pa.table({"ns": table["ns"]})
    pq.write_table(only, folder / "meanings-int96.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
    odd = pa.table({"id": pa.array([b"0123456789abcdef", b"fedcba9876543210"], pa.binary(16)), "half": pa.array([0.5, 1.5], pa.float16()),
                    "prompt": ["x", "y"], "completion": ["u", "v"]})
    pq.write_table(odd, folder / "unread.parquet", store_schema=False)


def write_bombs(folder):
    """Small files that repeat a text of 3 MB or have one of 70 MB."""
    text = "x" * 3_000_000
    repeated = lambda count: pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([text]))
    write = lambda name, **columns: pq.write_table(pa.table(columns), folder / f"{name}.parquet", compression="zstd", store_schema=False,
                                                   dictionary_pagesize_limit=1 << 30, compression_level=19)
    write("bomb", prompt=repeated(1000), completion=pa.array(["y"] * 1000))
    write("bomb-list", messages=pa.ListArray.from_arrays(pa.array([0, 30], pa.int32()), repeated(30)))
    write("large", prompt=pa.array(["x" * 70_000_000]), completion=pa.array(["y"]))


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
    write_meanings(folder)
    write_bombs(folder)
    write_glue(folder / "glue")


if __name__ == "__main__":
    main()
