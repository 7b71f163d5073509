#include "checkpoint/safetensors/format.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/checkpoint/safetensors/texts.h"

namespace rondo::safetensors {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

std::string problem_of_file(const std::string& file) {
  return error_of([&] { parse_header(as_span(file), "w.safetensors"); });
}

// Returns the error for a file of this header and `data_bytes` bytes of data.
std::string problem_of_header(const std::string& header, std::size_t data_bytes = 0) {
  return problem_of_file(file_of(header, std::string(data_bytes, 'x')));
}

std::string tensor_header(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

}  // namespace

TEST_CASE("a header gives names, dtypes, shapes, offsets and metadata") {
  const std::string text =
      R"({ "__metadata__":{"format":"pt"}, "b":{"data_offsets":[4,8],"shape":[2,1],"dtype":"BF16"},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}  )";
  const Header header = parse_header(as_span(file_of(text, "12345678")), "w");
  REQUIRE(header.tensors.size() == 2);
  CHECK(header.tensors[0] == TensorInfo{"a", Dtype::f32, {}, 0, 4});
  CHECK(header.tensors[1] == TensorInfo{"b", Dtype::bf16, {2, 1}, 4, 8});
  CHECK(header.metadata == Metadata{{"format", "pt"}});
  CHECK(header.data_begin == 8 + text.size());
  CHECK(header.data_bytes == 8);
}

TEST_CASE("parse_header reads back what header_bytes writes") {
  const Header header = lay_out(tensors_of_all_kinds(), {{"format", "pt"}, {"note", "\"\n\xc3\xa9"}});
  CHECK(header.data_begin % 8 == 0);
  for (const TensorInfo& info : header.tensors) CHECK(info.begin % dtype_bytes(info.dtype) == 0);
  const std::string bytes = header_bytes(header) + std::string(header.data_bytes, '\0');
  const Header again = parse_header(as_span(bytes), "w");
  CHECK(again.tensors == header.tensors);
  CHECK(again.metadata == header.metadata);
  CHECK(again.data_begin == header.data_begin);
  CHECK(again.data_bytes == header.data_bytes);
}

TEST_CASE("a file without tensors has a header of eight bytes") {
  CHECK(header_bytes(lay_out({})) == file_of("{}      "));
  CHECK(parse_header(as_span(file_of("{}")), "w").tensors.empty());
}

TEST_CASE("a repeated name or an invalid shape is a bug of the caller") {
  CHECK_THAT(error_of([] { lay_out({tensor("t", Dtype::u8, {-1})}); }, ExitCode::internal),
             ContainsSubstring("the shape of \"t\" is not valid"));
  const std::int64_t huge = std::int64_t{1} << 62;
  CHECK_THAT(error_of(
                 [&] {
                   lay_out({tensor("t", Dtype::u8, {huge, 4})});
                 },
                 ExitCode::internal),
             ContainsSubstring("is not valid"));
  CHECK_THAT(error_of(
                 [&] {
                   lay_out({tensor("a", Dtype::i16, {huge}), tensor("b", Dtype::i16, {huge})});
                 },
                 ExitCode::internal),
             ContainsSubstring("larger than any file"));
}

TEST_CASE("an invalid header is refused with the byte offset") {
  CHECK(
      problem_of_file("1234567") ==
      "w.safetensors: not a valid safetensors file: it has 7 bytes, but the length of the header takes 8; it "
      "is damaged or not complete, so fetch or write it again");
  CHECK_THAT(problem_of_file(std::string(8, '\xff')), ContainsSubstring("more than the 100000000 allowed"));
  CHECK_THAT(problem_of_file(file_of("{}").substr(0, 9)),
             ContainsSubstring("a header of 2 bytes in a file of 9"));
  CHECK_THAT(problem_of_header(""), ContainsSubstring("does not begin with '{'"));
  CHECK_THAT(problem_of_header(" {}"), ContainsSubstring("does not begin with '{'"));
  CHECK_THAT(problem_of_header("{"), ContainsSubstring("not valid JSON at its byte 2"));
  CHECK_THAT(problem_of_header("{}{}"), ContainsSubstring("not valid JSON at its byte 3"));
  CHECK_THAT(problem_of_header("{} // note"), ContainsSubstring("not valid JSON"));
  CHECK_THAT(problem_of_header(std::string("{}\0 ", 4)), ContainsSubstring("a NUL byte in the header"));
  CHECK_THAT(problem_of_header("{\"\xff\":1}"), ContainsSubstring("not valid JSON at its byte 3"));
  CHECK_THAT(problem_of_header(R"({"\ud800":1})"), ContainsSubstring("not valid JSON"));
}

TEST_CASE("an entry of the wrong kind is refused with its name") {
  CHECK_THAT(problem_of_header(R"({"t":null})"),
             ContainsSubstring(R"(the entry "t" must be an object and is null)"));
  CHECK_THAT(problem_of_header(R"({"t":[]})"), ContainsSubstring("must be an object and is a list"));
  CHECK_THAT(problem_of_header(R"({"t\n\u001b[31m":true})"), ContainsSubstring(R"("t\n\u001b[31m")"));
  CHECK_THAT(problem_of_header(R"({"t":{}})"), ContainsSubstring(R"(tensor "t": dtype is missing)"));
  CHECK_THAT(problem_of_header(R"({"t":{"dtype":"F32","shape":[]}})"),
             ContainsSubstring("data_offsets is missing"));
  CHECK_THAT(problem_of_header(R"({"t":{"dtype":7}})"),
             ContainsSubstring("dtype must not be or hold a number"));
  CHECK_THAT(problem_of_header(R"({"t":{"dtype":"F33"}})"), ContainsSubstring(R"(dtype "F33")"));
  CHECK_THAT(problem_of_header(R"({"t":{"dtype":"F32","strides":[]}})"),
             ContainsSubstring(R"(unknown key "strides")"));
  CHECK_THAT(problem_of_header(R"({"t":{"shape":[],"shape":[]}})"),
             ContainsSubstring("shape is there twice"));
  CHECK_THAT(problem_of_header(R"({"t":{"shape":{}}})"),
             ContainsSubstring("shape must not be or hold an object"));
  CHECK_THAT(problem_of_header(tensor_header("F32", "[[1]]", "[0,4]"), 4),
             ContainsSubstring("shape must not be or hold a list"));
  CHECK_THAT(problem_of_header(R"({"__metadata__":{"a":1}})"),
             ContainsSubstring("__metadata__ must hold texts"));
  CHECK_THAT(problem_of_header(R"({"__metadata__":null})"),
             ContainsSubstring("must be an object and is null"));
  CHECK_THAT(problem_of_header(R"({"__metadata__":{"a":"","a":""}})"),
             ContainsSubstring(R"(has the key "a" twice)"));
  const std::string twice = R"("t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  CHECK_THAT(problem_of_header("{" + twice + "," + twice + "}"),
             ContainsSubstring(R"(the name "t" is there twice)"));
}

TEST_CASE("sizes and offsets must be integers that agree with the data") {
  CHECK_THAT(problem_of_header(tensor_header("F32", "[-1]", "[0,4]"), 4),
             ContainsSubstring("must not be or hold a negative number"));
  CHECK_THAT(problem_of_header(tensor_header("F32", "[1.0]", "[0,4]"), 4),
             ContainsSubstring("a number that is not an integer"));
  CHECK_THAT(problem_of_header(tensor_header("F32", "[99999999999999999999]", "[0,4]"), 4),
             ContainsSubstring("not an integer"));
  CHECK_THAT(problem_of_header(tensor_header("F32", "[9223372036854775808]", "[0,4]"), 4),
             ContainsSubstring("63 bits"));
  CHECK_THAT(problem_of_header(tensor_header("F32", "[4294967296,4294967296]", "[0,4]"), 4),
             ContainsSubstring("overflow 64 bits"));
  CHECK_THAT(problem_of_header(tensor_header("F64", "[2305843009213693952]", "[0,0]")),
             ContainsSubstring("overflow 64 bits"));
  CHECK_THAT(problem_of_header(tensor_header("F32", "[1]", "[0]"), 4),
             ContainsSubstring("must be two numbers"));
  CHECK_THAT(problem_of_header(tensor_header("F32", "[1]", "[0,4,4]"), 4),
             ContainsSubstring("must be two numbers"));
  CHECK_THAT(problem_of_header(tensor_header("F32", "[1]", "[4,0]"), 4),
             ContainsSubstring("end before they begin"));
  CHECK_THAT(problem_of_header(tensor_header("F32", "[2]", "[0,8]"), 4),
             ContainsSubstring("[0, 8] reach beyond the 4 bytes of data"));
  CHECK_THAT(problem_of_header(tensor_header("F32", "[1]", "[2,6]"), 6),
             ContainsSubstring("leave a hole after byte 0"));
  CHECK_THAT(problem_of_header(tensor_header("F32", "[1]", "[0,4]"), 5),
             ContainsSubstring("cover 4 of the 5 bytes"));
  CHECK_THAT(problem_of_header(tensor_header("F16", "[3]", "[0,4]"), 4),
             ContainsSubstring("its shape and dtype F16 need 6 bytes, but data_offsets [0, 4] have 4"));
  std::string dims = "[1";
  for (int i = 0; i < 64; ++i) dims += ",1";
  CHECK_THAT(problem_of_header(tensor_header("U8", dims + "]", "[0,1]"), 1),
             ContainsSubstring("more than 64 dims"));
  CHECK_THAT(problem_of_header(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                               R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                               3),
             ContainsSubstring(R"(tensor "b": data_offsets [1, 3] overlap the tensor before)"));
}

TEST_CASE("a dtype that is not read is named, and the file is not called damaged") {
  for (const char* dtype : {"F8_E8M0", "F4", "F6_E2M3", "C64"})
    CHECK(problem_of_header(tensor_header(dtype, "[1]", "[0,1]"), 1) ==
          std::string("w.safetensors: tensor \"t\": the dtype \"") + dtype +
              "\" is not read in this version; store it in another dtype, or leave it out");
}

TEST_CASE("only a length says that a file is damaged or not complete") {
  const auto damaged = ContainsSubstring("damaged or not complete");
  for (const std::string& cut : {std::string("1234567"), file_of("{}").substr(0, 9),
                                 file_of(tensor_header("F32", "[2]", "[0,8]"), "1234"),
                                 file_of(tensor_header("F32", "[1]", "[0,4]"), "12345")})
    CHECK_THAT(problem_of_file(cut), damaged);
  for (const std::string& wrong :
       {file_of("{"), file_of("[]"), file_of(R"({"t":null})"), std::string(8, '\xff'),
        file_of(tensor_header("F32", "[1]", "[2,6]"), "123456")})
    CHECK_THAT(problem_of_file(wrong), !damaged && EndsWith("; write it again with the package safetensors"));
  CHECK(problem_of_file("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n") ==
        "w.safetensors: is the pointer of Git LFS and not the file; fetch the file with `git lfs pull`");
}

TEST_CASE("a file of more tensors than the limit is refused while it is parsed") {
  std::string header = "{";
  for (std::size_t i = 0; i <= kMaxTensors; ++i) {
    if (i > 0) header += ',';
    header += '"' + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  CHECK_THAT(problem_of_header(header + "}"), ContainsSubstring("more than 250000 tensors in one file"));
}

TEST_CASE("dtypes are found by the names that headers use") {
  for (int i = 0; i < kDtypes; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    REQUIRE(find_dtype(dtype_name(dtype)) != nullptr);
    CHECK(*find_dtype(dtype_name(dtype)) == dtype);
  }
  CHECK(find_dtype("f32") == nullptr);
  CHECK(dtype_bytes(Dtype::f8_e4m3) == 1);
  CHECK(dtype_bytes(Dtype::bf16) == 2);
  CHECK(dtype_bytes(Dtype::u32) == 4);
  CHECK(dtype_bytes(Dtype::u64) == 8);
}

}  // namespace rondo::safetensors
