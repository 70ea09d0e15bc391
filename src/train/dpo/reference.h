#pragma once
// The reference of a preference training: the log-probability of every answer by the model that it started from, which
// is computed once and kept in the run folder, so that no second model is in memory and a resumed run has the same.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct Reference {
  std::string pairs;               ///< what the ids of the pairs are: a text that differs for others
  std::vector<double> train;       ///< of every conversation of the training pairs, in nats
  std::vector<double> validation;  ///< the same

  bool operator==(const Reference&) const = default;
};

/// RUN/reference.bin.
std::string reference_path(const std::string& run_dir);

/// XXH3 of all numbers, as 16 digits.
std::string hash_of(const Reference& reference);
uint64_t bytes_of(const Reference& reference);

/// Throws Error::io.
void write_reference(const std::string& path, const Reference& reference);
/// Nullopt: the file does not exist. Throws Error::data naming it if it is damaged.
std::optional<Reference> read_reference(const std::string& path);

}  // namespace trireme
