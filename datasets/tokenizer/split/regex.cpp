#include "datasets/tokenizer/split/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <new>

#include "support/error.h"

namespace rondo {
namespace {

// The engine counts each backtracking step as a match. A long run of blanks takes one per blank,
// and an expression that backtracks without end reaches the limit within a second.
constexpr std::size_t kSteps = 10'000'000, kStepsPerByte = 100;

constexpr std::size_t kJitStackStartBytes = 32 << 10, kJitStackBytes = 1 << 20;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

void RegexScratch::Free::operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
void RegexScratch::Free::operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
void RegexScratch::Free::operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
void Regex::Free::operator()(pcre2_code* code) const { pcre2_code_free(code); }

RegexScratch::RegexScratch()
    : stack_(pcre2_jit_stack_create(kJitStackStartBytes, kJitStackBytes, nullptr)),
      context_(pcre2_match_context_create(nullptr)),
      data_(pcre2_match_data_create(1, nullptr)) {
  if (!context_ || !data_) throw std::bad_alloc();
  // Without JIT on this machine there is no stack, and none is needed.
  if (stack_) pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
}

Regex::Regex(const std::string& pattern, std::string place) : place_(std::move(place)) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile(units(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                            &error, &offset, nullptr));
  if (!code_)
    throw Error(ExitCode::data,
                fmt::format("{}: the regular expression does not compile: {}", place_, pcre2_message(error)));
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without JIT, pcre2_match interprets
}

Regex::Match Regex::search(std::string_view text, std::size_t from, RegexScratch& scratch) const {
  pcre2_set_match_limit(scratch.context_.get(), static_cast<std::uint32_t>(std::min<std::size_t>(
                                                    kSteps + kStepsPerByte * text.size(),
                                                    std::numeric_limits<std::uint32_t>::max())));
  const int matches = pcre2_match(code_.get(), units(text), text.size(), from, PCRE2_NO_UTF_CHECK,
                                  scratch.data_.get(), scratch.context_.get());
  if (matches == PCRE2_ERROR_NOMATCH) return {0, 0, false};
  if (matches < 0)
    throw Error(ExitCode::data, fmt::format("{}: the regular expression cannot split a text of {} bytes: {}",
                                            place_, text.size(), pcre2_message(matches)));
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(scratch.data_.get());
  return {offsets[0], offsets[1], true};
}

}  // namespace rondo
