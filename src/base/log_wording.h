#pragma once
// Names in log messages: a command may use other option names than the code below it.

#include <functional>
#include <string>
#include <string_view>

namespace trireme::log {

/// Every message passes through `wording` before it is shown. Called once, before other threads log.
void set_wording(std::function<std::string(std::string_view)> wording);

}  // namespace trireme::log
