#!/usr/bin/env python3
"""Tables that pyarrow writes have the documents and the token files of the same rows as JSON lines.

against_pyarrow.py RONDO: writes the same rows as JSON lines, and as Parquet and Arrow IPC in every compression, type of
string, encoding and version of pages, in row groups and record batches of several sizes. The files have one name, and so
documents have one id: the token files must be equal byte for byte.
"""
import itertools
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption

RONDO = sys.argv[1]
ROWS = 3000
checks = 0


def rows():
    draw = random.Random(5)
    texts = []
    for number in range(ROWS):
        kind = draw.randrange(10)
        if kind == 0:
            texts.append(None)
        elif kind == 1:
            texts.append("")
        elif kind == 2:
            texts.append("often the same")
        elif kind == 3:
            texts.append("é 你好 \U0001f600\n\t\"\\ " * draw.randrange(1, 40))
        else:
            texts.append("".join(draw.choices("etaoin shrdlu\n", k=draw.randrange(1, 600))) + str(number))
    texts[7] = "long " * 600_000  # of several pages
    return texts


def fails(what, result):
    sys.exit(f"{what}: {result.returncode}\n{result.stdout}{result.stderr}")


def tokenize(path, output, *words):
    return subprocess.run([RONDO, "data", "tokenize", "--tokenizer", "bytes", "--input", str(path), "--output", str(output), *words],
                          capture_output=True, text=True)


def check(what, path, expected, *words):
    global checks
    output = path.parent / "out.tokens"
    result = tokenize(path, output, "--on-bad-record", "skip", "--part-size", "100000", *words)
    if result.returncode != 0 or output.read_bytes() != expected:
        fails(f"{what}: not the token file of the JSON lines", result)
    output.unlink()
    checks += 1


def write_stream(table, path, batch, **options):
    with pa.OSFile(str(path), "wb") as sink, ipc.new_stream(sink, table.schema, options=ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table, max_chunksize=batch)


def write_file(table, path, batch, **options):
    with pa.OSFile(str(path), "wb") as sink, ipc.new_file(sink, table.schema, options=ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table, max_chunksize=batch)


def table_of(texts, kind):
    column = pa.array(texts, kind)
    return pa.table({"id": pa.array(range(len(texts))), "text": column, "tags": pa.array([["a", "b"]] * len(texts))})


class PlainKeys(encryption.KmsClient):
    """Wraps a key as its hexadecimal digits."""

    def __init__(self, configuration):
        encryption.KmsClient.__init__(self)

    def wrap_key(self, key, name):
        return key.hex().encode()


def write_encrypted(table, path, **options):
    properties = encryption.CryptoFactory(PlainKeys).file_encryption_properties(
        encryption.KmsConnectionConfig(), encryption.EncryptionConfiguration(footer_key="footer", **options))
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as out:
        out.write_table(table)


