#pragma once
// Describes the content of a token file of any format.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/sidecar.h"
#include "text/tokenizer.h"

namespace trireme {

/// Documents by their number of ids.
class LengthHistogram {
 public:
  void add(uint64_t length);
  uint64_t documents() const { return documents_; }
  uint64_t shortest() const { return documents_ == 0 ? 0 : shortest_; }
  uint64_t longest() const { return longest_; }
  double mean() const;
  /// Element 0: empty ones; element k: lengths of 2^(k-1) to 2^k - 1.
  const std::vector<uint64_t>& counts() const { return counts_; }

 private:
  std::vector<uint64_t> counts_;
  uint64_t documents_ = 0, total_ = 0, shortest_ = UINT64_MAX, longest_ = 0;
};

struct Inspection {
  std::string path, format;
  uint64_t tokens = 0;
  uint64_t sequences = 0;           ///< of an indexed dataset
  LengthHistogram lengths;          ///< of documents; empty if their ends are unknown
  std::vector<TokenId> head, tail;  ///< first and last ids
  std::optional<TokenSidecar> sidecar;
};

/// path: a token file (FILE.bin), or an indexed dataset (its prefix, .bin or .idx). end_of_text: the id that ends
/// documents of a token file. Throws Error::io, Error::data.
Inspection inspect(const std::string& path, std::optional<TokenId> end_of_text, size_t ends);

/// The prefix of the indexed dataset at a path; empty if it is not one.
std::string indexed_prefix(const std::string& path);

/// tokenizer.json beside a file; empty if missing.
std::string tokenizer_beside(const std::string& path);

/// Reads and checks every byte: checksums, index, ids. Returns a description of the checks. Throws Error::io,
/// Error::data for the first fault.
std::string verify_tokens(const std::string& path);

}  // namespace trireme
