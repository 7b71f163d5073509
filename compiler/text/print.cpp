// Prints graphs, types and placements. The output must parse back to an equal graph. Doubles are
// printed with std::to_chars, the shortest form with the same bits. ".0" distinguishes a whole
// double from an integer, a nan other than the quiet one is printed as bits, and empty lists name
// their kind. Phase and module get a line only where they change. A broken graph must be printable
// too, so value ids are checked before use, and a malformed return is printed as a plain node.
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "compiler/text/text.h"

namespace rondo::ir {
namespace {

bool is_bare(std::string_view name) {
  for (char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && c != '_' && c != '.' && c != ':' && c != '/') return false;
  }
  return !name.empty();
}

class Printer {
 public:
  explicit Printer(const Graph& graph, const IdMap<std::string>* comments = nullptr)
      : graph_(graph), comments_(comments) {}

  void graph() {
    text("graph ").name(graph_.name).text("\n");
    for (const std::string& block : graph_.blocks) text("block ").name(block).text("\n");
    for (const MeshAxis& axis : graph_.mesh.axes)
      text("axis ").name(axis.name).text(" ").number(axis.ranks).text("\n");
    for (const MeshGroup& group : graph_.mesh.groups) {
      text("group ").name(group.name);
      for (std::int32_t axis : group.axes) text(" ").name(axis_name(axis));
      text("\n");
    }
    text("\n");
    for (const Input& input : graph_.inputs) {
      text(input_kind_name(input.kind)).text(" ").value(input.value);
      const Value& value = described(input.value);
      text(value.on_host ? ": host " : ": ").type(value.type).text(" ").name(input.name);
      if (!input.bucket.empty()) text(" bucket ").name(input.bucket);
      sharding(input.sharding);
      text("\n");
    }
    if (!graph_.inputs.empty()) text("\n");
    for (const Node& node : graph_.nodes) {
      segments(static_cast<std::int32_t>(&node - graph_.nodes.data()));
      place(node);
      if (&node == &graph_.nodes.back() && is_plain_return(node)) {
        returns(node);
      } else {
        text("  ").node(node).comment(node).text("\n");
      }
    }
  }

