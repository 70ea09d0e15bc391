#pragma once
// Publishes a checkpoint: rank 0, once every shard is in a private folder of the run.

#include <functional>
#include <string>

#include "checkpoint/snapshot/manifest.h"

namespace trireme {

struct Publication {
  const std::string& run_dir;
  const std::string& token;  ///< RUN/.saving-STEP-TOKEN holds shards and tokenizer
  const Manifest& manifest;
  bool latest = true;  ///< else a newer one already exists
  bool best = false;
  const std::function<void()>& check_owner;  ///< throws Error::locked once the run folder has another owner
};

/// Writes the manifest, gives the folder its name and moves `latest` and `best`. Throws Error::io where rank 0 does not
/// see what other ranks wrote, Error::locked.
void publish_step(const Publication& publication);

}  // namespace trireme
