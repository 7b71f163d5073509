// Token files of each format, built byte by byte, for the tests of their readers.
#pragma once

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "datasets/documents/order.h"
#include "datasets/token_files/token_file.h"
#include "datasets/token_files/token_writer.h"
#include "tests/datasets/temp_folder.h"

namespace rondo {

using TokenIds = std::vector<std::int64_t>;
using Documents = std::vector<TokenIds>;

template <class T>
std::string bytes_of_value(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <class T>
std::string bytes_of_ids(const TokenIds& ids) {
  std::string bytes;
  for (const std::int64_t id : ids) bytes += bytes_of_value(static_cast<T>(id));
  return bytes;
}

inline TokenIds flat(const Documents& documents) {
  TokenIds ids;
  for (const TokenIds& document : documents) ids.insert(ids.end(), document.begin(), document.end());
  return ids;
}

inline std::string ends_of(const Documents& documents) {
  std::string bytes;
  std::uint64_t end = 0;
  for (const TokenIds& document : documents) bytes += bytes_of_value(end += document.size());
  return bytes;
}

// Builds Rondo's own format from the specification in datasets/token_files/token_writer.h, without
// the writer.
inline std::string rondo_bytes(const Documents& documents, const std::string& tokenizer = "byte",
                               std::int64_t vocab = 258) {
  const TokenIds ids = flat(documents);
  std::string tokens = vocab <= 65536 ? bytes_of_ids<std::uint16_t>(ids) : bytes_of_ids<std::uint32_t>(ids);
  std::string index = ends_of(documents);
  for (std::size_t i = 0; i < documents.size(); ++i) index += bytes_of_value(mix64(i));
  std::uint32_t least = ids.empty() ? 0 : ~std::uint32_t{0}, greatest = 0;
  for (const std::int64_t id : ids) {
    least = std::min(least, static_cast<std::uint32_t>(id));
    greatest = std::max(greatest, static_cast<std::uint32_t>(id));
  }
  std::string name = tokenizer;
  name.resize(kTokenizerNameBytes);
  const std::string header =
      "rondotok" + bytes_of_value(std::uint32_t{1}) +
      bytes_of_value(std::uint32_t{vocab <= 65536 ? 2u : 4u}) +
      bytes_of_value(std::uint64_t{documents.size()}) + bytes_of_value(std::uint64_t{ids.size()}) +
      bytes_of_value(std::int32_t{256}) + bytes_of_value(std::int32_t{257}) + bytes_of_value(least) +
      bytes_of_value(greatest) + bytes_of_value(std::uint64_t{0}) +
      bytes_of_value(std::uint64_t{XXH3_64bits(tokens.data(), tokens.size())}) +
      bytes_of_value(std::uint64_t{XXH3_64bits(index.data(), index.size())}) + name + std::string(16, '\0');
  tokens.resize((tokens.size() + 7) / 8 * 8);
  return header + bytes_of_value(std::uint64_t{XXH3_64bits(header.data(), header.size())}) + tokens + index;
}

// Returns `file` with a valid checksum of its header, as an attacker would write.
inline std::string resealed(std::string file) {
  const std::uint64_t hash = XXH3_64bits(file.data(), kTokenHeaderBytes - 8);
  std::memcpy(file.data() + kTokenHeaderBytes - 8, &hash, 8);
  return file;
}

// Builds X.idx for documents of one sequence each.
inline std::string megatron_index(const Documents& documents, std::uint8_t code, std::int64_t width) {
  std::string lengths, offsets, entries = bytes_of_value(std::int64_t{0});
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const auto length = static_cast<std::int64_t>(documents[i].size());
    lengths += bytes_of_value(static_cast<std::int32_t>(length));
    offsets += bytes_of_value(offset);
    offset += length * width;
    entries += bytes_of_value(static_cast<std::int64_t>(i) + 1);
  }
  return std::string("MMIDIDX\0\0", 9) + bytes_of_value(std::uint64_t{1}) + bytes_of_value(code) +
         bytes_of_value(std::uint64_t{documents.size()}) +
         bytes_of_value(std::uint64_t{documents.size() + 1}) + lengths + offsets + entries;
}

inline std::string llmc_bytes(const TokenIds& ids, bool llama3 = false) {
  std::vector<std::int32_t> header(256);
  header[0] = llama3 ? 20240801 : 20240520;
  header[1] = llama3 ? 7 : 1;
  header[2] = static_cast<std::int32_t>(ids.size());
  const std::string head(reinterpret_cast<const char*>(header.data()), 1024);
  return head + (llama3 ? bytes_of_ids<std::uint32_t>(ids) : bytes_of_ids<std::uint16_t>(ids));
}

inline Documents read_all(TokenSource& source) {
  Documents documents;
  for (std::int64_t d = 0; d < source.documents(); ++d) {
    TokenIds& ids = documents.emplace_back(static_cast<std::size_t>(source.tokens(d)));
    source.read(d, 0, source.tokens(d), ids.data());
  }
  return documents;
}

}  // namespace rondo
