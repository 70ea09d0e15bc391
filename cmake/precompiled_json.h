// JSON as it is precompiled. Its header defines the literal ""_json as an inline function, so that the parser of nlohmann::json, a type that
// nobody here uses (base/json.h has the ordered one), is compiled again with every file: 0.35 s of each. As the body of a template that nobody
// calls it is parsed and no more. A file that used the literal would not link, and is told by the preset `debug`, too, where it does.
#pragma once

#ifdef INCLUDE_NLOHMANN_JSON_HPP_
#error "this header has to be the first to include nlohmann/json.hpp"
#endif
#define _json(text, length) \
  _json(text, length);      \
  template <typename>       \
  nlohmann::json never_called(text, length)
#include <nlohmann/json.hpp>
#undef _json
