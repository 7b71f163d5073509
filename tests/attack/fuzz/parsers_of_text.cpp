// Parsers of texts in memory: graphs, manifests, headers, what comes over a socket, flags and
// variables. What an accepted input promises is checked here, too: what was read is written and
// read again, and sizes hold.
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "apps/worker_options.h"
#include "checkpoint/hugging_face/config.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors/format.h"
#include "compiler/passes/pipeline.h"
#include "compiler/plan/memory_plan.h"
#include "compiler/plan/report/memory_report.h"
#include "compiler/text/text.h"
#include "compiler/verify/verify.h"
#include "config/derived/matmul_table.h"
#include "config/dump.h"
#include "config/load.h"
#include "datasets/documents/format.h"
#include "datasets/documents/jsonl.h"
#include "datasets/tokenizer/split/pattern.h"
#include "datasets/tokenizer/split/splitter.h"
#include "launch/options.h"
#include "launch/rendezvous/environment.h"
#include "launch/rendezvous/handshake.h"
#include "launch/rendezvous/hostlist.h"
#include "launch/rendezvous/messages.h"
#include "parallel/pipeline/csv.h"
#include "parallel/pipeline/lower.h"
#include "parallel/pipeline/prove.h"
#include "parallel/pipeline/schedules.h"
#include "support/utf8.h"
#include "tests/attack/fuzz/parsers.h"