def main(folder):
    texts = rows()
    lines = folder / "lines"
    lines.write_text("".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(texts)))
    reference = folder / "reference.tokens"
    result = tokenize(lines, reference, "--on-bad-record", "skip")
    if result.returncode != 0:
        fails("the JSON lines", result)
    expected = reference.read_bytes()
    path = folder / "table" / "lines"
    path.parent.mkdir()

    kinds = {"string": pa.string(), "large_string": pa.large_string(), "binary": pa.binary(), "large_binary": pa.large_binary(),
             "dictionary": pa.dictionary(pa.int32(), pa.string()), "dictionary of large": pa.dictionary(pa.int64(), pa.large_string())}
    tables = {name: table_of(texts if "binary" not in name else [t if t is None else t.encode() for t in texts], kind)
              for name, kind in kinds.items()}
    strings = tables["string"]

    for codec, version in itertools.product(["none", "snappy", "zstd", "gzip", "brotli", "lz4"], ["1.0", "2.0"]):
        pq.write_table(strings, path, compression=codec, data_page_version=version, row_group_size=700)
        check(f"Parquet, {codec}, pages of version {version}", path, expected)
    for name, table in tables.items():
        pq.write_table(table, path, row_group_size=1000)
        check(f"Parquet, {name}", path, expected)
    for size in 1, 255, 256, 257, ROWS:
        table = strings if size > 1 else strings.slice(0, 50)
        pq.write_table(table, path, row_group_size=size, data_page_size=4096, write_page_checksum=True)
        if size > 1:
            check(f"Parquet, row groups of {size}", path, expected)
    for encoding in "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY":
        pq.write_table(strings, path, use_dictionary=False, column_encoding={"text": encoding, "id": "PLAIN"}, data_page_size=2000)
        check(f"Parquet, {encoding}", path, expected)
    pq.write_table(strings, path, dictionary_pagesize_limit=5000)
    check("Parquet, dictionary pages and then plain ones", path, expected)
    with pq.ParquetWriter(path, strings.schema) as out:
        for begin in range(0, ROWS, 1000):
            out.write_table(strings.slice(0, 0))
            out.write_table(strings.slice(begin, 1000))
    check("Parquet, empty row groups", path, expected)
    nonnull = [t or "x" for t in texts]
    required = pa.table({"text": pa.array(nonnull)}, schema=pa.schema([pa.field("text", pa.string(), nullable=False)]))
    other = folder / "nonnull" / "lines"
    other.parent.mkdir()
    other.write_text("".join(json.dumps({"text": t}) + "\n" for t in nonnull))
    tokenize(other, folder / "nonnull.tokens")
    pq.write_table(required, path, row_group_size=900)
    check("Parquet, a required column", path, (folder / "nonnull.tokens").read_bytes())

    for name, table in tables.items():
        for batch in 100, ROWS:
            write_stream(table, path, batch)
            check(f"Arrow stream, {name}, batches of {batch}", path, expected)
            if "dictionary" not in name:
                write_file(table, path, batch)
                check(f"Arrow file, {name}, batches of {batch}", path, expected)
    write_file(tables["dictionary"], path, ROWS)
    check("Arrow file, dictionary", path, expected)
    write_stream(table_of(texts, pa.string_view()), path, 500)
    check("Arrow stream, string_view", path, expected)
    for codec in "lz4", "zstd":
        write_stream(strings, path, 300, compression=codec)
        check(f"Arrow stream, {codec}", path, expected)
        feather.write_feather(strings, path, compression=codec, chunksize=300)
        check(f"Feather, {codec}", path, expected)
    pieces = pa.concat_tables([table_of(texts[i:i + 500], pa.dictionary(pa.int32(), pa.string())) for i in range(0, ROWS, 500)])
    write_stream(pieces, path, 500, emit_dictionary_deltas=True)
    check("Arrow stream, dictionaries that change", path, expected)

    # The key, and what has no text.
    pq.write_table(strings.rename_columns(["id", "content", "tags"]), path)
    check("another column", path, expected, "--text-key", "content")
    for key, words in {"text": ['no column "text". Columns of text: "content"; others: "id", "tags"'],
                       "id": ['"id" is int64, not text', '"id" is Int', 'not text. Columns of text: "content"'],
                       "tags": ['"tags" is nested, not text', '"tags" is list']}.items():
        result = tokenize(path, folder / "no.tokens", "--text-key", key)
        if result.returncode != 4 or not any(word in result.stderr for word in words):
            fails(f"the column {key} must be refused", result)
    encrypted = folder / "encrypted.parquet"
    for is_plain in True, False:
        write_encrypted(strings, encrypted, column_keys={"column": ["text"]}, plaintext_footer=is_plain)
        result = tokenize(encrypted, folder / "no.tokens")
        if result.returncode != 4 or f"{encrypted}: is encrypted, and keys are not read" not in result.stderr:
            fails("an encrypted column must be refused as encrypted", result)
    result = tokenize(folder / "table", folder / "no.tokens", "--text-key", "content")
    row = texts.index(None) + 1
    if result.returncode != 4 or f'{path}:{row}: the column "content" is null' not in result.stderr:
        fails("a null stops", result)
    print(f"{checks} tables have the token file of the JSON lines")


with tempfile.TemporaryDirectory() as name:
    main(pathlib.Path(name))
