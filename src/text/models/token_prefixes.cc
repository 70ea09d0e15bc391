#include "text/models/token_prefixes.h"

#include <bit>
#include <string>
#include <utility>

#include "text/byte_alphabet.h"

namespace trireme {
namespace {

constexpr size_t kFirstSlots = size_t{1} << 12;

int shift_for(size_t slots) { return 64 - std::countr_zero(slots); }

}  // namespace

TokenPrefixes::TokenPrefixes(const Vocabulary& vocabulary)
    : keys_(kFirstSlots, TablePages::small), tokens_(kFirstSlots, TablePages::small), shift_(shift_for(kFirstSlots)) {
  std::string bytes;
  for (TokenId id = 0; id < vocabulary.id_limit(); ++id) {
    const auto spelling = vocabulary.token(id);
    bytes.clear();
    if (spelling && read_spelling(*spelling, bytes) && !bytes.empty()) add(bytes, id);
  }
}

void TokenPrefixes::add(std::string_view bytes, TokenId token) {
  Key key;
  size_t slot = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    key.add(bytes[at], at);
    if (at == 0) continue;
    slot = slot_of(key.value);
    if (keys_[slot] != kFree) continue;
    if (2 * ++used_ > keys_.size()) {
      grow();
      slot = slot_of(key.value);
    }
    keys_[slot] = key.value;
  }
  if (bytes.size() > 1) tokens_[slot] = token + 1;
}

void TokenPrefixes::grow() {
  const size_t slots = 4 * keys_.size();
  const ZeroTable<uint64_t> keys = std::exchange(keys_, ZeroTable<uint64_t>(slots, TablePages::large));
  const ZeroTable<uint32_t> tokens = std::exchange(tokens_, ZeroTable<uint32_t>(slots, TablePages::large));
  shift_ = shift_for(slots);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == kFree) continue;
    const size_t slot = slot_of(keys[i]);
    keys_[slot] = keys[i];
    tokens_[slot] = tokens[i];
  }
}

}  // namespace trireme
