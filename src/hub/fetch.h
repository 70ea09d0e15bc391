#pragma once
// Files of a repository into the cache, and what of it is there already.

#include <functional>
#include <optional>
#include <string>

#include "hub/cache.h"
#include "hub/select.h"
#include "hub/settings.h"

namespace trireme::hub {

struct Snapshot {
  std::string folder;  ///< of the cache, with the files below it
  std::string commit;
  Files files;  ///< those that were asked for
};

/// Called about once a second while something is waited for or fetched; may throw to end it.
using Alive = std::function<void()>;

/// The snapshot of the cache that `revision` means, when it has all that is asked for. Asks nobody.
std::optional<Snapshot> find_snapshot(const Settings& settings, const Repository& repository,
                                      const std::string& revision, const Selection& selection);

/// Asks the hub what `revision` is now and brings what of it is missing. One process of a host does, the others wait
/// for it with one line. Throws Unreachable, NotThere, Error::io, Error::data; Error::config where HF_HUB_OFFLINE is
/// set.
Snapshot fetch(const Settings& settings, const Repository& repository, const std::string& revision,
               const Selection& selection, const Alive& alive);

}  // namespace trireme::hub
