// Text of a PTX module to kernels, and of a kernel to instructions.
//
// Literals, addresses of variables and special registers become slots as registers do, so that an
// operation sees only slots. A line of nvcc's text has at most one statement.
#include <algorithm>
#include <charconv>

#include "tests/ptx/registers.h"

namespace rondo::ptx {
namespace {

constexpr std::string_view kBlank = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// Removes and returns the text up to the first of `ends`, which it removes, too.
std::string_view take(std::string_view& text, std::string_view ends) {
  const std::size_t end = std::min(text.find_first_of(ends), text.size());
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return head;
}

std::vector<std::string_view> words_of(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  while (!text.empty())
    if (const std::string_view word = take(text, separators); !word.empty()) words.push_back(word);
  return words;
}

std::int64_t integer(std::string_view text) {
  const bool negative = text.starts_with('-'), hex = text.find("0x") != std::string_view::npos;
  text.remove_prefix((negative ? 1u : 0u) + (hex ? 2u : 0u));
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error != std::errc() || !(rest.empty() || rest == "U")) throw std::runtime_error("not a number");
  return static_cast<std::int64_t>(negative ? -value : value);
}
std::uint64_t literal(std::string_view text) {
  if (!text.starts_with("0f") && !text.starts_with("0d")) return static_cast<std::uint64_t>(integer(text));
  std::uint64_t bits = 0;
  std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
  return bits;
}

// A variable: ".param .align 8 .b8 name[24]".
struct Variable {
  std::string_view name;
  std::size_t bytes = 0, alignment = 0;
};
Variable variable(std::string_view declaration) {
  Variable v;
  std::size_t element = 0, count = 1;
  const auto words = words_of(declaration, " \t,;[]");
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == ".align")
      v.alignment = static_cast<std::size_t>(integer(words[++i]));
    else if (word.starts_with('.') && std::isdigit(word.back()))
      element = static_cast<std::size_t>(integer(word.substr(2))) / 8;
    else if (!word.starts_with('.') && v.name.empty())
      v.name = word;
    else if (!word.starts_with('.'))
      count = static_cast<std::size_t>(integer(word));
  }
  v.bytes = element * count;
  v.alignment = std::max(v.alignment, element);
  return v;
}
// Returns the offset of a variable that is appended to `size` bytes.
std::size_t append(const Variable& v, std::size_t& size) {
  const std::size_t offset = (size + v.alignment - 1) / v.alignment * v.alignment;
  size = offset + v.bytes;
  return offset;
}

class Decoder {
 public:
  Kernel decode(std::string_view text) {
    while (!text.empty()) {
      std::string_view line = take(text, "\n");
      line = trimmed(line.substr(0, line.find("//")));
      try {
        read(line);
      } catch (const std::exception& e) {
        throw std::runtime_error("ptx: " + kernel_.name + ": `" + std::string(line) + "`: " + e.what());
      }
    }
    for (const auto& [instruction, label] : branches_) {
      const auto it = labels_.find(label);
      if (it == labels_.end()) throw std::runtime_error("ptx: no label " + std::string(label));
      kernel_.code[instruction].target = it->second;
    }
    return std::move(kernel_);
  }

 private:
  void read(std::string_view line) {
    if (line.starts_with(".entry")) {
      line.remove_prefix(6);
      line = trimmed(line);
      kernel_.name = trimmed(take(line, "("));
      if (line.find(".param") == std::string_view::npos) return;
    }
    if (line.starts_with(".param")) {
      const Variable v = variable(line.substr(0, line.find(')')));
      symbols_[v.name] = append(v, kernel_.argument_bytes);
      kernel_.parameters.push_back(symbols_[v.name]);
      kernel_.parameter_bytes.push_back(v.bytes);
      return;
    }
    // A scope of inline assembly may stand in one line with its statement: "{ cvt.f32.bf16 %f1,
    // %rs1;}".
    if (line.starts_with('{')) line = trimmed(line.substr(1));
    if (line.ends_with('}') && line.find(';') != std::string_view::npos &&
        line.find_last_of('}') > line.find(';'))
      line = trimmed(line.substr(0, line.find(';') + 1));
    if (line.starts_with(".reg"))
      read_registers(line);
    else if (line.starts_with(".shared"))
      add_symbol(line, kernel_.shared_bytes);
    else if (line.starts_with(".local"))
      add_symbol(line, kernel_.local_bytes);
    else if (line.ends_with(':'))
      labels_[line.substr(0, line.size() - 1)] = static_cast<int>(kernel_.code.size());
    else if (line.ends_with(';') && !line.starts_with('.'))
      read_statement(line.substr(0, line.size() - 1));
    else if (!line.empty() && !line.starts_with('.') && line != "}" && line != ")")
      throw std::runtime_error("not a statement");
  }

  void add_symbol(std::string_view line, std::size_t& size) {
    const Variable v = variable(line);
    symbols_[v.name] = append(v, size);
  }

