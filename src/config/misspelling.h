#pragma once
#include <string_view>

namespace trireme {

/// Whether key is a misspelling of name: one wrong letter, or two if it has at least ten letters; '-' and '_' do not
/// count.
bool is_misspelling_of(std::string_view key, std::string_view name);

}  // namespace trireme
