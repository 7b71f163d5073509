// Draws a schedule: one row a rank, time from left to right, one box for each action with its
// microbatch. Colours show the type of action, with lighter ones for later stages of a rank. Grey
// is a bubble.
//
// An SVG is self-contained, for pages and slides. An HTML page contains it with the numbers of
// ranks and edges, and loads nothing. The same schedule gives the same bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "parallel/pipeline/prove.h"
#include "parallel/pipeline/simulate.h"

namespace rondo::pipeline {

struct Drawing {
  std::string title;  // any characters; escaped
  const Program& program;
  const Proof& proof;
  const Timeline& timeline;  // with spans
};

inline constexpr std::int64_t kMaxDrawn = 200'000;  // actions; larger pictures do not open

std::string to_svg(const Drawing& drawing);
std::string to_page(const Drawing& drawing);

// Returns "" or the rule that the name of a picture breaks: "must end in ...".
std::string broken_picture_name(const std::filesystem::path& file);
// Throws Error(usage), with `command` as the place, where the picture would be too large.
void require_drawable(const Program& program, const std::string& command);
// Replaces the file. REQUIRES: broken_picture_name and require_drawable passed.
void write_picture(const std::filesystem::path& file, const Drawing& drawing);

// Returns the maximum of activations in flight on a rank, in microbatches of all its stages.
double microbatches_in_flight(const Program& program, const Proof& proof, std::size_t rank);
// Returns the sum of each stage's maximum between I and W, in microbatches of all stages of a rank.
double microbatches_pending(const Program& program, const Proof& proof, std::size_t rank);
// Returns "4 ranks, 2 stages a rank, 8 microbatches".
std::string shape_text(const Program& program);

}  // namespace rondo::pipeline
