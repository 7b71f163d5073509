// Parses the statements of a graph by recursive descent without backtracking. Results of a node
// stay pending until its operands are read. The verifier checks rules of the whole graph.
#include <fmt/format.h>

#include <unordered_map>

#include "compiler/text/text.h"
#include "compiler/text/value_parser.h"

namespace rondo::ir {
namespace {

class Parser : private ValueParser {
 public:
  using ValueParser::ValueParser;

  Graph graph() {
    skip_empty_lines();
    expect_word("graph");
    graph_.name = name("the name of the graph");
    end_of_line();
    while (skip_empty_lines(), pos_ < text_.size()) statement();
    segment(false);
    return std::move(graph_);
  }

 private:
  // Statements

  void statement() {
    if (returned_) fail(pos_, "a statement after return", "the end of the file");
    if (peek() == '%') return node();
    const std::size_t start = pos_;
    const std::string word = name("an input, a phase, a node or return");
    if (peek() == '(') return call(word, {});
    if (word == kReturn) return returns();
    if (word == "block") return block(start);
    if (word == "axis") return axis(start);
    if (word == "group") return group(start);
    if (word == "segment" || word == "eager") return segment(word == "segment"), end_of_line();
    if (const auto kind = input_kind_from_name(word)) return input(*kind);
    for (Phase phase : {Phase::forward, Phase::backward, Phase::update})
      if (word == phase_name(phase)) return place(phase);
    fail(start, fmt::format("unknown statement \"{}\"", word),
         "block, axis, group, parameter, optimizer, buffer, batch, forward, backward, update, segment, "
         "eager, return or a node");
  }

  void block(std::size_t start) {
    if (!graph_.nodes.empty()) fail(start, "a block after a node", "all blocks before the first node");
    graph_.blocks.push_back(name("the module of the block"));
    end_of_line();
  }

  void axis(std::size_t start) {
    std::vector<MeshAxis>& axes = graph_.mesh.axes;
    if (!graph_.inputs.empty() || axes.size() == MeshAxes::kMax)
      fail(start, "too many axes, or an axis after an input",
           fmt::format("at most {} axes, before the inputs", MeshAxes::kMax));
    axes.push_back({name("the name of the axis"), integer()});
    if (axes.back().ranks < 2) fail(start, "an axis of fewer than 2 ranks", "2 ranks or more");
    constexpr std::int64_t kMaxRanks = 1 << 24;
    if (axes.back().ranks > kMaxRanks)
      fail(start, "an axis of too many ranks", fmt::format("at most {}", kMaxRanks));
    end_of_line();
  }

  void group(std::size_t start) {
    if (!graph_.inputs.empty()) fail(start, "a group after an input", "all groups before the inputs");
    MeshGroup group{name("the name of the group"), {}};
    while (!at_end_of_line()) group.axes.push_back(named_axis());
    graph_.mesh.groups.push_back(std::move(group));
    end_of_line();
  }

  std::int32_t named_axis() {
    skip_spaces();
    const std::size_t start = pos_;
    const std::string word = name("the name of an axis");
    const std::vector<MeshAxis>& axes = graph_.mesh.axes;
    for (std::size_t i = 0; i < axes.size(); ++i)
      if (axes[i].name == word) return static_cast<std::int32_t>(i);
    fail(start, fmt::format("there is no axis \"{}\"", word), "an axis defined before");
  }

  // Parses the sharding after `on`.
  Sharding sharding() {
    Sharding sharding{std::vector<Placement>(graph_.mesh.axes.size()), {}};
    do {
      const std::int32_t axis = named_axis();
      sharding.axes[static_cast<std::size_t>(axis)] = placement();
    } while (!at_end_of_line() && !take_word("of"));
    if (at_end_of_line()) return sharding;
    const std::size_t start = pos_;
    expect('[');
    sharding.unflattened = dimensions(']');
    check_bytes(start, sharding.unflattened, nullptr);
    return sharding;
  }

