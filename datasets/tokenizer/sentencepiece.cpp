// SentencePiece has no list of merges: neighbours merge whose text together is a piece, the highest
// score first, the leftmost of equal ones. Here each way to write a piece as two symbols is a merge
// with the rank of the piece's score. A symbol is a piece or a single character. A character that
// is no piece has no id and cannot merge, so a piece that it would be part of is refused. There is
// one exception: with byte_fallback an ASCII character is its byte's piece.
//
// USER_DEFINED pieces are found in normalized text before anything merges: they are added tokens.
#include "datasets/tokenizer/sentencepiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>

#include "datasets/tokenizer/protobuf.h"
#include "datasets/tokenizer/split/pattern.h"
#include "support/printable.h"
#include "support/utf8.h"

namespace rondo {
namespace {

constexpr std::string_view kSpace = "\u2581";

enum PieceType : std::uint64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct Piece {
  std::string text;
  float score = 0;
  std::uint64_t type = kNormal;
};

// The fields of the model that decide ids, with their defaults.
struct Model {
  std::vector<Piece> pieces;
  std::uint64_t model_type = 1;
  bool byte_fallback = false, space_is_suffix = false;
  std::string bos = "<s>", eos = "</s>";
  std::string normalizer;
  bool has_character_map = false;
  bool adds_space = true, removes_spaces = true, escapes_spaces = true;
};

Piece read_piece(std::string_view message) {
  Piece piece;
  ProtobufFields field(message);
  while (field.next()) {
    if (field.number() == 1) piece.text = field.bytes();
    if (field.number() == 2) piece.score = field.real();
    if (field.number() == 3) piece.type = field.integer();
  }
  return piece;
}

void read_trainer(std::string_view message, Model& model) {
  ProtobufFields field(message);
  while (field.next()) {
    if (field.number() == 3) model.model_type = field.integer();
    if (field.number() == 24) model.space_is_suffix = field.integer() != 0;
    if (field.number() == 35) model.byte_fallback = field.integer() != 0;
    if (field.number() == 46) model.bos = field.bytes();
    if (field.number() == 47) model.eos = field.bytes();
  }
}

void read_normalizer(std::string_view message, Model& model) {
  ProtobufFields field(message);
  while (field.next()) {
    if (field.number() == 1) model.normalizer = field.bytes();
    if (field.number() == 2) model.has_character_map = !field.bytes().empty();
    if (field.number() == 3) model.adds_space = field.integer() != 0;
    if (field.number() == 4) model.removes_spaces = field.integer() != 0;
    if (field.number() == 5) model.escapes_spaces = field.integer() != 0;
  }
}

Model read(std::string_view bytes) {
  Model model;
  ProtobufFields field(bytes);
  while (field.next()) {
    if (field.number() == 1) model.pieces.push_back(read_piece(field.bytes()));
    if (field.number() == 2) read_trainer(field.bytes(), model);
    if (field.number() == 3) read_normalizer(field.bytes(), model);
  }
  return model;
}

std::string type_name(std::uint64_t type) {
  constexpr std::array<const char*, 5> kNames = {"", "UNIGRAM", "BPE", "WORD", "CHAR"};
  return type < kNames.size() ? kNames[type] : std::to_string(type);
}

void check(const Model& model, std::vector<std::string>& problems) {
  if (model.model_type != 2)
    problems.push_back(fmt::format("trainer_spec.model_type = {}: is not supported; the model must be BPE",
                                   type_name(model.model_type)));
  if (model.space_is_suffix)
    problems.push_back("trainer_spec.treat_whitespace_as_suffix = true: is not supported");
  if (model.has_character_map)
    problems.push_back(fmt::format(
        "normalizer_spec.name = \"{}\": is a normalizer that is not supported; it must be identity. A "
        "tokenizer.json that transformers makes of the model may be read",
        printable(model.normalizer)));
}

bool is_one_character(std::string_view text) { return utf8_length(text) == text.size(); }

// Adds the pieces of a model to a TokenizerFile.
class Builder {
 public:
  Builder(const Model& model, TokenizerFile& file, std::vector<std::string>& problems)
      : model_(model), file_(file), problems_(problems) {}

