// Parses a header event by event, so that a hostile header needs no more memory than its result.
// All rules of the format are checked: first by the parser's events, then on the tensors sorted by
// offset. Every message names the tensor and the rule. Only lengths prove that a file is cut or was
// overwritten, so only these messages say to fetch it again.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "checkpoint/safetensors/format.h"
#include "support/error.h"
#include "support/files/hub_advice.h"

namespace rondo::safetensors {
namespace {

using Json = nlohmann::json;

// The callbacks of nlohmann's parser. Returning `false` ends the parse, with the reason
// in problem().
class HeaderEvents {
 public:
  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a boolean"); }
  bool number_integer(std::int64_t) { return unexpected("a negative number"); }
  bool number_float(double, const std::string&) { return unexpected("a number that is not an integer"); }
  bool binary(Json::binary_t&) { return unexpected("binary"); }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) {
    return fail(fmt::format("the header is not valid JSON at its byte {}", position));
  }

  bool number_unsigned(std::uint64_t number) {
    if (place_ == Place::shape) {
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return fail_tensor(fmt::format("a size of {} does not fit in 63 bits", number));
      if (tensor_.shape.size() == kMaxDims) return fail_tensor(fmt::format("more than {} dims", kMaxDims));
      tensor_.shape.push_back(static_cast<std::int64_t>(number));
      return true;
    }
    if (place_ != Place::offsets) return unexpected("a number");
    if (offsets_ == 2) return fail_tensor("data_offsets must be two numbers");
    (offsets_++ == 0 ? tensor_.begin : tensor_.end) = number;
    return true;
  }

  bool string(std::string& text) {
    if (place_ == Place::metadata) {
      header_.metadata[key_] = std::move(text);
      return true;
    }
    if (place_ != Place::tensor || key_ != "dtype") return unexpected("a text");
    const Dtype* dtype = find_dtype(text);
    if (dtype == nullptr) {
      is_unread_ = true;
      return fail_tensor("the dtype " + shown_name(text) + " is not read in this version");
    }
    tensor_.dtype = *dtype;
    return true;
  }

  bool key(std::string& name) {
    key_ = std::move(name);
    if (place_ == Place::metadata)
      return !header_.metadata.contains(key_) ||
             fail("__metadata__ has the key " + shown_name(key_) + " twice");
    if (place_ == Place::tensors)
      return names_.insert(key_).second || fail("the name " + shown_name(key_) + " is there twice");
    if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets")
      return fail_tensor("unknown key " + shown_name(key_));
    return fields_.insert(key_).second || fail_tensor(key_ + " is there twice");
  }

  bool start_object(std::size_t) {
    if (place_ == Place::start) {
      place_ = Place::tensors;
      return true;
    }
    if (place_ != Place::tensors) return unexpected("an object");
    if (key_ == "__metadata__") {
      place_ = Place::metadata;
      return true;
    }
    if (header_.tensors.size() == kMaxTensors)
      return fail(fmt::format("more than {} tensors in one file", kMaxTensors));
    place_ = Place::tensor;
    tensor_ = {};
    tensor_.name = key_;
    offsets_ = 0;
    fields_.clear();
    return true;
  }

  bool end_object() {
    const Place ended = place_;
    place_ = ended == Place::tensors ? Place::end : Place::tensors;
    if (ended != Place::tensor) return true;
    for (const char* field : {"dtype", "shape", "data_offsets"})
      if (!fields_.contains(field)) return fail_tensor(std::string(field) + " is missing");
    header_.tensors.push_back(std::move(tensor_));
    return true;
  }

  bool start_array(std::size_t) {
    if (place_ != Place::tensor || key_ == "dtype") return unexpected("a list");
    place_ = key_ == "shape" ? Place::shape : Place::offsets;
    return true;
  }

  bool end_array() {
    if (place_ == Place::offsets && offsets_ != 2) return fail_tensor("data_offsets must be two numbers");
    place_ = Place::tensor;
    return true;
  }

  Header& header() { return header_; }
  const std::string& problem() const { return problem_; }
  bool is_unread() const { return is_unread_; }  // the problem is a dtype that this version lacks

 private:
  enum class Place { start, tensors, metadata, tensor, shape, offsets, end };

  bool fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  bool fail_tensor(const std::string& problem) {
    return fail("tensor " + shown_name(tensor_.name) + ": " + problem);
  }
  bool unexpected(const char* what) {
    switch (place_) {
      case Place::metadata:
        return fail("__metadata__ must hold texts, and " + shown_name(key_) + " is " + what);
      case Place::tensors:
        return fail("the entry " + shown_name(key_) + " must be an object and is " + what);
      case Place::start:
      case Place::end:
        return fail(std::string("the header must be one JSON object and is ") + what);
      default:
        return fail_tensor(key_ + " must not be or hold " + what);
    }
  }

