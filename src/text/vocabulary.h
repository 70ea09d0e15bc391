#pragma once
// Tokens and their ids, both ways. Ids need not be dense; text is stored once.

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer.h"

namespace trireme {

class Vocabulary {
 public:
  /// Adds a token. Throws Error::data when the token or the id is already taken by another, or the id is above
  /// kLargestId; `where` names the file.
  void add(std::string_view token, TokenId id, std::string_view where);
  void reserve(size_t tokens);

  std::optional<TokenId> find(std::string_view token) const;
  /// Text of an id, or nullptr when no token has it.
  const std::string* token(TokenId id) const;

  size_t count() const { return ids_.size(); }        ///< tokens
  size_t id_limit() const { return tokens_.size(); }  ///< largest id + 1

  /// Ids index arrays, so a file that claims a huge one must not make us allocate for it.
  static constexpr TokenId kLargestId = (1u << 22) - 1;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  static constexpr size_t kMostBytes = size_t{16} << 20;  // eight times the largest in use; trees take 50 times as much
  size_t bytes_ = 0;
  std::vector<std::string> tokens_;
  std::vector<bool> present_;
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
};

}  // namespace trireme
