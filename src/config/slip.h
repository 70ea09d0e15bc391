#pragma once
#include <string_view>

namespace trireme {

/// Whether key is a slip of the pen for name: one letter apart, two from ten letters on; '-' and '_' do not count.
bool is_slip_of(std::string_view key, std::string_view name);

}  // namespace trireme
