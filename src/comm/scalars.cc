#include "comm/scalars.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/error.h"
#include "comm/heartbeat.h"

namespace trireme {
namespace {

void wait(Communicator& group, Handle handle, const char* what, size_t bytes) {
  const Waiting waiting(group.heartbeat(), what, bytes);
  handle.wait(what);
}

/// All ranks' values concatenated in rank order.
template <class T>
std::vector<T> all_values(Communicator& group, std::span<const T> own) {
  std::vector<T> all(own.size() * static_cast<size_t>(group.size()));
  const auto n = static_cast<int64_t>(own.size());
  wait(group, group.all_gather(ConstView(own, Shape{n}), View(std::span(all), Shape{n * group.size()})),
       "the gathering of host values", own.size_bytes());
  return all;
}

/// Integers give the same result in any order, so the backend may choose one.
void reduce(Communicator& group, std::span<int64_t> values, Reduction reduction) {
  if (group.size() == 1 || values.empty()) return;
  wait(group, group.all_reduce(View(values, Shape{std::ssize(values)}), reduction), "a reduction of host values",
       values.size_bytes());
}

template <class Combine>
void reduce(Communicator& group, std::span<double> values, Combine combine) {
  if (group.size() == 1 || values.empty()) return;
  const std::vector<double> all = all_values(group, std::span<const double>(values));
  std::copy_n(all.begin(), values.size(), values.begin());
  for (size_t i = values.size(); i < all.size(); ++i) {
    double& value = values[i % values.size()];
    value = combine(value, all[i]);
  }
}

double smaller(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

}  // namespace

void Scalars::sum(std::span<double> values) { reduce(group_, values, std::plus<double>()); }
void Scalars::sum(std::span<int64_t> values) { reduce(group_, values, Reduction::sum); }
void Scalars::min(std::span<double> values) { reduce(group_, values, smaller); }
void Scalars::max(std::span<double> values) { reduce(group_, values, larger); }
void Scalars::min(std::span<int64_t> values) { reduce(group_, values, Reduction::min); }
void Scalars::max(std::span<int64_t> values) { reduce(group_, values, Reduction::max); }

double Scalars::sum(double value) {
  sum(std::span(&value, 1));
  return value;
}
int64_t Scalars::sum(int64_t value) {
  sum(std::span(&value, 1));
  return value;
}
double Scalars::max(double value) {
  max(std::span(&value, 1));
  return value;
}
int64_t Scalars::max(int64_t value) {
  max(std::span(&value, 1));
  return value;
}
bool Scalars::any(bool value) { return max(int64_t{value}) != 0; }

std::vector<std::string> Scalars::gather(std::string_view text) {
  const auto own_length = static_cast<int64_t>(text.size());
  const std::vector<int64_t> lengths = all_values(group_, std::span(&own_length, 1));
  const auto longest = static_cast<size_t>(*std::max_element(lengths.begin(), lengths.end()));
  if (longest == 0) return std::vector<std::string>(lengths.size());
  std::vector<uint8_t> padded(longest);
  std::copy(text.begin(), text.end(), padded.begin());
  const std::vector<uint8_t> all = all_values(group_, std::span<const uint8_t>(padded));
  std::vector<std::string> texts;
  for (size_t r = 0; r < lengths.size(); ++r) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(r * longest);
    texts.emplace_back(first, first + lengths[r]);
  }
  return texts;
}

std::vector<uint64_t> Scalars::gather_values(uint64_t value) {
  const auto own = static_cast<int64_t>(value);
  const std::vector<int64_t> all = all_values(group_, std::span(&own, 1));
  return {all.begin(), all.end()};
}

std::vector<double> Scalars::gather(std::span<const double> values) { return all_values(group_, values); }

std::vector<int> Scalars::differing(uint64_t value) { return trireme::differing(gather_values(value)); }

std::vector<int> differing(const std::vector<uint64_t>& all) {
  std::map<uint64_t, size_t> holders;
  for (const uint64_t v : all) ++holders[v];
  const auto most =
      std::max_element(holders.begin(), holders.end(), [](auto& a, auto& b) { return a.second < b.second; });
  const bool majority = 2 * most->second > all.size();
  std::vector<int> ranks;
  for (size_t r = 0; r < all.size(); ++r) {
    if (!majority || all[r] != most->first) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

std::string Scalars::broadcast(std::string_view text, int root) {
  auto length = static_cast<int64_t>(text.size());
  wait(group_, group_.broadcast(View(std::span(&length, 1), Shape{1}), root), "the broadcast of a length",
       sizeof length);
  std::vector<uint8_t> bytes(static_cast<size_t>(length));
  if (rank() == root) std::copy(text.begin(), text.end(), bytes.begin());
  if (length > 0) {
    wait(group_, group_.broadcast(View(std::span(bytes), Shape{length}), root), "the broadcast of a text",
         bytes.size());
  }
  return {bytes.begin(), bytes.end()};
}

void Scalars::barrier() { wait(group_, group_.barrier(), "all ranks to meet", 0); }

}  // namespace trireme
