#include "trainer/resume/run_identity.h"

#include <cctype>
#include <utility>

#include "config/dump.h"
#include "config/sizes.h"

namespace rondo {
namespace {

// Returns a name that is valid in a manifest and as a folder's name.
std::string plain_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '-';
  return name.empty() ? "run" : name.substr(0, 64);
}

}  // namespace

RunIdentity identity_of(const JobConfig& c, const Layout& layout, const RankEnvironment& environment,
                        std::vector<std::string> settings) {
  RunIdentity identity;
  identity.run = plain_name(environment.run_id);
  identity.attempt = environment.restart_count;
  identity.seed = static_cast<std::uint64_t>(c.debug.seed);
  identity.model = model_facts(c.model.name, c.model.sizes);
  identity.config_hash = fingerprint(c);
  identity.settings = std::move(settings);
  identity.layout = {{"world_size", layout.mesh.world_size()}};
  for (const auto& [name, degree] : named_degrees(layout.mesh)) identity.layout[name] = degree;
  return identity;
}

}  // namespace rondo
