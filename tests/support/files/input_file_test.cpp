// Files that are read while the disk fails or another process changes them. /proc/self/mem can be
// read where memory is mapped, and returns EIO elsewhere.
#include "support/files/input_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <thread>

#include "support/files/slow_reads.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

// Sets the time limit of retries for one test.
class Patience {
 public:
  explicit Patience(int milliseconds) { set_read_patience(std::chrono::milliseconds(milliseconds)); }
  ~Patience() { set_read_patience(std::chrono::seconds(60)); }
};

std::string read_text(const InputFile& file, std::int64_t offset, std::size_t bytes) {
  std::string text(bytes, ' ');
  file.read_at(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

TEST_CASE("a read that fails beyond the time limit is a lack of resources, with byte and tries") {
  const Patience patience(120);
  const InputFile memory("/proc/self/mem", FileUse::data);
  std::byte byte;
  const std::string message = error_of([&] { memory.read_some_at(16, std::span(&byte, 1)); });
  CHECK_THAT(message, StartsWith("9: cannot read byte 16 ("));
  CHECK_THAT(message, ContainsSubstring(" tries) of /proc/self/mem: Input/output error; check the disk"));
}

TEST_CASE("a read that fails for a while returns the bytes that appear later") {
  // Reserved, so that this process maps nothing else there.
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* place = mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(place != MAP_FAILED);
  REQUIRE(munmap(place, page) == 0);
  const InputFile memory("/proc/self/mem", FileUse::data);
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    mmap(place, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    std::memcpy(place, "text", 4);
  });
  std::string text(4, ' ');
  const auto offset = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(place));
  while (text != "text")  // the page is mapped before it is written
    REQUIRE(memory.read_some_at(offset, std::as_writable_bytes(std::span(text))) == 4);
  later.join();
  munmap(place, page);
}

TEST_CASE("a slow read is reported once during the read, and later ones are counted") {
  const Scratch scratch;
  const std::string log = in_child([&] {
    dup2(File::create(scratch / "log", FileUse::run).descriptor(), STDERR_FILENO);
    set_slow_read(std::chrono::milliseconds(0));
    const fs::path path = "c.tokens";
    const SlowRead first(path, 7);
    tell_slow_reads();
    tell_slow_reads();
    SlowRead(path, 8);
    return text_of(scratch / "log");
  });
  CHECK_THAT(log, ContainsSubstring("c.tokens: a read at byte 7 has taken 0.0 s; check the disk"));
  CHECK(log.find("a read at byte") == log.rfind("a read at byte"));
}

TEST_CASE("a file that another process truncates or extends is an error with its name and the offset") {
  const Scratch scratch;
  for (const std::uintmax_t size : {100, 9000}) {
    write_text(scratch / "f", std::string(5000, 'x'));
    const InputFile file(scratch / "f", FileUse::data);
    CHECK(read_text(file, 4990, 10) == "xxxxxxxxxx");
    fs::resize_file(scratch / "f", size);
    CHECK(error_of([&] { read_text(file, 4990, 10); }) ==
          fmt::format(
              "4: {}: changed while in use: it had 5000 bytes and now has {}; the read was at byte 4990. "
              "Restore the file, or start a new run on the new data",
              (scratch / "f").string(), size));
    CHECK_THAT(error_of([&] { file.load<std::uint64_t>(4992); }),
               ContainsSubstring("the read was at byte 4096."));
  }
}

TEST_CASE("integers are loaded from any offset of a file, across blocks and from several cursors") {
  const Scratch scratch;
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += static_cast<char>(i * 7 % 251);
  write_text(scratch / "f", text);
  const InputFile file(scratch / "f", FileUse::data);
  const auto at = [&](std::int64_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, text.data() + offset, sizeof value);
    return value;
  };
  for (const std::int64_t offset : {0, 1, 4089, 4095, 8192, 20'000, 29'992})
    CHECK(file.load<std::uint64_t>(offset) == at(offset));
  for (std::int64_t i = 0; i < 500; ++i)
    for (const std::int64_t begin : {3, 7000, 13'001, 17'005, 23'007})
      REQUIRE(file.load<std::uint64_t>(begin + 8 * i) == at(begin + 8 * i));
}

TEST_CASE("sequential loads take few reads and leave little in memory") {
  const auto reads = [] {
    std::ifstream io("/proc/self/io");
    for (std::string word; io >> word;)
      if (std::int64_t count = 0; word == "syscr:" && io >> count) return count;
    return std::int64_t{0};
  };
  const Scratch scratch;
  std::string text;
  for (std::uint64_t i = 0; i < 500'000; ++i) text.append(reinterpret_cast<const char*>(&i), sizeof i);
  write_text(scratch / "f", text);
  const InputFile file(scratch / "f", FileUse::data);
  const std::int64_t before = reads();
  for (int pass = 0; pass < 2; ++pass)
    for (std::uint64_t i = 0; i < 500'000; ++i)
      REQUIRE(file.load<std::uint64_t>(static_cast<std::int64_t>(8 * i)) == i);
  CHECK(reads() - before < 80);  // a pass has 977 blocks
  CHECK(file.load<std::uint64_t>(8 * 499'999) == 499'999);
}

TEST_CASE("more files can be read than may be open") {
  const Scratch scratch;
  std::vector<std::unique_ptr<InputFile>> files;
  for (int i = 0; i < 400; ++i) {
    write_text(scratch / std::to_string(i), std::to_string(i));
    files.push_back(std::make_unique<InputFile>(scratch / std::to_string(i), FileUse::data));
  }
  const auto open = std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  CHECK(open < 350);
  for (int i = 0; i < 400; ++i)
    CHECK(read_text(*files[static_cast<std::size_t>(i)], 0, std::to_string(i).size()) == std::to_string(i));
  fs::resize_file(scratch / "399", 9);
  CHECK_THAT(error_of([&] { read_text(*files[399], 0, 3); }),
             ContainsSubstring("it had 3 bytes and now has 9"));
}

}  // namespace rondo
