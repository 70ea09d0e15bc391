#pragma once
#include <cstdint>

#include "base/names.h"

namespace trireme::chat {

/// Whose words of a conversation count in the loss.
enum class Learnt : uint8_t {
  all,        ///< everybody's
  assistant,  ///< every turn of the assistant, with the token that ends it
  last        ///< the last turn of the assistant
};

}  // namespace trireme::chat

namespace trireme {

template <>
struct Names<chat::Learnt> {
  static constexpr Named<chat::Learnt> kAll[] = {
      {"all", chat::Learnt::all}, {"assistant", chat::Learnt::assistant}, {"last", chat::Learnt::last}};
};

}  // namespace trireme
