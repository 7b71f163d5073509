// The SVG is composed as text. Coordinates have one decimal, a tenth of a pixel. Boxes are as wide
// as fits a slide, but not so narrow that they vanish. A box has its number where it has room for
// the widest one.
#include "parallel/pipeline/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "parallel/pipeline/schedule_page.h"
#include "support/error.h"
#include "support/files/atomic_file.h"
#include "support/text/html.h"

namespace rondo::pipeline {
namespace {

constexpr double kLeft = 68, kTop = 78, kRow = 34, kBox = 28, kRight = 150;
constexpr double kPlotWidth = 1180, kWidestBox = 34, kNarrowestBox = 3, kDigit = 7;

struct Colour {
  int red, green, blue;
};

struct Kind {
  ActionType type;
  const char* name;
  Colour colour;
};
constexpr Kind kKinds[] = {
    {ActionType::forward, "forward", {58, 103, 196}},
    {ActionType::backward, "backward", {31, 138, 112}},
    {ActionType::backward_input, "backward of inputs", {122, 150, 32}},
    {ActionType::backward_weight, "backward of weights", {226, 128, 48}},
};
const Kind& kind_of(ActionType type) { return kKinds[static_cast<std::size_t>(type)]; }

// Stages of a rank, first to last, from the full colour to a light one.
struct Shade {
  std::string fill, ink;
};
Shade shade_of(ActionType type, std::int32_t chunk, std::int32_t chunks) {
  const double white = chunks > 1 ? 0.62 * chunk / (chunks - 1) : 0;
  const auto mixed = [&](int part) { return static_cast<int>(std::lround(part + (255 - part) * white)); };
  const Colour full = kind_of(type).colour;
  return {fmt::format("#{:02x}{:02x}{:02x}", mixed(full.red), mixed(full.green), mixed(full.blue)),
          white > 0.3 ? "#1b2230" : "#ffffff"};
}

// The index of each stage among the stages of its rank, and the largest number of stages on a rank.
struct Chunks {
  explicit Chunks(const Program& program) {
    std::vector<std::int32_t> count(program.ranks.size());
    for (const std::int32_t rank : program.rank_of_stage) of_stage.push_back(count[rank]++);
    most = *std::max_element(count.begin(), count.end());
  }
  std::vector<std::int32_t> of_stage;
  std::int32_t most;
};

std::string class_of(const Action& action, const Chunks& chunks) {
  return fmt::format("{}{}", name_of(action.type), chunks.of_stage[action.stage]);
}

// Returns the smallest 1, 2 or 5 times a power of ten that is at least `least`.
double tick_distance(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1, 2, 5})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

class Svg {
 public:
  explicit Svg(const Drawing& drawing)
      : drawing_(drawing), program_(drawing.program), timeline_(drawing.timeline), chunks_(drawing.program) {
    double shortest = timeline_.end;
    for (const Span& span : timeline_.spans)
      if (span.end > span.begin) shortest = std::min(shortest, span.end - span.begin);
    const double fits = shortest * kPlotWidth / timeline_.end;
    scale_ = timeline_.end > 0 ? std::clamp(fits, kNarrowestBox, kWidestBox) / shortest : 1;
    plot_ = timeline_.end * scale_;
    label_ = 3 + kDigit * static_cast<double>(fmt::format("{}", program_.microbatches - 1).size());
    bottom_ = kTop + kRow * static_cast<double>(program_.ranks.size());
    width_ = std::max(kLeft + plot_ + kRight, 760.0);
  }

