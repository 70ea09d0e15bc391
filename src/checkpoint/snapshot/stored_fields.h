#pragma once
// Reads the objects of a manifest, none of whose fields may be unknown; for .cc files only.

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fields.h"

namespace trireme {

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

}  // namespace trireme
