// The interpreter's own correctness: each class of opcodes on a few lines of PTX, with results that
// follow from the ISA.
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdio>
#include <limits>

#include "tests/ptx/program.h"

namespace rondo::ptx {
namespace {

using Catch::Matchers::ContainsSubstring;

// Runs `body` in `threads` threads of a block. Returns what each thread has in the register
// `result`.
std::vector<std::uint64_t> results_of(const std::string& body, const std::string& result,
                                      unsigned threads = 1) {
  const std::string store = result.starts_with("%rd")   ? "st.global.u64"
                            : result.starts_with("%fd") ? "st.global.f64"
                            : result.starts_with("%rs") ? "st.global.u16"
                            : result.starts_with("%f")  ? "st.global.f32"
                                                        : "st.global.u32";
  const std::string text =
      ".entry k(\n.param .u64 to\n)\n{\n.reg .pred %p<9>;\n.shared .align 8 .b8 shared[64];\n"
      ".local .align 8 .b8 local[16];\n"
      "ld.param.u64 %rd1, [to];\ncvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, %tid.x;\n"
      "mul.wide.u32 %rd3, %r1, 8;\nadd.s64 %rd4, %rd2, %rd3;\n" +
      body + "\n" + store + " [%rd4], " + result + ";\nret;\n}\n";
  std::vector<std::uint64_t> to(threads);
  const void* const place = to.data();
  const void* const arguments[] = {&place};
  const Kernel kernel = decode(text);
  run(kernel, {1, 1, 1, threads}, arguments, Order::ascending);
  return to;
}
std::uint64_t result_of(const std::string& body, const std::string& result) {
  return results_of(body, result)[0];
}

std::string f32(float x) {
  char text[16];
  std::snprintf(text, sizeof text, "0f%08X", std::bit_cast<std::uint32_t>(x));
  return text;
}
std::uint64_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("arithmetic of integers wraps, and divides as its type says") {
  CHECK(result_of("add.s32 %r9, 2147483647, 1;", "%r9") == 0x80000000);
  CHECK(result_of("sub.s64 %rd9, 1, 3;", "%rd9") == ~std::uint64_t{1});
  CHECK(result_of("mul.lo.s32 %r9, 65537, 65537;", "%r9") == 131073);
  CHECK(result_of("mul.hi.u32 %r9, -1, -1;", "%r9") == 0xfffffffe);
  CHECK(result_of("mul.wide.s32 %rd9, -2, 3;", "%rd9") == static_cast<std::uint64_t>(-6));
  CHECK(result_of("mul.wide.u32 %rd9, -2, 3;", "%rd9") == 0x2fffffffa);
  CHECK(result_of("mad.lo.s32 %r9, 5, -3, 1;", "%r9") == 0xfffffff2);
  CHECK(result_of("div.s32 %r9, -7, 2;", "%r9") == 0xfffffffd);
  CHECK(result_of("div.u32 %r9, -7, 2;", "%r9") == 0x7ffffffc);
  CHECK(result_of("rem.s64 %rd9, -7, 2;", "%rd9") == ~std::uint64_t{0});
  CHECK(result_of("min.s32 %r9, -1, 1;", "%r9") == 0xffffffff);
  CHECK(result_of("min.u32 %r9, -1, 1;", "%r9") == 1);
  CHECK(result_of("neg.s64 %rd9, 5;", "%rd9") == static_cast<std::uint64_t>(-5));
  CHECK_THROWS_WITH(result_of("div.u32 %r9, 1, 0;", "%r9"), ContainsSubstring("a division by zero"));
}

TEST_CASE("bits are shifted, permuted, inserted and counted") {
  CHECK(result_of("shl.b32 %r9, 1, 32;", "%r9") == 0);
  CHECK(result_of("shr.s32 %r9, -8, 40;", "%r9") == 0xffffffff);
  CHECK(result_of("shr.u32 %r9, -8, 1;", "%r9") == 0x7ffffffc);
  CHECK(result_of("prmt.b32 %r9, 0x33221100, 0x77665544, 0x7531;", "%r9") == 0x77553311);
  CHECK(result_of("prmt.b32 %r9, 0x80, 0, 0x0008;", "%r9") == 0x808080ff);
  CHECK(result_of("bfi.b64 %rd9, 0xff, 0, 8, 4;", "%rd9") == 0xf00);
  CHECK(result_of("popc.b32 %r9, 0xf0f;", "%r9") == 8);
  CHECK(result_of("not.b32 %r9, 0;", "%r9") == 0xffffffff);
  CHECK(result_of("mov.b64 {%r5, %r6}, 0x100000002;\nmov.b64 %rd9, {%r6, %r5};", "%rd9") == 0x200000001);
  CHECK(result_of("mov.b32 {%rs5, %rs6}, 0x10002;\nmov.b32 %r9, {%rs6, %rs5};", "%r9") == 0x20001);
}

TEST_CASE("arithmetic of floats rounds once, keeps subnormal numbers and has one nan") {
  const float third = 1.0f / 3;
  CHECK(result_of("fma.rn.f32 %f9, " + f32(third) + ", " + f32(3) + ", " + f32(-1) + ";", "%f9") ==
        bits(std::fma(third, 3.0f, -1.0f)));
  CHECK(
      result_of("mul.rn.f32 %f5, " + f32(third) + ", " + f32(3) + ";\nadd.rn.f32 %f9, %f5, " + f32(-1) + ";",
                "%f9") == 0);
  CHECK(result_of("fma.rm.f32 %f9, " + f32(1) + ", " + f32(1) + ", " + f32(-1e-20f) + ";", "%f9") ==
        0x3f7fffff);
  CHECK(result_of("mul.f32 %f9, " + f32(1e-30f) + ", " + f32(1e-10f) + ";", "%f9") == bits(1e-30f * 1e-10f));
  CHECK(result_of("div.rn.f32 %f9, " + f32(0) + ", " + f32(0) + ";", "%f9") == 0x7fffffff);
  CHECK(result_of("sqrt.rn.f32 %f9, " + f32(2) + ";", "%f9") == bits(std::sqrt(2.0f)));
  CHECK(result_of("rcp.rn.f32 %f9, " + f32(3) + ";", "%f9") == bits(third));
  CHECK(result_of("max.f32 %f9, " + f32(kNan) + ", " + f32(-1) + ";", "%f9") == bits(-1.0f));
  CHECK(result_of("max.f32 %f9, " + f32(-0.0f) + ", " + f32(0) + ";", "%f9") == 0);
  CHECK(result_of("min.f32 %f9, " + f32(kNan) + ", " + f32(1) + ";", "%f9") == bits(1.0f));
  CHECK(result_of("min.f32 %f9, " + f32(0) + ", " + f32(-0.0f) + ";", "%f9") == bits(-0.0f));
  CHECK(result_of("min.f32 %f9, " + f32(-3) + ", " + f32(2) + ";", "%f9") == bits(-3.0f));
  CHECK(result_of("ex2.approx.ftz.f32 %f9, " + f32(-3) + ";", "%f9") == bits(0.125f));
  CHECK(result_of("ex2.approx.ftz.f32 %f9, " + f32(-140) + ";", "%f9") == 0);
  CHECK(result_of("fma.rn.f64 %fd9, 0d3FF0000000000000, 0d4000000000000000, 0d3FE0000000000000;", "%fd9") ==
        bits(2.5));
}

TEST_CASE("conversions round as their modifiers say") {
  const auto converted = [](const std::string& opcode, float x, const std::string& to) {
    return result_of("cvt." + opcode + " " + to + ", " + f32(x) + ";", to);
  };
  CHECK(converted("rn.bf16.f32", 1 + 1.0f / 256, "%rs9") == 0x3f80);  // a tie, to even
  CHECK(converted("rn.bf16.f32", 1 + 3.0f / 256, "%rs9") == 0x3f82);
  CHECK(converted("rn.bf16.f32", kNan, "%rs9") == 0x7fff);
  CHECK(result_of("cvt.f32.bf16 %f9, 0x3f81;", "%f9") == bits(1 + 1.0f / 128));
  CHECK(converted("sat.f32.f32", kNan, "%f9") == 0);
  CHECK(converted("sat.f32.f32", 7, "%f9") == bits(1.0f));
  CHECK(converted("rzi.u32.f32", -1.5f, "%r9") == 0);
  CHECK(converted("rzi.s64.f32", -1.5f, "%rd9") == ~std::uint64_t{0});
  CHECK(converted("rzi.s64.f32", kInfinity, "%rd9") == 0x7fffffffffffffff);
  CHECK(result_of("cvt.rn.f32.s32 %f9, 16777217;", "%f9") == bits(16777216.0f));
  CHECK(result_of("cvt.rn.f32.f64 %f9, 0d3FB999999999999A;", "%f9") == bits(0.1f));
  CHECK(result_of("cvt.s64.s32 %rd9, -2;", "%rd9") == ~std::uint64_t{1});
  CHECK(result_of("cvt.u64.u32 %rd9, -2;", "%rd9") == 0xfffffffe);

  const auto pair = [](const std::string& format, float high, float low) {
    return result_of("cvt.rn.satfinite." + format + ".f32 %rs9, " + f32(high) + ", " + f32(low) + ";",
                     "%rs9");
  };
  CHECK(pair("e4m3x2", 1, -448) == 0x38fe);
  CHECK(pair("e4m3x2", kInfinity, 0.001953125f) == 0x7e01);  // the largest, the smallest
  CHECK(pair("e4m3x2", 1.0625f, 0.0009765625f) == 0x3800);   // ties, to even
  CHECK(pair("e4m3x2", kNan, 0.0146484375f) == 0x7f08);      // a tie between subnormal and normal numbers
  CHECK(pair("e5m2x2", 57344, 1e9f) == 0x7b7b);
  CHECK(pair("e5m2x2", -1.125f, 1.52587890625e-05f) == 0xbc01);
}

TEST_CASE("comparisons, selections and guards follow predicates, also for a nan") {
  const auto compared = [](const std::string& comparison, float a, float b) {
    return result_of(
        "setp." + comparison + ".f32 %p1, " + f32(a) + ", " + f32(b) + ";\nselp.b32 %r9, 1, 0, %p1;", "%r9");
  };
  CHECK(compared("ne", kNan, 1) == 0);
  CHECK(compared("neu", kNan, 1) == 1);
  CHECK(compared("ltu", kNan, 1) == 1);
  CHECK(compared("ge", 1, 1) == 1);
  CHECK(compared("gtu", 1, 1) == 0);
  CHECK(compared("num", kNan, 1) == 0);
  CHECK(compared("nan", kNan, 1) == 1);
  CHECK(result_of("setp.lt.s32 %p1, -1, 1;\nselp.b32 %r9, 1, 0, %p1;", "%r9") == 1);
  CHECK(result_of("setp.lt.u32 %p1, -1, 1;\nselp.b32 %r9, 1, 0, %p1;", "%r9") == 0);
  CHECK(result_of("mov.pred %p1, -1;\nmov.u32 %r9, 1;\n@!%p1 mov.u32 %r9, 2;\n@%p1 add.s32 %r9, %r9, 4;",
                  "%r9") == 5);
}

TEST_CASE("lanes diverge and meet again, also where a loop ends") {
  // Each lane counts to its number.
  const auto counts = results_of(
      "mov.u32 %r9, 0;\n$L1:\nsetp.ge.u32 %p1, %r9, %r1;\n@%p1 bra $L2;\nadd.s32 %r9, %r9, 1;\nbra.uni "
      "$L1;\n$L2:\n"
      "shfl.sync.bfly.b32 %r8|%p2, %r9, 1, 31, -1;\nshl.b32 %r8, %r8, 8;\nor.b32 %r9, %r9, %r8;",
      "%r9", 32);
  for (std::uint64_t lane = 0; lane < 32; ++lane) CHECK(counts[lane] == (lane | (lane ^ 1) << 8));
}

TEST_CASE("lanes exchange values, and match them") {
  const auto shuffled = results_of("shfl.sync.idx.b32 %r9|%p1, %r1, 5, 31, -1;", "%r9", 64);
  CHECK(shuffled[0] == 5);
  CHECK(shuffled[63] == 37);
  const auto matched = results_of("and.b32 %r5, %r1, 3;\nmatch.any.sync.b32 %r9, %r5, -1;", "%r9", 32);
  CHECK(matched[6] == 0x44444444);
  CHECK_THROWS_WITH(
      results_of("setp.eq.u32 %p1, %r1, 3;\n@%p1 ret;\nshfl.sync.bfly.b32 %r9|%p2, %r1, 1, 31, -1;", "%r9",
                 32),
      ContainsSubstring("a shuffle from a lane that is not active"));
}

TEST_CASE("threads of a block share memory across a barrier, and only there") {
  const std::string exchange =
      "mov.u32 %r2, shared;\nshr.u32 %r3, %r1, 5;\nshl.b32 %r4, %r3, 2;\nadd.s32 %r5, %r2, %r4;\n"
      "st.shared.u32 [%r5], %r3;\n";
  const std::string read = "xor.b32 %r6, %r4, 4;\nadd.s32 %r7, %r2, %r6;\nld.shared.u32 %r9, [%r7];";
  const auto others = results_of(exchange + "bar.sync 0;\n" + read, "%r9", 64);
  CHECK(others[0] == 1);
  CHECK(others[63] == 0);
  CHECK(results_of(exchange + read, "%r9", 64)[0] == 0xffffffff);  // what shared memory holds at the start
  CHECK_THROWS_WITH(
      results_of(
          "setp.eq.u32 %p1, %r1, 3;\n@%p1 bra $L1;\nbar.sync 0;\nbra.uni $L2;\n$L1:\nbar.sync 0;\n$L2:",
          "%r1", 32),
      ContainsSubstring("lanes of the warp are missing"));
}

TEST_CASE("memory is accessed in bounds, aligned, by its type and in vectors") {
  CHECK(result_of("st.local.u64 [local+8], -2;\nld.local.u64 %rd9, [local+8];", "%rd9") == ~std::uint64_t{1});
  CHECK(result_of("st.shared.u32 [shared], 0x80ff;\nld.shared.s8 %r9, [shared];", "%r9") == 0xffffffff);
  CHECK(result_of("st.shared.u32 [shared], 0x80ff;\nld.shared.u8 %r9, [shared+1];", "%r9") == 0x80);
  CHECK(result_of("st.shared.v2.u32 [shared+8], {1, 2};\nld.shared.u64 %rd9, [shared+8];", "%rd9") ==
        0x200000001);
  CHECK_THROWS_WITH(result_of("ld.shared.v2.u32 {%r8, %r9}, [shared+4];", "%r9"),
                    ContainsSubstring("misaligned"));
  CHECK_THROWS_WITH(result_of("ld.shared.u32 %r9, [shared+64];", "%r9"), ContainsSubstring("out of bounds"));
}

TEST_CASE("what the interpreter does not know is an error with its line") {
  CHECK_THROWS_WITH(result_of("add.ftz.f32 %f9, %f1, %f1;", "%f9"),
                    ContainsSubstring("`add.ftz.f32 %f9, %f1, %f1;`: no such operation"));
  CHECK_THROWS_WITH(result_of("bra $nowhere;", "%r1"), ContainsSubstring("no label $nowhere"));
  CHECK_THROWS_WITH(result_of("trap;", "%r1"), ContainsSubstring("a trap"));
}

}  // namespace rondo::ptx
