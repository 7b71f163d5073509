#!/bin/sh
# Builds the default corpus: every C++ header below a folder, as one packed file (format: datasets/documents/corpus.h).
#   scripts/make_corpus.sh SRC_INCLUDE_DIR OUT_DIR     writes OUT_DIR/headers.packed
# The same headers give the same bytes: paths are sorted bytewise, and nothing else goes in. The file appears whole or
# not at all. POSIX shell and tools only.
set -eu
export LC_ALL=C

if [ $# -ne 2 ]; then
  echo "usage: scripts/make_corpus.sh SRC_INCLUDE_DIR OUT_DIR" >&2
  exit 2
fi
if [ ! -d "$1" ]; then
  echo "make_corpus.sh: no such folder: $1" >&2
  exit 4
fi
mkdir -p "$2"
out=$(cd "$2" && pwd)
temporary=$out/.headers.$$
trap 'rm -f "$temporary.list" "$temporary.sizes" "$temporary.packed"' EXIT
trap 'exit 1' HUP INT TERM

cd "$1"
find . -type f -size +0 \( -name '*.h' -o -name '*.hpp' -o -name '*.cuh' \) | sort > "$temporary.list"
if [ ! -s "$temporary.list" ]; then
  echo "make_corpus.sh: no *.h, *.hpp or *.cuh below $1" >&2
  exit 4
fi
if grep -n "[[:space:]'\"\\\\]" "$temporary.list" >&2; then
  echo "make_corpus.sh: the paths above have spaces, quotes or backslashes; rename them" >&2
  exit 4
fi

# `wc -c` adds a line "total" to each of its runs; paths begin with "./", so only they pass.
xargs wc -c < "$temporary.list" | sed -n 's|^ *\([0-9][0-9]*\) \./|\1 |p' > "$temporary.sizes"
{
  echo "rondo corpus 1"
  cat "$temporary.sizes"
  echo
  xargs cat < "$temporary.list"
} > "$temporary.packed"
mv "$temporary.packed" "$out/headers.packed"
echo "$out/headers.packed: $(wc -l < "$temporary.sizes" | tr -d ' ') documents, $(wc -c < "$out/headers.packed" | tr -d ' ') bytes"
