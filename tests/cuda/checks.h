// Reports the cases of the programs of scripts/gpu_check.sh: one line of JSON per case, written
// when the case is done.
//   {"case":"...","status":"ok|failed|skipped","seconds":0.1,"figures":{...},"message":"..."}
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace rondo {

using Figures = std::map<std::string, nlohmann::json>;

// Thrown, with the reason, by a case that cannot run.
struct NotTried : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

class Checks {
 public:
  // `run` returns its measurements, throws NotTried, or throws the failure. Only the first line of
  // a message is reported.
  void run(const std::string& name, const std::function<Figures()>& run) {
    const auto began = std::chrono::steady_clock::now();
    nlohmann::ordered_json line = {{"case", name}, {"status", "ok"}};
    Figures figures;
    std::string message;
    try {
      figures = run();
    } catch (const NotTried& why) {
      line["status"] = "skipped";
      message = why.what();
    } catch (const std::exception& error) {
      line["status"] = "failed";
      message = error.what();
      failed_ = true;
    }
    line["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    line["figures"] = figures;
    line["message"] = message.substr(0, message.find('\n'));
    std::printf("%s\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    std::fflush(stdout);
  }
  int exit_code() const { return failed_ ? 1 : 0; }

 private:
  bool failed_ = false;
};

// Parses `--device=cpu` or `--device=cuda`, and `--group=NAME` for some of the cases. Throws for
// any other word.
struct CheckWords {
  c10::Device device = c10::kCPU;
  std::string group;  // "": all groups except those that only measure time
};
inline CheckWords check_words(int argc, char** argv) {
  CheckWords words;
  bool has_device = false;
  for (const std::string& word : std::vector<std::string>(argv + 1, argv + argc)) {
    if (word == "--device=cuda") words.device = {c10::kCUDA, 0};
    if (word.starts_with("--group=")) words.group = word.substr(8);
    if (word.starts_with("--device=c")) has_device = true;
    if (word != "--device=cpu" && word != "--device=cuda" && !word.starts_with("--group="))
      throw std::runtime_error("unknown word " + word);
  }
  if (!has_device) throw std::runtime_error("--device=cpu or --device=cuda is missing");
  return words;
}

}  // namespace rondo
