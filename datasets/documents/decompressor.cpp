// zlib and libzstd behind one interface. The program is built with those of them that the machine
// has (cmake/dependencies.cmake). A file that needs a missing library is an error that names the
// package to install.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "datasets/documents/format.h"
#include "datasets/documents/text_file.h"
#include "support/error.h"
#if RONDO_ZLIB
#include <zlib.h>
#endif
#if RONDO_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif

namespace rondo {
namespace {

#if RONDO_ZLIB
class Gzip final : public Decompressor {
 public:
  Gzip() {
    constexpr int kGzipAlone = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipAlone) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() override { inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  Progress run(std::span<const std::byte> in, std::span<std::byte> out) override {
    if (may_end_ && !in.empty()) {
      const auto after = std::find_if(in.begin(), in.end(), [](std::byte b) { return b != std::byte{0}; });
      if (after != in.begin()) return {static_cast<std::size_t>(after - in.begin()), 0};  // padding
      inflateReset(&stream_);  // another member follows
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), 1U << 30));
    const uInt room = stream_.avail_out;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      throw std::runtime_error(stream_.msg != nullptr ? stream_.msg : "no gzip data");
    may_end_ = result == Z_STREAM_END;
    return {in.size() - stream_.avail_in, room - stream_.avail_out};
  }
  bool may_end() const override { return may_end_; }

 private:
  z_stream stream_{};
  bool may_end_ = false;
};
#endif

#if RONDO_ZSTD
class Zstd final : public Decompressor {
 public:
  Zstd() : stream_(ZSTD_createDCtx()) {
    if (stream_ == nullptr) throw std::bad_alloc();
    constexpr int kLargestWindow = 31;  // as `zstd --long=31` writes; the default accepts 2^27
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kLargestWindow);
  }
  ~Zstd() override { ZSTD_freeDCtx(stream_); }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;

  Progress run(std::span<const std::byte> in, std::span<std::byte> out) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t left = ZSTD_decompressStream(stream_, &to, &from);
    if (ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation) throw std::bad_alloc();
    if (ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge)
      throw UnreadableFrame("a frame needs a window above 2 GiB, the most that is read");
    if (ZSTD_getErrorCode(left) == ZSTD_error_dictionary_wrong)
      throw UnreadableFrame("a frame needs the dictionary of its compression, which is not read");
    if (ZSTD_isError(left)) throw std::runtime_error(ZSTD_getErrorName(left));
    if (from.pos > 0 || to.pos > 0) may_end_ = left == 0;
    return {from.pos, to.pos};
  }
  bool may_end() const override { return may_end_; }

 private:
  ZSTD_DCtx* stream_;
  bool may_end_ = false;
};
#endif

template <class Kind>
std::unique_ptr<Decompressor> make_of_kind(const std::string&, const char*, const char*) {
  return std::make_unique<Kind>();
}

#if !RONDO_ZLIB || !RONDO_ZSTD
struct Missing {};
template <>
std::unique_ptr<Decompressor> make_of_kind<Missing>(const std::string& path, const char* library,
                                                    const char* package) {
  throw Error(ExitCode::data,
              fmt::format("{}: this program was built without {}. Install {}, run scripts/build.sh again, or "
                          "unpack the file",
                          path, library, package));
}
#endif
#if !RONDO_ZLIB
using Gzip = Missing;
#endif
#if !RONDO_ZSTD
using Zstd = Missing;
#endif

}  // namespace

bool is_gzip(std::string_view head) { return head.starts_with("\x1f\x8b\x08"); }

bool is_zstd(std::string_view head) {
  const bool is_skippable = head.substr(std::min<std::size_t>(1, head.size())).starts_with("\x2a\x4d\x18") &&
                            (head[0] & 0xF0) == 0x50;  // a frame of other data, before those of text
  return is_skippable || head.starts_with("\x28\xb5\x2f\xfd");
}

std::unique_ptr<Decompressor> make_decompressor(const std::string& path, std::string_view head) {
  const bool zstd = is_zstd(head);
  if (is_gzip(head) || (!zstd && has_suffix(path, ".gz")))
    return make_of_kind<Gzip>(path, "zlib", "zlib1g-dev");
  if (zstd || has_suffix(path, ".zst") || has_suffix(path, ".zstd"))
    return make_of_kind<Zstd>(path, "libzstd", "libzstd-dev");
  return nullptr;
}

}  // namespace rondo
