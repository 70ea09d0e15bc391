// Test programs begin as the program does.

#include "base/write_signals.h"

namespace {

[[maybe_unused]] const bool ignored = (trireme::ignore_write_signals(), true);

}  // namespace