  Printer& node(const Node& node) {
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      if (i > 0) text(", ");
      const Value& result = described(node.results[i]);
      value(node.results[i]).text(result.on_host ? ": host " : ": ").type(result.type);
      if (result.views != kNoValue) text(" views ").value(result.views);
      if (result.writes != kNoValue) text(" writes ").value(result.writes);
    }
    if (!node.results.empty()) text(" = ");
    name(node.op).text("(");
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      if (i > 0) text(", ");
      std::visit([&](const auto& arg) { argument(arg); }, node.args[i]);
    }
    return text(")").origin(node);
  }

  Printer& type(const TensorType& type) {
    text(dtype_name(type.dtype)).text("[").numbers(type.sizes, ",").text("]");
    if (type.strides != contiguous_strides(type.sizes)) text("{").numbers(type.strides, ",").text("}");
    return *this;
  }

  std::string take() { return std::move(out_); }

 private:
  // Returns the value, or an unknown one for an id out of range, so that broken graphs can
  // be dumped.
  const Value& described(ValueId id) const {
    static const Value kUnknown;
    return id >= 0 && static_cast<std::size_t>(id) < graph_.values.size() ? graph_.value(id) : kUnknown;
  }

  Printer& text(std::string_view s) {
    out_ += s;
    return *this;
  }

  Printer& number(std::int64_t n) {
    char buffer[24];
    out_.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, n).ptr);
    return *this;
  }

  Printer& numbers(const std::vector<std::int64_t>& list, std::string_view separator) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) text(separator);
      number(list[i]);
    }
    return *this;
  }

  Printer& value(ValueId id) { return id == kNoValue ? text("none") : text("%").number(id); }

  Printer& name(std::string_view s) { return is_bare(s) ? text(s) : quoted(s); }

  Printer& quoted(std::string_view s) {
    constexpr std::string_view kHex = "0123456789abcdef";
    out_ += '"';
    for (char c : s) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        (out_ += '\\') += c;
      } else if (c == '\n') {
        out_ += "\\n";
      } else if (byte < 0x20 || byte == 0x7f) {
        ((out_ += "\\x") += kHex[byte >> 4]) += kHex[byte & 15];
      } else {
        out_ += c;
      }
    }
    out_ += '"';
    return *this;
  }

  std::string_view axis_name(std::int32_t axis) const {
    const auto i = static_cast<std::size_t>(axis);
    return i < graph_.mesh.axes.size() ? std::string_view(graph_.mesh.axes[i].name) : "unknown";
  }

  void sharding(const Sharding& sharding) {
    const char* lead = " on ";
    for (std::size_t i = 0; i < sharding.axes.size(); ++i) {
      if (sharding.axes[i] == kReplicated) continue;
      text(lead).name(axis_name(static_cast<std::int32_t>(i))).text(" ").text(print(sharding.axes[i]));
      lead = " ";
    }
    if (!sharding.unflattened.empty()) text(" of [").numbers(sharding.unflattened, ",").text("]");
  }

  Printer& comment(const Node& node) {
    const char* lead = "  # ";
    if (comments_ == nullptr) return *this;
    for (ValueId id : node.results) {
      const std::string& comment = (*comments_)[id];
      if (!comment.empty()) text(lead).text(comment);
      lead = "; ";
    }
    return *this;
  }

  Printer& origin(const Node& node) { return node.origin.empty() ? *this : text(" by ").name(node.origin); }

  // Prints the segments that begin or end before node i.
  void segments(std::int32_t i) {
    const std::vector<Segment>& list = graph_.segments;
    const bool ended = next_segment_ > 0 && list[next_segment_ - 1].end == i;
    if (ended && (next_segment_ == list.size() || list[next_segment_].begin != i)) text("eager\n");
    for (; next_segment_ < list.size() && list[next_segment_].begin == i; ++next_segment_) text("segment\n");
  }

  void place(const Node& node) {
    if (placed_ && node.phase == phase_ && node.module == module_) return;
    placed_ = true;
    phase_ = node.phase;
    module_ = node.module;
    text(phase_name(node.phase));
    if (!node.module.empty()) text(" ").name(node.module);
    text("\n");
  }

  bool is_plain_return(const Node& node) const {
    if (node.op != kReturn || !node.results.empty() || node.args.size() != graph_.outputs.size())
      return false;
    for (const Argument& arg : node.args)
      if (!std::holds_alternative<Use>(arg)) return false;
    for (const Output& output : graph_.outputs)
      if (output.updates >= static_cast<int>(graph_.inputs.size())) return false;
    return true;
  }

  void returns(const Node& node) {
    text("return").origin(node).text("\n");
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      const Output& output = graph_.outputs[i];
      text("  ").name(output.name).text(" = ").value(std::get<Use>(node.args[i]).value);
      if (output.updates >= 0) text(" -> ").name(graph_.inputs[output.updates].name);
      text("\n");
    }
  }

  void argument(None) { text("none"); }
  void argument(bool flag) { text(flag ? "true" : "false"); }
  void argument(std::int64_t n) { number(n); }
  void argument(double x) {
    if (std::isnan(x)) {
      const auto bits = std::bit_cast<std::uint64_t>(x);
      if (bits == std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN())) {
        text("nan");
        return;
      }
      char buffer[24];
      text("nan(0x").text({buffer, std::to_chars(buffer, buffer + sizeof buffer, bits, 16).ptr}).text(")");
      return;
    }
    char buffer[32];
    const std::string_view digits(buffer, std::to_chars(buffer, buffer + sizeof buffer, x).ptr);
    text(digits);
    if (digits.find_first_of(".en") == std::string_view::npos) text(".0");  // "n" as in inf
  }
  void argument(const std::string& s) { quoted(s); }
  void argument(DType dtype) { text(dtype_name(dtype)); }
  void argument(const Symbol& symbol) { text(".").name(symbol.name); }
  void argument(const std::vector<std::int64_t>& list) { text("[").numbers(list, ", ").text("]"); }
  void argument(const std::vector<double>& list) { elements("doubles[]", list); }
  void argument(const std::vector<bool>& list) { elements("bools[]", list); }
  void argument(const WrappedNumber& wrapped) {
    text("wrapped(");
    std::visit([&](auto n) { argument(n); }, wrapped.number);
    text(")");
  }
  void argument(Use use) { value(use.value); }
  void argument(const UseList& list) {
    if (list.values.empty()) {
      text("values[]");
      return;
    }
    for (std::size_t i = 0; i < list.values.size(); ++i) text(i > 0 ? ", " : "[").value(list.values[i]);
    text("]");
  }

  template <class T>
  void elements(std::string_view empty, const std::vector<T>& list) {
    if (list.empty()) {
      text(empty);
      return;
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      text(i > 0 ? ", " : "[");
      argument(static_cast<T>(list[i]));
    }
    text("]");
  }

  const Graph& graph_;
  const IdMap<std::string>* comments_;
  std::string out_;
  std::size_t next_segment_ = 0;
  bool placed_ = false;  // phase_ and module_ are those of the last line
  Phase phase_ = Phase::forward;
  std::string_view module_;
};

}  // namespace

std::string print(const Graph& graph, const IdMap<std::string>* comments) {
  Printer printer(graph, comments);
  printer.graph();
  return printer.take();
}

std::string print(const Placement& placement) {
  using Kind = Placement::Kind;
  static constexpr std::array<std::string_view, 7> kNames = {"replicated", "zero", "",     "inner ",
                                                             "sum",        "max",  "local"};
  std::string text(kNames[static_cast<std::size_t>(placement.kind)]);
  if (placement.kind == Kind::sharded || placement.kind == Kind::inner) text += std::to_string(placement.dim);
  return placement.repeated ? text + " repeated" : text;
}

std::string print(const TensorType& type) {
  const Graph empty;
  Printer printer(empty);
  printer.type(type);
  return printer.take();
}

std::string print(const Graph& graph, const Node& node) {
  Printer printer(graph);
  printer.node(node);
  return printer.take();
}

}  // namespace rondo::ir
