#pragma once
// What the translators of the parts of GPT-NeoX's files share.

#include <string>
#include <utility>

#include "base/names.h"
#include "config/dialect.h"

namespace trireme {

class NeoxPart {
 protected:
  NeoxPart(const DialectView& view, Translation& out) : view_(view), out_(out) {}

  bool is(const char* key) const { return view_.flag(key); }
  /// Uses NeoX's default if the key is not given.
  void set(const char* option, Value value, const char* key) { out_.set(option, std::move(value), view_.origin(key)); }
  template <HasNames E>
  void set(const char* option, E value, const char* key) {
    out_.set(option, value, view_.origin(key));
  }
  void copy(const char* key, const char* option) { set(option, view_.value(key), key); }
  void object(const char* key, const std::string& reason) const { view_.object(key, reason); }

  const DialectView& view_;
  Translation& out_;
};

}  // namespace trireme