  // ".reg .pred %p<7>;": the names %p0 to %p6.
  void read_registers(std::string_view line) {
    const auto words = words_of(line, " \t,;<>");
    if (words[1] == ".pred") predicate_prefixes_.push_back(words[2]);
  }
  bool is_predicate(std::string_view name) const {
    name = name.substr(0, name.find_last_not_of("0123456789") + 1);
    return std::find(predicate_prefixes_.begin(), predicate_prefixes_.end(), name) !=
           predicate_prefixes_.end();
  }

  int slot_of(std::string_view name) {
    const auto [it, is_new] = slots_.try_emplace(name, 0);
    if (!is_new) return it->second;
    if (is_predicate(name)) return it->second = kernel_.predicates++;
    const int slot = it->second = kernel_.values++;
    if (name.find('.') != std::string_view::npos || name == "%laneid")
      kernel_.special_registers.emplace(name, slot);
    else if (const auto symbol = symbols_.find(name); symbol != symbols_.end())
      kernel_.constants.push_back({slot, symbol->second});
    else if (!name.starts_with('%'))
      kernel_.constants.push_back({slot, literal(name)});
    return slot;
  }

  void read_statement(std::string_view statement) {
    Instruction to;
    to.text = statement;
    if (statement.starts_with('@')) {
      statement.remove_prefix(1);
      to.guard_negated = statement.starts_with('!');
      if (to.guard_negated) statement.remove_prefix(1);
      to.guard = slot_of(take(statement, kBlank));
    }
    statement = trimmed(statement);
    std::string opcode(take(statement, kBlank));
    statement = trimmed(statement);
    ++*count_of(opcode);
    if (opcode == "bra" || opcode == "bra.uni") {
      to.kind = Kind::branch;
      branches_.emplace_back(kernel_.code.size(), statement);
    } else if (opcode == "ret" || opcode == "exit") {
      to.kind = Kind::leave;
    } else if (opcode == "bar.sync") {
      to.kind = Kind::barrier;
    } else {
      if (opcode.find(".sync") != std::string::npos) to.kind = Kind::exchange;
      read_operands(to, statement);
      if (opcode.starts_with("mov.") && statement.find('{') != std::string_view::npos)
        opcode += statement.starts_with('{') ? ".unpack" : ".pack";
      to.run = opcode.starts_with("ld.") || opcode.starts_with("st.") ? memory_operation_of(opcode)
                                                                      : operation_of(opcode);
      const bool is_access = opcode.starts_with("ld.global") || opcode.starts_with("st.global");
      if (is_access) to.global_bytes = bytes_of(opcode);
      to.is_move = opcode.starts_with("mov.") || opcode.starts_with("cvta.");
      if (to.run == nullptr) throw std::runtime_error("no such operation");
    }
    kernel_.code.push_back(to);
  }
  // Returns the bytes of "ld.global.v4.b32".
  static int bytes_of(std::string_view opcode) {
    const std::size_t vector = opcode.find(".v");
    const std::string_view bits = opcode.substr(opcode.rfind('.') + 2);
    return std::stoi(std::string(bits)) / 8 *
           (vector == std::string_view::npos ? 1 : opcode[vector + 2] - '0');
  }
  int* count_of(const std::string& opcode) { return &kernel_.opcodes[opcode]; }

  void read_operands(Instruction& to, std::string_view operands) {
    std::size_t count = 0;
    for (std::string_view word : words_of(operands, " \t,{}|")) {
      if (count == to.slots.size()) throw std::runtime_error("too many operands");
      if (word.starts_with('[')) {
        word = word.substr(1, word.size() - 2);
        const std::string_view base = take(word, "+");
        if (!word.empty()) to.displacement = integer(word);
        word = base;
      }
      to.slots[count++] = slot_of(word);
    }
  }

  Kernel kernel_;
  std::map<std::string_view, int> slots_, labels_;
  std::map<std::string_view, std::size_t> symbols_;
  std::vector<std::string_view> predicate_prefixes_;
  std::vector<std::pair<std::size_t, std::string_view>> branches_;
};

}  // namespace

std::map<std::string, std::string, std::less<>> kernels_of(std::string_view module) {
  std::map<std::string, std::string, std::less<>> kernels;
  std::size_t begin = module.find(".entry");
  std::string variables;  // shared memory that is declared before the first kernel, for any of them
  for (const std::string_view line : words_of(module.substr(0, begin), "\n"))
    if (line.starts_with(".shared")) variables.append(line).append("\n");
  while (begin != std::string_view::npos) {
    const std::size_t next = module.find(".entry", begin + 1);
    const std::string_view text = module.substr(begin, next - begin);
    const std::string_view name = text.substr(6, text.find('(') - 6);
    kernels.emplace(trimmed(name), variables + std::string(text));
    begin = next;
  }
  return kernels;
}

Kernel decode(std::string_view text) { return Decoder().decode(text); }

Operation operation_of(const std::string& opcode) {
  static const Table table = [] {
    Table all;
    add_integers(all);
    add_floats(all);
    add_exchanges(all);
    return all;
  }();
  return table.find(opcode);
}

}  // namespace rondo::ptx
