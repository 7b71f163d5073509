// The kernel of attention on a CUDA device, case by case.
#include "ops/attention/attention_choice.h"

#include <catch2/catch_test_macros.hpp>

#include "support/error.h"

namespace rondo {
namespace {

using Type = AttentionCase::Type;

const AttentionCase kLlama{.width = 128, .value_width = 128, .tokens = 8192};
const AttentionCase kLatent{.width = 192, .value_width = 128, .tokens = 4096};

AttentionCase with(AttentionCase c, auto change) {
  change(c);
  return c;
}

}  // namespace

TEST_CASE("flash gets no more sequences than a launch takes, for any context length") {
  for (const std::int64_t rows : {1, 3, 32})
    for (const std::int64_t tokens : {4096, 131'072, 1 << 20, 10'485'760}) {
      const std::int64_t shorter_than = short_document(rows, tokens);
      CHECK(2 * rows + 2 * (rows * tokens / shorter_than) <= 65535);
      CHECK((shorter_than == 128 || rows * tokens > 4'000'000));
    }
}

TEST_CASE("heads of 128 take cuDNN, or flash if results must repeat or there are documents") {
  CHECK(choose_attention(kLlama) == AttentionKernel::cudnn);
  CHECK(choose_attention(with(kLlama, [](auto& c) { c.deterministic = true; })) == AttentionKernel::flash);
  CHECK(choose_attention(with(kLlama, [](auto& c) { c.documents = true; })) == AttentionKernel::flash);
  CHECK(choose_attention(with(kLlama, [](auto& c) { c.cudnn = 0; })) == AttentionKernel::flash);
}

TEST_CASE("heads of 192 and 128 of latent attention take cuDNN on Hopper, otherwise efficient") {
  CHECK(choose_attention(kLatent) == AttentionKernel::cudnn);
  CHECK(choose_attention(with(kLatent, [](auto& c) { c.cudnn = 90900; })) == AttentionKernel::efficient);
  CHECK(choose_attention(with(kLatent, [](auto& c) { c.deterministic = true; })) ==
        AttentionKernel::efficient);
  CHECK(choose_attention(with(kLatent, [](auto& c) { c.capability_major = 10; })) ==
        AttentionKernel::efficient);
  const auto blackwell = with(kLatent, [](auto& c) { c.capability_major = 10, c.cudnn = 91100; });
  CHECK(choose_attention(blackwell) == AttentionKernel::cudnn);
  CHECK(choose_attention(with(kLatent, [](auto& c) { c.documents = true; })) == AttentionKernel::flash);
}

TEST_CASE("fp32 takes efficient attention, and direct with documents; fp64 takes direct") {
  CHECK(choose_attention(with(kLlama, [](auto& c) { c.type = Type::fp32; })) == AttentionKernel::efficient);
  CHECK(choose_attention(with(kLlama, [](auto& c) { c.type = Type::fp32, c.documents = true; })) ==
        AttentionKernel::direct);
  CHECK(choose_attention(with(kLlama, [](auto& c) { c.type = Type::fp64; })) == AttentionKernel::direct);
}

TEST_CASE("odd widths and rows of one token take the next kernel") {
  CHECK(choose_attention(with(kLlama, [](auto& c) { c.width = c.value_width = 100; })) ==
        AttentionKernel::efficient);
  CHECK(choose_attention(with(kLlama, [](auto& c) { c.width = c.value_width = 100, c.documents = true; })) ==
        AttentionKernel::direct);
  CHECK(choose_attention(with(kLlama, [](auto& c) { c.width = c.value_width = 102; })) ==
        AttentionKernel::direct);
  CHECK(choose_attention(with(kLlama, [](auto& c) { c.width = c.value_width = 264; })) ==
        AttentionKernel::efficient);
  CHECK(choose_attention(with(kLlama, [](auto& c) { c.tokens = 1; })) == AttentionKernel::efficient);
}

TEST_CASE("windows and chunks take flash in bf16, and direct in other types") {
  const auto window = with(kLlama, [](auto& c) { c.mask.left = 127; });
  const auto chunks = with(kLlama, [](auto& c) { c.mask.chunk = 2048; });
  for (const AttentionCase& c : {window, chunks}) {
    CHECK(choose_attention(c) == AttentionKernel::flash);
    CHECK(choose_attention(with(c, [](auto& x) { x.type = Type::fp32; })) == AttentionKernel::direct);
    CHECK(choose_attention(with(c, [](auto& x) { x.type = Type::fp64; })) == AttentionKernel::direct);
  }
  const auto latent = with(kLatent, [](auto& c) { c.mask.left = 127; });
  CHECK(choose_attention(latent) == AttentionKernel::direct);
  CHECK(choose_attention(with(latent, [](auto& c) { c.mask.chunk = 512; })) == AttentionKernel::flash);
  CHECK(attention_kernel_in_words(window) ==
        "attention: flash, a window of 128 tokens (cuDNN does not support windows without "
        "nvidia-cudnn-frontend)");
  CHECK(attention_kernel_in_words(chunks) ==
        "attention: flash, documents of fewer than 128 tokens direct, chunks of 2048 tokens (cuDNN does not "
        "support chunks without nvidia-cudnn-frontend)");
}

TEST_CASE(
    "with the headers of cuDNN's frontend, documents, windows, chunks and runs of queries take cuDNN on "
    "Hopper") {
  const auto with_graphs = [](const AttentionCase& c) {
    return with(c, [](auto& x) { x.cudnn_graphs = true, x.cudnn = 91900; });
  };
  const auto documents = with(with_graphs(kLlama), [](auto& c) { c.documents = true; });
  const auto window = with(with_graphs(kLlama), [](auto& c) { c.mask.left = 127; });
  const auto chunks = with(with_graphs(kLlama), [](auto& c) { c.mask.chunk = 2048; });
  const auto runs = with(documents, [](auto& c) { c.positions = true, c.query_runs = 2; });
  const auto latent = with(with_graphs(kLatent), [](auto& c) { c.documents = true; });
  for (const AttentionCase& c : {documents, window, chunks, runs, latent}) {
    CHECK(choose_attention(c) == AttentionKernel::cudnn);
    CHECK(choose_attention(with(c, [](auto& x) { x.cudnn = 91300; })) != AttentionKernel::cudnn);
    CHECK(choose_attention(with(c, [](auto& x) { x.capability_major = 10; })) != AttentionKernel::cudnn);
    CHECK(choose_attention(with(c, [](auto& x) { x.deterministic = true; })) != AttentionKernel::cudnn);
    CHECK(choose_attention(with(c, [](auto& x) { x.requested = AttentionKernel::cudnn; })) ==
          AttentionKernel::cudnn);
  }
  CHECK(choose_attention(with(runs, [](auto& c) { c.query_runs = 0; })) == AttentionKernel::direct);
  CHECK(choose_attention(with(window, [](auto& c) { c.mask.right = 5; })) == AttentionKernel::flash);
  CHECK(choose_attention(with(documents, [](auto& c) { c.width = c.value_width = 72; })) ==
        AttentionKernel::flash);
  CHECK(choose_attention(with(window, [](auto& c) { c.width = c.value_width = 72; })) ==
        AttentionKernel::cudnn);
  CHECK(attention_kernel_in_words(documents) ==
        "attention: cuDNN, documents of fewer than 128 tokens direct");
  CHECK(
      attention_kernel_in_words(with(documents, [](auto& c) { c.cudnn = 91002; })) ==
      "attention: flash, documents of fewer than 128 tokens direct (documents require cuDNN 9.19 and compute "
      "capability 9.0)");
}

TEST_CASE("terms of a mask that hide nothing of a row are dropped") {
  CHECK(effective_mask({.left = 7, .chunk = 8}, 8) == AttentionMask{});
  CHECK(effective_mask({.left = 6, .chunk = 7}, 8) == AttentionMask{.left = 6, .chunk = 7});
  CHECK(effective_mask({.right = 7}, 8) == AttentionMask{.right = AttentionMask::kUnlimited});
  CHECK(effective_mask({.right = 0}, 1) == AttentionMask{.left = -1, .right = 0});
}

TEST_CASE("heads that are too wide for every kernel are refused with advice") {
  const auto wide = with(kLlama, [](auto& c) { c.width = c.value_width = 520, c.documents = true; });
  try {
    choose_attention(wide);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::config);
    CHECK(std::string(error.what()) ==
          "no attention kernel on CUDA supports heads of 520 and 520 elements (with documents), at most 512; "
          "use narrower heads, or turn training.document_attention off with bf16 or fp32");
  }
}

TEST_CASE("a requested kernel computes supported cases and refuses the others with the reason") {
  const auto requested = [](AttentionCase c, std::optional<AttentionKernel> kernel) {
    c.requested = kernel;
    return c;
  };
  CHECK(choose_attention(requested(kLlama, std::nullopt)) == AttentionKernel::cudnn);
  CHECK(choose_attention(requested(kLlama, AttentionKernel::efficient)) == AttentionKernel::efficient);
  CHECK(choose_attention(requested(kLlama, AttentionKernel::direct)) == AttentionKernel::direct);
  const auto refusal = [&](const AttentionCase& c) -> std::string {
    try {
      choose_attention(c);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::config);
      return error.what();
    }
    return "";
  };
  CHECK(refusal(requested(with(kLlama, [](auto& c) { c.documents = true; }), AttentionKernel::cudnn)) ==
        "compile.attention = \"cudnn\": cuDNN does not support documents without nvidia-cudnn-frontend; "
        "\"auto\" selects the first kernel that supports the case");
  CHECK(
      refusal(requested(kLatent, AttentionKernel::flash)) ==
      "compile.attention = \"flash\": flash does not support heads of 192 and 128 elements; \"auto\" selects "
      "the first kernel that supports the case");
  CHECK(refusal(requested(with(kLlama, [](auto& c) { c.width = 520; }), AttentionKernel::direct)) ==
        "compile.attention = \"direct\": direct supports heads of at most 512 elements; \"auto\" selects "
        "the first kernel that supports the case");
}

TEST_CASE("the choice is described with the reason") {
  CHECK(attention_kernel_in_words(kLlama) == "attention: cuDNN");
  CHECK(attention_kernel_in_words(with(kLlama, [](auto& c) { c.requested = AttentionKernel::flash; })) ==
        "attention: flash (compile.attention)");
  CHECK(attention_kernel_in_words(with(kLlama, [](auto& c) { c.deterministic = true; })) ==
        "attention: flash (cuDNN is not deterministic)");
  CHECK(attention_kernel_in_words(with(kLlama, [](auto& c) { c.documents = true; })) ==
        "attention: flash, documents of fewer than 128 tokens direct (cuDNN does not support documents "
        "without nvidia-cudnn-frontend)");
  CHECK(attention_kernel_in_words(with(kLatent, [](auto& c) { c.cudnn = 90900; })) ==
        "attention: efficient (flash does not support heads of 192 and 128 elements)");
  CHECK(attention_kernel_in_words(with(kLlama, [](auto& c) { c.type = Type::fp32; })) ==
        "attention: efficient (flash requires bf16)");
}

}  // namespace rondo