namespace rondo::attack {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// --- graphs ---

// The inputs and results of the golden cases of passes.
std::vector<std::string> golden_graphs() {
  std::vector<std::string> graphs;
  for (const auto& entry :
       std::filesystem::directory_iterator(RONDO_SOURCE_DIR "/tests/compiler/passes/golden")) {
    std::ifstream file(entry.path());
    std::string graph;
    for (std::string line; std::getline(file, line);) {
      if (line != "----" && line != "====")
        graph += line + "\n";
      else
        graphs.push_back(std::exchange(graph, ""));
    }
    graphs.push_back(graph);
  }
  std::erase_if(graphs, [](const std::string& graph) { return graph.size() > 8000; });
  std::sort(graphs.begin(), graphs.end());
  return graphs;
}

CompileOptions options_of(std::uint64_t number) {
  CompileOptions options;
  options.device = number % 2 == 0 ? TargetDevice::cpu : TargetDevice::cuda;
  options.numerics = number / 2 % 2 == 0 ? Numerics::exact : Numerics::rounds;
  options.memory_policy = static_cast<MemoryPolicy>(number / 4 % 7);
  options.reshard_after_forward = static_cast<ReshardAfterForward>(number / 28 % 3);
  return options;
}

ir::Graph parsed(const std::string& text) {
  try {
    return ir::parse(text, "x.ir");
  } catch (const Error& error) {
    must(std::string_view(error.what()).starts_with("x.ir:"), "an error of the parser names its place");
    throw;
  }
}

void read_graph(const Input& input) {
  ir::Graph graph = parsed(input.text);
  const std::string printed = ir::print(graph);
  must(ir::print(ir::parse(printed, "again.ir")) == printed, "what is printed parses back");
  ir::verify(graph, "parse");
  const CompileOptions options = options_of(input.number);
  ir::run_pipeline(graph, options);
  print_lines(ir::report_memory(graph, ir::plan_memory(graph, ir::memory_needs(options.device))));
}

void read_compile_options(const Input& input) {
  CompileOptions options;
  for (const std::string& line : lines_of(input.text)) {
    const std::size_t equals = std::min(line.find('='), line.size());
    options.set(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
  }
  ir::choose_passes(ir::all_passes(), options);
}

// --- pipeline schedules ---

std::vector<std::string> csvs_of_schedules() {
  std::vector<std::string> csvs;
  for (const pipeline::Schedule& schedule : pipeline::schedules()) {
    const pipeline::Program program =
        pipeline::make_program(schedule, {2, schedule.default_stages_per_rank, 4});
    csvs.push_back(to_csv(program));
    csvs.push_back(to_csv(lower(program)));
  }
  return csvs;
}

void read_schedule(const Input& input) {
  namespace pp = pipeline;
  const auto [program, proof] = pp::lower_and_prove(pp::read_csv(input.text, "s.csv"));
  must(proof.events <= 2 * proof.actions, "a proof is linear");
  must(find_deadlock(program, pp::Buffers::unlimited).empty(), "what runs without buffers runs with them");
  must(pp::read_csv(to_csv(program), "again").ranks == program.ranks, "what is written reads back");
}

// --- flags and variables ---

void read_config_flags(const Input& input) {
  const JobConfig config = load_config(lines_of(input.text));
  must(!fingerprint(config).empty(), "a configuration has a fingerprint");
}

void read_launch_flags(const Input& input) { launch::parse_options(lines_of(input.text)); }
void read_plan_flags(const Input& input) { read_plan_options(lines_of(input.text)); }

void read_environment(const Input& input) {
  std::vector<std::string> names;
  for (const std::string& line : lines_of(input.text)) {
    const std::string name = line.substr(0, std::min(line.find('='), line.find('\0')));
    if (name.empty() || name.size() == line.size()) continue;
    setenv(name.c_str(), line.c_str() + name.size() + 1, 1);
    names.push_back(name);
  }
  struct Cleared {
    const std::vector<std::string>& names;
    ~Cleared() {
      for (const std::string& name : names) unsetenv(name.c_str());
    }
  } cleared{names};
  const RankEnvironment ranks = rank_environment();
  must(ranks.rank >= 0 && ranks.rank < ranks.world_size, "a rank is below the number of ranks");
  must(ranks.local_rank >= 0 && ranks.local_rank < ranks.local_world_size, "so is a local one");
}

void read_hosts(const Input& input) {
  for (const std::string& line : lines_of(input.text)) {
    if (line.starts_with('#')) {
      must(expand_counts(line.substr(1)).size() <= 65536, "a list of counts has a limit");
    } else {
      must(expand_hostlist(line).size() <= 65536, "a list of hosts has a limit");
    }
  }
}

void read_matmul_table(const Input& input) {
  const MatmulTable table = parse_matmul_table(input.text, "m.json");
  must(parse_matmul_table(to_text(table), "again") == table, "what is written reads back");
}

// --- checkpoints and weights ---

void read_manifest(const Input& input) {
  namespace cp = checkpoint;
  const cp::Manifest manifest = cp::parse_manifest(input.text, "manifest.json");
  for (std::int64_t shard = 0; shard < std::ssize(manifest.shards); ++shard) pieces_of(manifest, shard);
  const std::string text = to_text(manifest);
  must(to_text(cp::parse_manifest(text, "again")) == text, "what is written reads back");
}

void read_shard_record(const Input& input) {
  namespace cp = checkpoint;
  const cp::ShardRecord record = cp::parse_shard_record(input.text);
  must(cp::parse_shard_record(to_text(record)) == record, "what is written reads back");
  cp::Manifest manifest;
  manifest.add(record);
}

// A header behind its right length, and 42 bytes of tensors.
void read_safetensors(const Input& input) {
  std::string file(8, '\0');
  for (std::size_t byte = 0; byte < 8; ++byte)
    file[byte] = static_cast<char>(input.text.size() >> (8 * byte) & 0xff);
  file += input.text + std::string(42, 'd');
  const safetensors::Header header = safetensors::parse_header(std::as_bytes(std::span(file)), "w");
  std::uint64_t at = 0;
  for (const safetensors::TensorInfo& tensor : header.tensors) {
    must(tensor.begin == at && tensor.end >= at, "tensors follow each other");
    at = tensor.end;
  }
  must(at == 42 && header.data_begin == file.size() - 42, "and fill the file");
}

void read_hugging_face_config(const Input& input) {
  const hugging_face::ReadConfig read = hugging_face::parse_config(input.text, "config.json");
  must(!read.config.model.empty(), "a configuration names a model");
}

// --- text ---

void read_json_line(const Input& input) {
  try {
    const JsonText found = find_json_text(input.text);
    must(found.offset + found.stored <= input.text.size(), "a text lies in its line");
    std::string text;
    append_unescaped(std::string_view(input.text).substr(found.offset, found.stored), text);
    must(text.size() == found.bytes, "a text has the bytes that were counted");
  } catch (const JsonError& error) {
    must(error.column <= input.text.size() + 1, "an error stands in its line");
  }
}

// The first bytes of data files.
std::vector<std::string> heads_of_formats() {
  using namespace std::string_literals;
  std::vector<std::string> heads = {"{\"text\": \"a\"}\n{\"text\": null}\n",
                                    "{\"a\": [1, NaN, {}]}\n{\"b\": 2}\n",
                                    "[{\"a\": 1}, {}]",
                                    "{\n \"a\": 1\n}\n",
                                    "\xff\xfeh\0i\0"s,
                                    "h\0i\0"s,
                                    "PAR1\x15\0\x15\x10"s,
                                    "ARROW1\0\0"s,
                                    "\xff\xff\xff\xff\x88\2\0\0\x10"s,
                                    "\x93NUMPY\1\0"s,
                                    "BZh91AY&SY",
                                    "rondo corpus 1\n1 a\n\nb"};
  heads.push_back(std::string(257, 'a') + "ustar");
  return heads;
}

void read_head_of_data(const Input& input) {
  static constexpr const char* kNames[] = {"a", "a.jsonl", "a.JSON", "a.csv", "a.bin"};
  for (const bool whole : {false, true}) {
    const FileFormat format = recognise_head(input.text, whole, kNames[input.number % 5], "text");
    must(format != FileFormat::unknown, "every file has a format");
    try {
      if (!is_read(format)) refuse("d/a.bin", {format, whole}, "text");
    } catch (const Error& error) {
      must(std::string_view(error.what()).find(name_of(format)) != std::string_view::npos,
           "a refusal names it");
    }
  }
}

// A pattern of a tokenizer.json, then text for it.
void read_pattern(const Input& input) {
  const std::size_t newline = std::min(input.text.find('\n'), input.text.size());
  const std::string pattern = input.text.substr(0, newline);
  std::string text = input.text.substr(newline);
  text.resize(std::min<std::size_t>(text.size(), 4000));  // how long a pattern may take is PCRE2's to bound
  text.resize(valid_utf8_prefix(text));
  if (!is_valid_utf8(pattern)) return;
  const Splitter splitter({SplitStage{.pattern = pcre2_pattern(pattern, "x"), .place = "x"}});
  RegexScratch scratch;
  std::size_t bytes = 0;
  splitter.split(text, /*is_first=*/true, scratch, [&](std::span<const std::string_view> words) {
    for (const std::string_view word : words) bytes += word.size();
  });
  must(bytes == text.size(), "words are the text");
}

// --- what comes over a socket ---

struct SocketPair {
  SocketPair() {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) != 0)
      throw std::logic_error("no socket pair");
    ours = launch::Fd(fds[0]), theirs = launch::Fd(fds[1]);
  }
  launch::Fd ours, theirs;
};

