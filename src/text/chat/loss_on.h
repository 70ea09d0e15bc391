#pragma once
#include <cstdint>

#include "base/names.h"

namespace trireme::chat {

/// Whose words of a conversation count in the loss.
enum class LossOn : uint8_t {
  all,        ///< everybody's
  assistant,  ///< every turn of the assistant, with the token that ends it
  last        ///< the last turn of the assistant
};

}  // namespace trireme::chat

namespace trireme {

template <>
struct Names<chat::LossOn> {
  static constexpr Named<chat::LossOn> kAll[] = {
      {"all", chat::LossOn::all}, {"assistant", chat::LossOn::assistant}, {"last", chat::LossOn::last}};
};

}  // namespace trireme