  Placement placement() {
    const std::size_t start = pos_;
    if (take_word("sum")) return kPartialSum;
    if (take_word("max")) return kPartialMax;
    if (take_word("local")) return kLocal;
    const bool is_inner = take_word("inner");
    const std::int64_t dim = integer();
    if (dim < 0 || dim >= static_cast<std::int64_t>(kMaxDims))
      fail(start, "bad dimension", fmt::format("less than {}", kMaxDims));
    return is_inner ? inner(static_cast<int>(dim)) : ir::sharded(static_cast<int>(dim));
  }

  // Ends the current segment, and begins another one if requested.
  void segment(bool begins) {
    const auto next = static_cast<std::int32_t>(graph_.nodes.size());
    if (in_segment_) graph_.segments.back().end = next;
    if (begins) graph_.segments.push_back({next, next});
    in_segment_ = begins;
  }

  void input(InputKind kind) {
    skip_spaces();
    const std::size_t start = pos_;
    if (!graph_.nodes.empty()) fail(start, "an input after a node", "all inputs before the first node");
    Input input{.name = {}, .kind = kind, .value = definition()};
    input.name = name("the name of the input");
    const int index = static_cast<int>(graph_.inputs.size());
    if (!inputs_.emplace(input.name, index).second)
      fail(start, fmt::format("input \"{}\" is defined a second time", input.name), "unique input names");
    if (kind == InputKind::parameter && take_word("bucket")) input.bucket = name("the name of the bucket");
    if (take_word("on")) input.sharding = sharding();
    graph_.inputs.push_back(std::move(input));
    end_of_line();
  }

  void place(Phase phase) {
    phase_ = phase;
    module_.clear();
    if (!at_end_of_line()) module_ = name("a module path");
    end_of_line();
  }

  void node() {
    std::vector<ValueId> results;
    // Results are defined only after the operands are read: a node cannot read its own results.
    do {
      results.push_back(definition());
      defined_[results.back()] = kPending;
      Value& value = graph_.value(results.back());
      for (;;) {
        if (take_word("views")) {
          value.views = use();
        } else if (take_word("writes")) {
          value.writes = use();
        } else {
          break;
        }
      }
    } while (take(','));
    expect('=');
    const std::string op = name("an op");
    if (peek() != '(') fail(pos_, fmt::format("no arguments after {}", op), "'('");
    call(op, std::move(results));
  }

  void call(const std::string& op, std::vector<ValueId> results) {
    Node node{.op = op, .args = {}, .results = {}, .phase = phase_, .module = module_, .origin = {}};
    expect('(');
    if (!take(')')) {
      do node.args.push_back(argument());
      while (take(','));
      expect(')');
    }
    if (take_word("by")) node.origin = name("the name of a pass");
    end_of_line();
    for (ValueId id : results) defined_[id] = kDefined;
    node.results = std::move(results);
    graph_.nodes.push_back(std::move(node));
  }

  void returns() {
    returned_ = true;
    Node node{.op = std::string(kReturn),
              .args = {},
              .results = {},
              .phase = phase_,
              .module = module_,
              .origin = {}};
    if (take_word("by")) node.origin = name("the name of a pass");
    end_of_line();
    while (skip_empty_lines(), pos_ < text_.size()) {
      Output output{.name = name("the name of an output"), .updates = -1};
      expect('=');
      node.args.emplace_back(Use{use()});
      if (take_arrow()) output.updates = updated_input();
      end_of_line();
      graph_.outputs.push_back(std::move(output));
    }
    graph_.nodes.push_back(std::move(node));
  }

  int updated_input() {
    const std::size_t start = pos_;
    const std::string word = name("the name of an input");
    const auto input = inputs_.find(word);
    if (input != inputs_.end()) return input->second;
    fail(start, fmt::format("there is no input \"{}\"", word), "the name of an input of this graph");
  }

  std::unordered_map<std::string, int> inputs_;
  Phase phase_ = Phase::forward;
  std::string module_;
  bool in_segment_ = false;
  bool returned_ = false;
};

}  // namespace

Graph parse(std::string_view text, std::string_view file_name) { return Parser(text, file_name).graph(); }

}  // namespace rondo::ir
