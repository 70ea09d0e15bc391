// Any bytes in any pieces: the control channel's stream either throws Error::data or gives messages that come back as
// they are when they are sent on.
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "comm/control/message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t piece = data[0] % 64 + 1u;  // bytes that arrive at once
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  trireme::ControlStream stream;
  try {
    for (size_t at = 0; at < bytes.size(); at += piece) {
      stream.append(bytes.substr(at, piece));
      while (const auto message = stream.next()) {
        trireme::ControlStream again;
        again.append(trireme::encode(*message));
        const auto back = again.next();
        if (!back || back->text.size() > message->text.size() || back->rank != message->rank) std::abort();
        (void)trireme::describe(message->state);
      }
    }
  } catch (const trireme::Error& e) {
    if (e.kind() != trireme::ErrorKind::data) std::abort();
  }
  return 0;
}
