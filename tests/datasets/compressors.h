// The compression formats that the program was built with, for tests.
#pragma once

#include <functional>
#include <string>
#include <vector>
#if RONDO_ZLIB
#include <zlib.h>
#endif
#if RONDO_ZSTD
#include <zstd.h>
#endif

namespace rondo {

struct Compressor {
  std::string suffix;
  std::function<std::string(const std::string&)> compress;
};

inline std::vector<Compressor> compressors() {
  std::vector<Compressor> kinds;
#if RONDO_ZLIB
  kinds.push_back({".gz", [](const std::string& text) {
                     z_stream stream{};
                     deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
                     std::string out(deflateBound(&stream, text.size()) + 64, '\0');
                     stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
                     stream.avail_in = static_cast<uInt>(text.size());
                     stream.next_out = reinterpret_cast<Bytef*>(out.data());
                     stream.avail_out = static_cast<uInt>(out.size());
                     deflate(&stream, Z_FINISH);
                     out.resize(stream.total_out);
                     deflateEnd(&stream);
                     return out;
                   }});
#endif
#if RONDO_ZSTD
  kinds.push_back({".zst", [](const std::string& text) {
                     std::string out(ZSTD_compressBound(text.size()), '\0');
                     ZSTD_CCtx* context = ZSTD_createCCtx();
                     ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
                     out.resize(ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
                     ZSTD_freeCCtx(context);
                     return out;
                   }});
#endif
  return kinds;
}

}  // namespace rondo
