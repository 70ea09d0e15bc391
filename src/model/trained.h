#pragma once
// Which parameters a run trains. The others are frozen: they have a weight, but no gradient, no optimizer state and no
// part in the exchange of gradients, and backward computes through them only what trained parameters below need.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A pattern of parameter names. It matches a name, or the part of one before a dot: "block.3" is all of block 3. "*"
/// is any text, dots included; "?" is one character; "0-5" is any whole number from 0 to 5.
bool matches_name(std::string_view pattern, std::string_view name);

class Trained {
 public:
  Trained() = default;  ///< all parameters
  /// Patterns separated by commas. only: the parameters to train, empty: all; freeze: those to leave out. Throws
  /// Error::config for an empty pattern between commas.
  Trained(std::string_view only, std::string_view freeze);

  bool all() const { return only_.empty() && freeze_.empty(); }
  bool includes(std::string_view name) const;
  /// Throws Error::config if a pattern matches none of the model's parameters, with the nearest name, or if nothing is
  /// left to train.
  void check(std::span<const std::string> names) const;

  bool operator==(const Trained&) const = default;

 private:
  std::vector<std::string> only_, freeze_;
};

}  // namespace trireme
