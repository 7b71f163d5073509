// Chooses the files of a data path that are read, for training, `data tokenize` and `data inspect`.
//
// A file that is named itself is read as what it is. Of a folder or a glob:
// - Files of one data format (JSON lines, packed corpora, token files, Parquet, CSV, ...) are the
//   data. Text, JSON and binary files beside them are left out and counted, and so are the cached
//   results of Dataset.map (cache-*.arrow beside a state.json).
// - Files of several data formats are an error that asks for one of them.
// - Where text files have more bytes than the data, the folder is a corpus of text: every text file
//   is a document, CSV and JSON too, which the notes say, and JSON lines and token files in it are
//   read as such. README, LICENSE and the like do not count as text here. JSON without documents
//   counts as data if there is no other.
// - An empty file is of no data format. A pointer of Git LFS has the bytes of its file.
// - Binary files that are more than half of the bytes are an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/documents/files.h"

namespace rondo {

struct SelectedFiles {
  std::vector<SourceFile> files;  // recognised; of the formats that are read
  std::int64_t skipped_hidden = 0, skipped_special = 0, skipped_binary = 0;
  // Say what is left out, and which data files are read as text; lines for each entry of the path.
  std::vector<std::string> notes{};
  // Files that are listed twice, and data of several splits.
  std::vector<std::string> warnings{};
};

// `text_key`: the field of JSON lines. Throws Error(data) for a file that is not read, naming what
// it is and the next action, for a folder that mixes data formats, and as find_files does.
SelectedFiles select_files(std::string_view paths, std::string_view text_key);

}  // namespace rondo
