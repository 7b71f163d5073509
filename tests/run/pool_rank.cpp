// One rank of tests/run/rank_pool.h: reads a run from its socket, plays it, answers with its exit code.
// Rank 0 keeps one listening socket for the stores of all runs.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "apps/exit_code.h"
#include "apps/worker_commands.h"
#include "parallel/rendezvous/net.h"

namespace rondo {
namespace {

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), /*overwrite=*/1); }

void redirect_output(const std::string& file) {
  const launch::Fd fd(open(file.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644));
  RONDO_ASSERT(fd && dup2(fd.get(), STDOUT_FILENO) >= 0 && dup2(fd.get(), STDERR_FILENO) >= 0,
               "the file for a rank's output cannot be opened: " + file);
}

int serve(int socket) {
  int problem = 0;
  const launch::Listener listener = launch::bind_to("127.0.0.1", 0, /*listening=*/true, problem);
  const auto say = [&](const nlohmann::json& words) {
    const std::string text = words.dump();
    return send(socket, text.data(), text.size(), MSG_NOSIGNAL) == std::ssize(text);
  };
  if (!say({{"port", listener.port}})) return 1;
  std::string text(1 << 16, '\0');
  for (ssize_t size; (size = recv(socket, text.data(), text.size(), 0)) > 0;) {
    const nlohmann::json run = nlohmann::json::parse(text.substr(0, static_cast<std::size_t>(size)));
    redirect_output(run.at("output"));
    set("MASTER_PORT", run.at("port"));
    set("TORCHELASTIC_RUN_ID", run.at("id"));
    set("RONDO_MASTER_LISTEN_FD", std::to_string(dup(listener.fd.get())));  // the store closes its copy
    const std::vector<std::string> flags = run.at("flags");
    const int code = exit_code_of([&] { return run_train(flags, flags); });
    std::fflush(nullptr);
    if (!say({{"exit_code", code}})) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace rondo

int main(int, char** argv) { return rondo::serve(std::atoi(argv[1])); }