  Vocabulary run() {
    file_.model.byte_ids.fill(-1);
    characters_.fuse_unknown = true;
    characters_.byte_fallback = model_.byte_fallback;
    for (std::size_t id = 0; id < model_.pieces.size() && may_go_on(); ++id)
      add(model_.pieces[id], static_cast<std::int32_t>(id));
    check_all();
    if (problems_.empty()) add_merges();
    if (problems_.empty()) add_steps();
    file_.adds_space = model_.adds_space;
    file_.model.characters = std::move(characters_);
    return std::move(ids_);
  }

 private:
  bool may_go_on() const { return problems_.size() < kMaxProblems; }
  void refuse(std::int32_t id, const std::string& why) {
    problems_.push_back(
        fmt::format("pieces[{}] = \"{}\": {}", id, printable(model_.pieces[id].text.substr(0, 100)), why));
  }

  void add(const Piece& piece, std::int32_t id) {
    const std::string& text = piece.text;
    if (text.empty() || !is_valid_utf8(text)) return refuse(id, "must be UTF-8 and not empty");
    if (id > kMaxId) return refuse(id, fmt::format("there are more than {} pieces", kMaxId + 1));
    if (!std::isfinite(piece.score)) return refuse(id, "its score must be finite");
    if (!claim_token(id, text, bytes_of(piece), file_, ids_)) return refuse(id, "is a piece already");
    if (piece.type < kNormal || piece.type > kByte) return refuse(id, "has an unknown type");
    if (piece.type == kByte) return add_byte(text, id);
    if (piece.type == kUnknown) {
      if (characters_.unknown) return refuse(id, "another piece has the type UNKNOWN");
      characters_.unknown = id;
      return;
    }
    if (piece.type == kUserDefined)
      file_.added_tokens.push_back(
          {.content = text, .pattern = text, .id = id, .normalized = true, .rules = {}});
    else if (is_one_character(text))
      characters_.ids.emplace(text, id);
    if (piece.type == kNormal || piece.type == kUnused) mergeable_.emplace(text, id);
  }

  void add_byte(const std::string& text, std::int32_t id) {
    const std::string bytes = bytes_of(model_.pieces[id]);
    const auto value = static_cast<unsigned char>(bytes.front());
    if (text != fmt::format("<0x{:02X}>", value))
      return refuse(id, "has the type BYTE, so it must be <0x00> to <0xFF>");
    file_.model.byte_ids[value] = id;
    if (value < 0x80) byte_characters_.emplace(bytes, id);
  }

  std::string bytes_of(const Piece& piece) const {
    if (piece.type == kByte && piece.text.size() == 6)
      return std::string(1, static_cast<char>(std::strtol(piece.text.c_str() + 3, nullptr, 16)));
    std::string bytes;
    for (std::size_t i = 0; i < piece.text.size();) {
      const bool is_space = piece.text.compare(i, kSpace.size(), kSpace) == 0;
      bytes += is_space ? ' ' : piece.text[i];
      i += is_space ? kSpace.size() : 1;
    }
    return bytes;
  }

  void check_all() {
    const bool has_bytes = std::count(file_.model.byte_ids.begin(), file_.model.byte_ids.end(), -1) == 0;
    if (model_.byte_fallback && !has_bytes && may_go_on())
      problems_.push_back("trainer_spec.byte_fallback = true: there are not all 256 pieces of the type BYTE");
    if (!model_.byte_fallback && !byte_characters_.empty())
      problems_.push_back("trainer_spec.byte_fallback = false: there are pieces of the type BYTE");
    if (!characters_.unknown) problems_.push_back("no piece has the type UNKNOWN");
    // An ASCII character without a piece is its byte, alone and in merges.
    for (const auto& [text, id] : byte_characters_)
      if (!ids_.contains(text)) characters_.ids.emplace(text, id);
  }

  std::optional<std::int32_t> symbol(std::string_view text) const {
    const std::string key(text);
    if (is_one_character(text)) {
      const auto it = characters_.ids.find(key);
      return it == characters_.ids.end() ? std::nullopt : std::optional(it->second);
    }
    const auto it = mergeable_.find(key);
    return it == mergeable_.end() ? std::nullopt : std::optional(it->second);
  }

  // Every character is a symbol, except for those that are found before anything merges.
  bool may_be_symbol(std::string_view text) const {
    const auto piece = ids_.find(std::string(text));
    return is_one_character(text) &&
           (piece == ids_.end() || model_.pieces[piece->second].type != kUserDefined);
  }

