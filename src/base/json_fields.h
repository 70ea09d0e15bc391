#pragma once
// Typed access to the fields of a JSON object that must be there; for .cc files only.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"

namespace trireme {

template <class T>
bool json_holds(const Json& value) {
  if constexpr (std::is_same_v<T, bool>) return value.is_boolean();
  if constexpr (std::is_same_v<T, std::string>) return value.is_string();
  if constexpr (std::is_floating_point_v<T>) return value.is_number();
  if constexpr (std::is_unsigned_v<T>) return value.is_number_unsigned();
  if constexpr (std::is_signed_v<T>) {
    return value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX});
  }
  return false;
}

/// The member; throws Error::data if `object` is not an object or lacks the member.
inline const Json& json_member(const Json& object, const char* name, std::string_view where) {
  require(object.is_object(), ErrorKind::data, "{}: expected an object with \"{}\", found {}", where, name,
          object.type_name());
  const auto found = object.find(name);
  require(found != object.end(), ErrorKind::data, "{}: \"{}\" is missing", where, name);
  return *found;
}

/// The member as T (bool, string, signed or unsigned 64-bit integer, double). Throws Error::data.
template <class T>
T json_field(const Json& object, const char* name, std::string_view where) {
  const Json& value = json_member(object, name, where);
  require(json_holds<T>(value), ErrorKind::data, "{}: \"{}\" has a wrong type or range: {}", where, name,
          dump_valid_json(value).substr(0, 80));
  return value.get<T>();
}

/// The member, an array. Throws Error::data.
inline const Json& json_array(const Json& object, const char* name, std::string_view where) {
  const Json& value = json_member(object, name, where);
  require(value.is_array(), ErrorKind::data, "{}: \"{}\" is {}, expected an array", where, name, value.type_name());
  return value;
}

/// Shortest decimal number that is this float again, as a double: 1e-5f is written 1e-05, not 9.999999747378752e-06.
inline double shortest_double(float value) { return std::stod(fmt::format("{}", value)); }

}  // namespace trireme