  std::string text() {
    const double height = bottom_ + 92;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} "
        "{1:.0f}\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n",
        width_, height);
    styles();
    out_ += "<rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"#ffffff\"/>\n";
    put(24, 34, "t", escaped_html(drawing_.title));
    put(24, 55, "s",
        fmt::format("{}, bubbles {:.1f} % of the step", shape_text(program_),
                    100 * timeline_.bubble_share()));
    axis();
    rows();
    legend();
    return out_ + "</svg>\n";
  }

 private:
  void styles() {
    out_ +=
        "<style>text{font-size:12px;fill:#1b2230}.t{font-size:20px;font-weight:700}.s,.k{fill:#667085}"
        ".s{font-size:14px}.n text{font-size:11.5px;text-anchor:middle}.r{text-anchor:end}.m{text-anchor:"
        "middle;fill:#667085}rect.b{fill:#e9ecf2}path{stroke:#c9cfda;stroke-width:1}";
    std::vector<bool> used(kActionTypes);
    for (const Span& span : timeline_.spans) {
      used[static_cast<std::size_t>(span.action.type)] = true;
      if (span.action.with_next) used[static_cast<std::size_t>(span.together.type)] = pairs_ = true;
    }
    for (const Kind& kind : kKinds) {
      if (!used[static_cast<std::size_t>(kind.type)]) continue;
      kinds_.push_back(kind.type);
      for (std::int32_t chunk = 0; chunk < chunks_.most; ++chunk) {
        const Shade shade = shade_of(kind.type, chunk, chunks_.most);
        out_ += fmt::format("rect.{0}{1}{{fill:{2}}}.n text.{0}{1}{{fill:{3}}}", name_of(kind.type), chunk,
                            shade.fill, shade.ink);
      }
    }
    out_ += "</style>\n";
  }

  void put(double x, double y, const char* classes, const std::string& text) {
    out_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", classes, x, y, text);
  }

  void axis() {
    if (timeline_.end <= 0) return;
    const double distance = tick_distance(56 / scale_);
    for (int i = 0; i * distance <= timeline_.end * (1 + 1e-9); ++i) {
      const double x = kLeft + i * distance * scale_;
      out_ += fmt::format("<path d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", x, kTop - 4, bottom_ + 4);
      put(x, bottom_ + 20, "m", fmt::format("{:g}", i * distance));
    }
    put(kLeft - 12, bottom_ + 20, "k r", "time");
    put(kLeft + plot_ + 62, kTop - 8, "k r", "busy");
    put(kLeft + plot_ + 130, kTop - 8, "k r", "in flight");
  }

  void rows() {
    for (std::size_t rank = 0; rank < program_.ranks.size(); ++rank) {
      const double y = kTop + kRow * static_cast<double>(rank), line = y + kRow / 2 + 4;
      put(kLeft - 12, line, "r", fmt::format("rank {}", rank));
      out_ += fmt::format("<rect class=\"b\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>\n",
                          kLeft, y + (kRow - kBox) / 2, plot_, kBox);
      put(kLeft + plot_ + 62, line, "r", fmt::format("{:.1f} %", 100 * (1 - timeline_.bubble_share(rank))));
      put(kLeft + plot_ + 130, line, "r",
          fmt::format("{:.4g}", microbatches_in_flight(program_, drawing_.proof, rank)));
    }
    out_ += "<g class=\"n\">\n";
    for (const Span& span : timeline_.spans) {
      const double y = kTop + kRow * span.rank + (kRow - kBox) / 2;
      if (span.action.with_next) {
        box(span, span.action, y, kBox / 2);
        box(span, span.together, y + kBox / 2, kBox / 2);
      } else {
        box(span, span.action, y, kBox);
      }
    }
    out_ += "</g>\n";
  }

  void box(const Span& span, const Action& action, double y, double height) {
    const double x = kLeft + span.begin * scale_, width = (span.end - span.begin) * scale_;
    const double gap = std::min(1.0, width / 8);
    const std::string classes = class_of(action, chunks_);
    out_ += fmt::format(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
        "rx=\"{:.1f}\"><title>"
        "{}, {:.6g} to {:.6g}</title></rect>",
        classes, x + gap / 2, y + 0.5, width - gap, height - 1, std::min(2.5, width / 6), print(action),
        span.begin, span.end);
    const std::string number = fmt::format("{}", action.microbatch);
    if (width >= label_)
      out_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", classes, x + width / 2,
                          y + height / 2 + 4, number);
    out_ += '\n';
  }

  // One swatch for each stage of a rank, for each type.
  void legend() {
    double x = 24;
    const double y = bottom_ + 48;
    const auto entry = [&](const std::vector<std::string>& classes, const std::string& name) {
      for (const std::string& swatch : classes) {
        out_ += fmt::format(
            "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"16\" height=\"16\" rx=\"2.5\"/>\n", swatch,
            x, y);
        x += 18;
      }
      put(x + 5, y + 12.5, "g", name);
      x += 24 + 6.3 * static_cast<double>(name.size());
    };
    for (const ActionType type : kinds_) {
      std::vector<std::string> classes;
      for (std::int32_t chunk = 0; chunk < std::min(chunks_.most, 4); ++chunk)
        classes.push_back(fmt::format("{}{}", name_of(type), chunk));
      entry(classes, kind_of(type).name);
    }
    entry({"b"}, "bubble");
    std::string notes = "numbers are microbatches";
    if (chunks_.most > 1) notes += "; lighter: later stages of the rank";
    if (pairs_) notes += "; one above the other: run together";
    put(24, y + 34, "k", notes + "; in flight: activations, in microbatches of all stages of the rank");
  }

  const Drawing& drawing_;
  const Program& program_;
  const Timeline& timeline_;
  const Chunks chunks_;
  double scale_, plot_, bottom_, width_;
  double label_;  // width of the widest number
  std::vector<ActionType> kinds_;
  bool pairs_ = false;
  std::string out_;
};