std::string framed(const std::string& body) {
  std::string text = "RLP1";
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(body.size() >> shift & 0xff);
  return text + body;
}

// Bytes as they are where they begin as a frame; else each line in a frame of its own.
void read_messages(const Input& input) {
  std::string bytes = input.text;
  if (!bytes.starts_with("RLP")) {
    bytes.clear();
    for (const std::string& line : lines_of(input.text)) bytes += framed(line);
  }
  SocketPair ends;
  launch::Channel channel(std::move(ends.ours));
  for (std::size_t sent = 0; !channel.closed();) {
    const ssize_t now = send(ends.theirs.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now > 0) sent += static_cast<std::size_t>(now);
    if (sent == bytes.size()) ends.theirs.reset();
    for (const launch::Json& message : channel.receive()) {
      must(message.is_object(), "a message is an object");
      launch::to_join(message), launch::to_start(message), launch::to_ended(message),
          launch::to_finish(message);
      launch::integer_field(message, "signal", 1, 64);
      must(launch::text_field(message, "reason", 500).size() <= 4 * 500, "a text has a limit");
    }
  }
}

void read_handshake(const Input& input) {
  using launch::Handshake;
  for (const Handshake::Side side : {Handshake::Side::node, Handshake::Side::node_0}) {
    SocketPair ends;
    Handshake handshake(side, "secret");
    Handshake::State state = handshake.go_on(ends.ours.get());
    if (send(ends.theirs.get(), input.text.data(), input.text.size(), MSG_NOSIGNAL) < 0) return;
    ends.theirs.reset();
    for (int calls = 0; calls < 5 && state == Handshake::State::going_on; ++calls)
      state = handshake.go_on(ends.ours.get());
    must(state == Handshake::State::failed, "no stranger proves anything");
  }
}

}  // namespace

std::vector<Parser> parsers_of_text() {
  using enum ExitCode;
  return {
      {.name = "graph", .refusals = {graph, config}, .read = read_graph, .made = golden_graphs},
      {.name = "schedule", .refusals = {config}, .read = read_schedule, .made = csvs_of_schedules},
      {.name = "compile_options", .refusals = {config}, .read = read_compile_options},
      {.name = "config_flags", .cost = 10, .refusals = {config}, .read = read_config_flags},
      {.name = "launch_flags", .cost = 4, .refusals = {usage, environment}, .read = read_launch_flags},
      {.name = "plan_flags", .cost = 10, .refusals = {usage, config}, .read = read_plan_flags},
      {.name = "environment", .refusals = {environment}, .read = read_environment},
      {.name = "hosts", .refusals = {environment}, .read = read_hosts},
      {.name = "matmul_table", .refusals = {config}, .read = read_matmul_table},
      {.name = "manifest", .refusals = {checkpoint}, .read = read_manifest},
      {.name = "shard_record", .refusals = {checkpoint}, .read = read_shard_record},
      {.name = "safetensors", .refusals = {checkpoint}, .read = read_safetensors},
      {.name = "hf_config", .refusals = {checkpoint}, .read = read_hugging_face_config},
      {.name = "json_line", .refusals = {}, .read = read_json_line},
      {.name = "data_head", .refusals = {}, .read = read_head_of_data, .made = heads_of_formats},
      {.name = "pattern", .cost = 5, .refusals = {data}, .read = read_pattern},
      {.name = "messages", .refusals = {}, .read = read_messages},
      {.name = "handshake", .refusals = {}, .read = read_handshake},
  };
}

}  // namespace rondo::attack
