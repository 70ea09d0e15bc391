#pragma once
// Typed access to the fields of a JSON object that must be there; for .cc files only.

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

/// An object of a checkpoint of format `version`, of which every field must be known: end() refuses fields that were
/// not read.
class StoredFields {
 public:
  /// Borrows the object; `what` names it in errors.
  StoredFields(const Json& object, std::string what, std::string_view where, int64_t version)
      : object_(object), what_(std::move(what)), where_(where), version_(version) {
    require(object.is_object(), ErrorKind::data, "{}: {} is {}, expected an object", where_, what_, object.type_name());
  }

  int64_t version() const { return version_; }
  const Json& member(const char* name) { return json_member(object_, read(name), where_); }
  const Json& array(const char* name) { return json_array(object_, read(name), where_); }
  template <class T>
  T get(const char* name) {
    return json_field<T>(object_, read(name), where_);
  }
  /// A field that came with format version `since`: null where an older checkpoint does not have it, which means the
  /// field's default. Throws Error::data where a checkpoint of `since` or later lacks it.
  const Json* newer(const char* name, int64_t since) {
    if (version_ < since && !object_.contains(name)) return nullptr;
    return &member(name);
  }
  /// A field that not every checkpoint has: null where it is missing.
  const Json* optional(const char* name) { return object_.contains(name) ? &member(name) : nullptr; }
  /// Throws Error::data naming a field that was not read.
  void end() const {
    for (const auto& [name, value] : object_.items()) {
      require(std::find(read_.begin(), read_.end(), name) != read_.end(), ErrorKind::data,
              "{}: {} has a field \"{}\" that this program does not know; a newer version may have written it", where_,
              what_, name);
    }
  }

 private:
  const char* read(const char* name) {
    read_.emplace_back(name);
    return name;
  }

  const Json& object_;
  std::string what_;
  std::string_view where_;
  int64_t version_;
  std::vector<std::string_view> read_;
};

/// Shortest decimal number that is this float again, as a double: 1e-5f is written 1e-05, not 9.999999747378752e-06.
inline double shortest_double(float value) { return std::stod(fmt::format("{}", value)); }

}  // namespace trireme
