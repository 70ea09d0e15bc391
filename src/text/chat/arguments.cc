#include <algorithm>

#include "text/chat/builtins.h"

namespace trireme::chat {

Bound::Bound(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> parameters)
    : function_(function), parameters_(parameters), values_(parameters.size()) {
  if (arguments.given.size() > values_.size())
    fault("{} takes at most {} arguments, found {}", function_, values_.size(), arguments.given.size());
  for (size_t i = 0; i < arguments.given.size(); ++i) values_[i] = &arguments.given[i];
  for (const auto& [name, value] : arguments.named) {
    const auto at = std::ranges::find(parameters_, name);
    if (at == parameters_.end()) fault("{} has no argument \"{}\"", function_, name);
    const Value*& place = values_[static_cast<size_t>(at - parameters_.begin())];
    if (place != nullptr) fault("{} got the argument \"{}\" twice", function_, name);
    place = &value;
  }
}

const Value& Bound::need(size_t parameter) const {
  if (values_[parameter] == nullptr) fault("{} needs the argument \"{}\"", function_, parameters_[parameter]);
  return *values_[parameter];
}

int64_t Bound::integer(size_t parameter, int64_t otherwise) const {
  const Value* const value = values_[parameter];
  if (value == nullptr) return otherwise;
  if (value->is(Kind::boolean)) return int64_t{value->as<bool>()};
  if (!value->is(Kind::integer))
    fault("{}: \"{}\" is {}, expected an integer", function_, parameters_[parameter], type_name(*value));
  return value->as<int64_t>();
}

bool Bound::truth_of(size_t parameter, bool otherwise) const {
  return values_[parameter] == nullptr ? otherwise : truth(*values_[parameter]);
}

const std::string& Bound::text(size_t parameter) const {
  const Value& value = need(parameter);
  if (!value.is(Kind::text))
    fault("{}: \"{}\" is {}, expected a string", function_, parameters_[parameter], type_name(value));
  return value.text();
}

}  // namespace trireme::chat
