#include "text/vocabulary.h"

#include "base/error.h"

namespace trireme {

void Vocabulary::add(std::string_view token, TokenId id, std::string_view where) {
  require(id <= kLargestId, ErrorKind::data, "{}: token \"{}\" has id {}, ids up to {} are read", where, token, id,
          kLargestId);
  bytes_ += token.size();
  require(bytes_ <= kMostBytes, ErrorKind::data, "{}: its tokens have more than {} bytes, the most that are read",
          where, kMostBytes);
  const auto [it, inserted] = ids_.emplace(token, id);
  if (!inserted && it->second == id) return;
  require(inserted, ErrorKind::data, "{}: token \"{}\" has two ids, {} and {}", where, token, it->second, id);
  if (id >= tokens_.size()) {
    tokens_.resize(size_t{id} + 1);
    present_.resize(size_t{id} + 1);
  }
  require(!present_[id], ErrorKind::data, "{}: id {} belongs to two tokens, \"{}\" and \"{}\"", where, id, tokens_[id],
          token);
  tokens_[id] = token;
  present_[id] = true;
}

void Vocabulary::reserve(size_t tokens) {
  ids_.reserve(tokens);
  tokens_.reserve(tokens);
  present_.reserve(tokens);
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  const auto it = ids_.find(token);
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

const std::string* Vocabulary::token(TokenId id) const {
  return id < tokens_.size() && present_[id] ? &tokens_[id] : nullptr;
}

}  // namespace trireme
