// Pictures of a schedule: a row a rank, time from left to right, a box an action with its microbatch, colours
// by the type of action, lighter ones for a rank's later stages. What is grey is a bubble.
//
// An SVG stands alone, for pages and slides; an HTML page has it with the numbers of ranks and edges, and
// asks for nothing outside of itself. The same schedule gives the same bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "parallel/pipeline/prove.h"
#include "parallel/pipeline/simulate.h"

namespace rondo::pipeline {

struct Drawing {
  std::string title;  // any characters
  const Program& program;
  const Proof& proof;
  const Timeline& timeline;  // with spans
};

inline constexpr std::int64_t kMostDrawn = 200'000;  // spans of a picture; more would be too large to open

std::string to_svg(const Drawing& drawing);
std::string to_page(const Drawing& drawing);

// A file's name as a flag gives it: "" or the rule that it breaks, "must end in ...".
std::string broken_picture_name(const std::filesystem::path& file);
// Throws Error(usage), as `command`, where the picture would be too large.
void require_drawable(const Program& program, const std::string& command);
// Replaces the file. REQUIRES: its name and the program pass both.
void write_picture(const std::filesystem::path& file, const Drawing& drawing);

// The most activations in flight on a rank, in microbatches of all its stages.
double microbatches_in_flight(const Program& program, const Proof& proof, std::size_t rank);
// Those between I and W, each stage at its most, likewise.
double microbatches_pending(const Program& program, const Proof& proof, std::size_t rank);
// "4 ranks, 2 stages a rank, 8 microbatches"
std::string shape_text(const Program& program);

}  // namespace rondo::pipeline