  Place place_ = Place::start;
  Header header_;
  std::string key_;
  TensorInfo tensor_;
  int offsets_ = 0;  // how many of the two have been read
  std::unordered_set<std::string> names_, fields_;
  std::string problem_;
  bool is_unread_ = false;
};

// Returns the bytes of a tensor's shape and dtype; nullopt if they overflow 64 bits.
std::optional<std::uint64_t> bytes_of_shape(const TensorInfo& tensor) {
  std::uint64_t bytes = 1;
  for (const std::int64_t size : tensor.shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) return std::nullopt;
  if (__builtin_mul_overflow(bytes, dtype_bytes(tensor.dtype), &bytes)) return std::nullopt;
  return bytes;
}

// A rule that the tensors break. `by_length`: the file is shorter or longer than its header says.
struct BrokenRule {
  std::string rule = "";  // "": none
  bool by_length = false;
};

// Checks the tensors, which are sorted by offset.
BrokenRule broken_rule(const Header& header) {
  std::uint64_t covered = 0;
  for (const TensorInfo& tensor : header.tensors) {
    const auto broken = [&](const std::string& rule, bool by_length = false) {
      return BrokenRule{fmt::format("tensor {}: {}", shown_name(tensor.name), rule), by_length};
    };
    const std::string offsets = fmt::format("data_offsets [{}, {}]", tensor.begin, tensor.end);
    if (tensor.begin > tensor.end) return broken(offsets + " end before they begin");
    if (tensor.end > header.data_bytes)
      return broken(fmt::format("{} reach beyond the {} bytes of data", offsets, header.data_bytes), true);
    if (tensor.begin < covered) return broken(offsets + " overlap the tensor before");
    if (tensor.begin > covered) return broken(fmt::format("{} leave a hole after byte {}", offsets, covered));
    const std::optional<std::uint64_t> expected = bytes_of_shape(tensor);
    if (!expected) return broken("the bytes of its shape overflow 64 bits");
    if (*expected != tensor.bytes())
      return broken(fmt::format("its shape and dtype {} need {} bytes, but {} have {}",
                                dtype_name(tensor.dtype), *expected, offsets, tensor.bytes()));
    covered = tensor.end;
  }
  if (covered != header.data_bytes)
    return {fmt::format("the tensors cover {} of the {} bytes of data", covered, header.data_bytes), true};
  return {};
}

}  // namespace

Header parse_header(std::span<const std::byte> head, const std::string& file, std::uint64_t rest_bytes) {
  const std::uint64_t file_bytes = head.size() + rest_bytes;
  const auto refuse = [&](const std::string& rule, const char* advice) {
    throw Error(ExitCode::checkpoint,
                fmt::format("{}: not a valid safetensors file: {}; {}", file, rule, advice));
  };
  const auto fail = [&](const std::string& rule) {
    refuse(rule, "write it again with the package safetensors");
  };
  const auto fail_length = [&](const std::string& rule) {
    refuse(rule, "it is damaged or not complete, so fetch or write it again");
  };
  if (std::string_view(reinterpret_cast<const char*>(head.data()), head.size()).starts_with(kGitLfsPointer))
    throw Error(ExitCode::checkpoint, fmt::format("{}: {}", file, kGitLfsAdvice));
  if (file_bytes < 8)
    fail_length(fmt::format("it has {} bytes, but the length of the header takes 8", file_bytes));
  std::uint64_t length = 0;
  for (std::size_t byte = 0; byte < 8; ++byte)
    length |= std::to_integer<std::uint64_t>(head[byte]) << (8 * byte);
  if (length > kMaxHeaderBytes)
    fail(fmt::format("a header of {} bytes, more than the {} allowed", length, kMaxHeaderBytes));
  if (length > file_bytes - 8)
    fail_length(fmt::format("a header of {} bytes in a file of {}", length, file_bytes));

  const char* text = reinterpret_cast<const char*>(head.data()) + 8;
  if (length == 0 || text[0] != '{') fail("the header does not begin with '{'");
  // The parser would treat a NUL as the end of its input.
  if (std::memchr(text, 0, length) != nullptr) fail("a NUL byte in the header");
  HeaderEvents events;
  if (!Json::sax_parse(text, text + length, &events)) {
    if (!events.is_unread()) fail(events.problem());
    throw Error(ExitCode::checkpoint,
                fmt::format("{}: {}; store it in another dtype, or leave it out", file, events.problem()));
  }

  Header header = std::move(events.header());
  header.data_begin = 8 + length;
  header.data_bytes = file_bytes - header.data_begin;
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  if (const BrokenRule broken = broken_rule(header); broken.by_length)
    fail_length(broken.rule);
  else if (!broken.rule.empty())
    fail(broken.rule);
  return header;
}

}  // namespace rondo::safetensors