  void add_merges_of(const std::string& text, std::int32_t id) {
    if (text.size() > kMaxTokenBytes)
      return refuse(id, fmt::format("is longer than {} bytes", kMaxTokenBytes));
    for (std::size_t i = utf8_length(text); i < text.size();
         i += utf8_length(std::string_view(text).substr(i))) {
      const std::string_view left = std::string_view(text).substr(0, i),
                             right = std::string_view(text).substr(i);
      const auto first = symbol(left), second = symbol(right);
      if ((!first && !may_be_symbol(left)) || (!second && !may_be_symbol(right))) continue;
      if (!first || !second)
        return refuse(id, fmt::format("the character \"{}\" is not a piece; this is not supported",
                                      first ? right : left));
      file_.model.merges.push_back({*first, *second, id});
    }
  }

  void add_merges() {
    std::set<float, std::greater<>> scores;
    for (const auto& [text, id] : mergeable_) scores.insert(model_.pieces[id].score);
    std::map<float, std::uint32_t> ranks;
    for (const float score : scores) ranks.emplace(score, static_cast<std::uint32_t>(ranks.size()));
    file_.model.token_ranks.resize(model_.pieces.size());
    for (const auto& [text, id] : mergeable_) {
      if (!may_go_on()) return;
      const std::size_t before = file_.model.merges.size();
      file_.model.token_ranks[id] = ranks.at(model_.pieces[id].score);
      add_merges_of(text, id);
      if (model_.pieces[id].type == kUnused && file_.model.merges.size() > before)
        refuse(id, "has the type UNUSED, and other pieces merge to it; this is not supported");
    }
  }

  void add_step(NormalizerStep step) {
    step.place = "normalizer_spec";
    file_.normalizer.push_back(std::move(step));
  }
  void replace(const char* pattern, std::string_view content) {
    add_step({.kind = NormalizerStep::Kind::replace,
              .content = std::string(content),
              .pattern = pattern,
              .meaning = fmt::format("Replace {} Regex {}", content, pattern)});
  }

  // The order of SentencePiece's Normalizer::Normalize: a text of spaces only becomes empty, and a
  // mark of a space at its end is removed, too.
  void add_steps() {
    const std::string_view space = model_.escapes_spaces ? kSpace : " ";
    if (model_.removes_spaces) {
      replace("\\A +", "");
      replace(" {2,}", " ");
    }
    if (model_.escapes_spaces)
      add_step({.kind = NormalizerStep::Kind::replace,
                .content = std::string(kSpace),
                .pattern = pcre2_literal(" "),
                .meaning = fmt::format("Replace {} String  ", kSpace)});
    if (model_.removes_spaces)
      replace(model_.escapes_spaces ? "(?<!\\x{2581})\\x{2581}+\\z" : "(?<! ) +\\z", "");
    if (model_.adds_space)
      add_step({.kind = NormalizerStep::Kind::prepend,
                .content = std::string(space),
                .meaning = fmt::format("Prepend {}", space)});
  }

  const Model& model_;
  TokenizerFile& file_;
  std::vector<std::string>& problems_;
  Vocabulary ids_, byte_characters_;
  std::map<std::string, std::int32_t> mergeable_;  // of the types NORMAL and UNUSED
  BpeCharacters characters_;
};

std::string control_piece(const Model& model, const std::string& text) {
  const bool exists = std::any_of(model.pieces.begin(), model.pieces.end(), [&](const Piece& piece) {
    return piece.type == kControl && piece.text == text;
  });
  return exists ? text : "";
}

}  // namespace

bool is_sentencepiece(std::string_view bytes) {
  // The tag of the first piece. Scores of 0 are four bytes 0, which no text has.
  return bytes.starts_with('\n') && bytes.find('\0') != bytes.npos;
}

Vocabulary read_sentencepiece(std::string_view bytes, TokenizerFile& file, FormatEnds& ends,
                              std::vector<std::string>& problems) {
  Model model;
  try {
    model = read(bytes);
  } catch (const Error& error) {
    problems.push_back(fmt::format("is not a model of SentencePiece: {}", error.what()));
    return {};
  }
  check(model, problems);
  Vocabulary ids;
  if (problems.empty()) ids = Builder(model, file, problems).run();
  for (const auto& [id, token] : configured_tokens(file, problems)) claim_token(id, token, token, file, ids);
  ends = {.bos = control_piece(model, model.bos), .eos = control_piece(model, model.eos)};
  return ids;
}

}  // namespace rondo
