#include "tensor/view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trireme {

std::string Shape::to_string() const { return fmt::format("{}", std::span(sizes_, static_cast<size_t>(dims_))); }

}  // namespace trireme
