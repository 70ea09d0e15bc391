#pragma once
// Host values for decisions of all ranks: losses, norms, counts, flags, hashes, short texts. Every rank gets the same
// bits, and sums of f64 are made in rank order, so they do not depend on the backend. Calls block; all ranks of the
// group make the same calls in the same order.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace trireme {

/// Places of values that differ from the majority, ascending; empty: all agree. Without a majority of more than half,
/// returns all places.
std::vector<int> differing(const std::vector<uint64_t>& values);

class Scalars {
 public:
  /// Borrows the group; the calling thread is its issuing thread.
  explicit Scalars(Communicator& group) : group_(group) {}
  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

  /// In place, element by element. Every rank passes the same length. min and max of a NaN is that NaN.
  void sum(std::span<double> values);
  void sum(std::span<int64_t> values);
  void min(std::span<double> values);
  void max(std::span<double> values);
  void min(std::span<int64_t> values);
  void max(std::span<int64_t> values);
  double sum(double value);
  int64_t sum(int64_t value);
  double max(double value);
  int64_t max(int64_t value);
  /// True on every rank if true on any.
  bool any(bool value);

  /// One entry per rank; lengths may differ.
  std::vector<std::string> gather(std::string_view text);
  std::vector<uint64_t> gather_values(uint64_t value);
  /// Every rank's values concatenated; all pass the same number.
  std::vector<double> gather(std::span<const double> values);
  /// differing() of every rank's value.
  std::vector<int> differing(uint64_t value);
  /// Rank `root`'s text on every rank.
  std::string broadcast(std::string_view text, int root = 0);
  void barrier();

 private:
  Communicator& group_;
};

}  // namespace trireme
