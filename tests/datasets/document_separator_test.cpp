// Tests one text file that is many documents.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "datasets/documents/corpus.h"
#include "datasets/documents/order.h"
#include "datasets/open_source.h"
#include "tests/datasets/compressors.h"
#include "tests/datasets/token_bytes.h"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

using Texts = std::vector<std::string>;
const std::string kSeparator = "<|endoftext|>";

Texts texts(const std::string& paths, const std::string& separator = kSeparator) {
  Corpus corpus(find_files(paths).files, "text", OnBadRecord::stop, separator);
  Texts all;
  for (const Document& document : corpus.documents())
    all.emplace_back(corpus.read(document, 0, document.bytes));
  return all;
}

}  // namespace

TEST_CASE("a separator on a line of its own, or in a line, divides a text file into documents") {
  const TempFolder folder;
  CHECK(texts(folder.write("a.txt", "One.\n\nTwo.\n<|endoftext|>\nThree.\n<|endoftext|>\n")) ==
        Texts{"One.\n\nTwo.", "Three."});
  CHECK(texts(folder.write("a.txt", "one<|endoftext|>two<|endoftext|> three\n")) ==
        Texts{"one", "two", " three\n"});
  CHECK(texts(folder.write("a.txt", "one\r\n<|endoftext|>\r\ntwo\r\n")) == Texts{"one", "two\r\n"});
  CHECK(texts(folder.write("a.txt", "one\n\n<|endoftext|>\n\ntwo")) == Texts{"one\n", "\ntwo"});
  CHECK(texts(folder.write("a.txt", "a\n--\nb\n---\nc"), "---") == Texts{"a\n--\nb", "c"});
}

TEST_CASE("empty documents between separators are dropped and counted, and do not change the ids of others") {
  const TempFolder folder;
  const std::string path =
      folder.write("a.txt", "<|endoftext|>\n<|endoftext|>a<|endoftext|><|endoftext|>\nb\n<|endoftext|>\n");
  Corpus corpus(find_files(path).files, "text", OnBadRecord::stop, kSeparator);
  REQUIRE(corpus.documents().size() == 2);
  CHECK(corpus.skipped_empty() == 3);
  CHECK(corpus.documents()[0].id_hash == stable_hash("a.txt:3"));
  CHECK(corpus.documents()[1].id_hash == stable_hash("a.txt:5"));
}

TEST_CASE("separators are found at every place of a chunk's border, compressed too") {
  const TempFolder folder;
  constexpr std::size_t kChunkBytes = std::size_t{4} << 20;
  for (std::size_t before = 0; before <= kSeparator.size() + 4; ++before) {
    const std::string first(kChunkBytes - before, 'a'), second(100, 'b'), third(kChunkBytes, 'c');
    std::string contents = first;
    contents += "\r\n" + kSeparator + "\r\n" + second;
    contents += kSeparator + "\n" + third;
    CHECK((texts(folder.write("a.txt", contents)) == Texts{first, second, third}));
    if (before % 6 != 0) continue;
    for (const Compressor& kind : compressors())
      CHECK((texts(folder.write("b.txt" + kind.suffix, kind.compress(contents))) ==
             Texts{first, second, third}));
  }
}

TEST_CASE("a separator is refused for JSON lines and packed corpora, and where no text has it") {
  const TempFolder folder;
  CHECK_THAT(
      data_error([&] { texts(folder.write("a.jsonl", "{\"text\": \"a\"}\n")); }),
      ContainsSubstring("a.jsonl: training.document_separator, or --document-separator, is for text files, "
                        "and this one is JSONL"));
  CHECK_THAT(data_error([&] { texts(folder.write("a.packed", "rondo corpus 1\n1 b\n\na")); }),
             ContainsSubstring("this one is packed corpus"));
  CHECK_THAT(data_error([&] { texts(folder.write("a.txt", "a<|endoftext|>b"), "<eot>"); }),
             ContainsSubstring("a.txt: the separator \"<eot>\" of training.document_separator, or "
                               "--document-separator, is in no text file"));
  folder.write("two/a.txt", "plain");
  folder.write("two/b.txt", "a<|endoftext|>b");
  CHECK(texts(folder.path("two")) == Texts{"plain", "a", "b"});
}

TEST_CASE("training reads the documents between separators, and another separator is another token file") {
  const TempFolder folder;
  folder.write("a.txt", "ab<|endoftext|>c");
  const ByteTokenizer bytes;
  const TextOptions options = {.document_separator = kSeparator};
  const Documents documents = {{256, 'a', 'b', 257}, {256, 'c', 257}};
  CHECK(read_all(*open_source(folder.path("a.txt"), bytes, options)) == documents);
  for (const Compressor& kind : compressors()) {  // by the token cache
    const std::string path = folder.write("b.txt" + kind.suffix, kind.compress("ab\n<|endoftext|>\nc"));
    CHECK(read_all(*open_source(path, bytes, options)) == documents);
    CHECK(read_all(*open_source(path, bytes)).size() == 1);
  }
}
