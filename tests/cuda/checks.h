// What the programs of scripts/gpu_check.sh tell of their cases: a line of JSON each, as soon as a case is
// done.
//   {"case":"...","status":"ok|failed|skipped","seconds":0.1,"figures":{...},"message":"..."}
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace rondo {

using Figures = std::map<std::string, nlohmann::json>;

// Thrown by a case that cannot be tried, with why.
struct NotTried : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

class Checks {
 public:
  // `run` returns what it measured, throws NotTried, or throws what is wrong. A message ends at its first
  // line.
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

// `--device=cpu` or `--device=cuda`: the one argument of these programs. Throws where it is another.
inline c10::Device checked_device(int argc, char** argv) {
  const std::string word = argc == 2 ? argv[1] : "";
  if (word == "--device=cpu") return {c10::kCPU};
  if (word == "--device=cuda") return {c10::kCUDA, 0};
  throw std::runtime_error("the one argument is --device=cpu or --device=cuda");
}

}  // namespace rondo