std::string tile(const std::string& value, const std::string& name) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", value, name);
}

}  // namespace

double microbatches_in_flight(const Program& program, const Proof& proof, std::size_t rank) {
  const auto stages =
      std::count(program.rank_of_stage.begin(), program.rank_of_stage.end(), static_cast<std::int32_t>(rank));
  return static_cast<double>(proof.in_flight.of_rank[rank]) / static_cast<double>(stages);
}

double microbatches_pending(const Program& program, const Proof& proof, std::size_t rank) {
  double pending = 0, stages = 0;
  for (std::size_t stage = 0; stage < program.rank_of_stage.size(); ++stage) {
    if (program.rank_of_stage[stage] != static_cast<std::int32_t>(rank)) continue;
    pending += proof.in_flight.pending_of_stage[stage];
    ++stages;
  }
  return pending / stages;
}

std::string shape_text(const Program& program) {
  const auto count = [](std::int64_t number, const char* singular, const char* plural) {
    return fmt::format("{} {}", number, number == 1 ? singular : plural);
  };
  const std::int64_t ranks = std::ssize(program.ranks);
  const bool even = program.stages % ranks == 0;
  return fmt::format("{}, {}{}, {}", count(ranks, "rank", "ranks"),
                     count(even ? program.stages / ranks : program.stages, "stage", "stages"),
                     even ? " a rank" : "", count(program.microbatches, "microbatch", "microbatches"));
}

std::string to_svg(const Drawing& drawing) { return Svg(drawing).text(); }

std::string to_page(const Drawing& drawing) {
  const Program& program = drawing.program;
  const Timeline& timeline = drawing.timeline;
  double in_flight = 0;
  std::string ranks, edges;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const double on_rank = microbatches_in_flight(program, drawing.proof, rank);
    in_flight = std::max(in_flight, on_rank);
    ranks += fmt::format(
        "<tr><td>{}</td><td>{:.6g}</td><td>{:.6g}</td><td>{:.1f} %</td><td>{:.4g}</td><td>{:.4g}</td></tr>\n",
        rank, timeline.busy[rank], timeline.end - timeline.busy[rank], 100 * timeline.bubble_share(rank),
        on_rank, microbatches_pending(program, drawing.proof, rank));
  }
  for (const Edge& edge : drawing.proof.edges)
    edges += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", edge.from, edge.to, edge.messages);
  const std::string tiles =
      tile(fmt::format("{:.1f} %", 100 * timeline.bubble_share()), "bubbles, of the time of all ranks") +
      tile(fmt::format("{:.6g}", timeline.end), "time of a step") +
      tile(fmt::format("{:.4g}", in_flight), "microbatches in flight on a rank, at most") +
      tile(fmt::format("{}", drawing.proof.messages),
           fmt::format("messages on {} edges", drawing.proof.edges.size()));
  return filled_page(kSchedulePage, {{"@TITLE@", escaped_html(drawing.title)},
                                     {"@NAME@", escaped_html(drawing.title)},
                                     {"@SHAPE@", shape_text(program)},
                                     {"@TILES@", tiles},
                                     {"@PICTURE@", to_svg(drawing)},
                                     {"@RANKS@", ranks},
                                     {"@EDGES@", edges}});
}

std::string broken_picture_name(const std::filesystem::path& file) {
  const std::string kind = file.extension();
  return kind == ".svg" || kind == ".html" ? "" : "must end in .svg or .html";
}

void require_drawable(const Program& program, const std::string& command) {
  if (program.action_count() > kMaxDrawn)
    throw Error(ExitCode::usage, fmt::format("{}: a picture of {} actions is too large: the limit is {}; "
                                             "draw fewer ranks or microbatches",
                                             command, program.action_count(), kMaxDrawn));
}

void write_picture(const std::filesystem::path& file, const Drawing& drawing) {
  replace_file(file, file.extension() == ".svg" ? to_svg(drawing) : to_page(drawing), FileUse::output);
}

}  // namespace rondo::pipeline
