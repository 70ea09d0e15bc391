#pragma once
// Enums whose values have names, for options, JSON and messages. The names are declared once, beside the enum:
//   template <>
//   struct Names<Place> {
//     static constexpr Named<Place> kAll[] = {{"here", Place::here}, {"there", Place::there}};
//   };

#include <optional>
#include <string_view>

namespace trireme {

template <class E>
struct Named {
  std::string_view name;
  E value;
};

/// kAll: every value with its name.
template <class E>
struct Names;

template <class E>
concept HasNames = requires {
  Names<E>::kAll;
};

template <HasNames E>
constexpr std::string_view name_of(E value) {
  for (const Named<E>& known : Names<E>::kAll) {
    if (known.value == value) return known.name;
  }
  return "";
}

/// Empty for an unknown name.
template <HasNames E>
constexpr std::optional<E> value_named(std::string_view name) {
  for (const Named<E>& known : Names<E>::kAll) {
    if (known.name == name) return known.value;
  }
  return {};
}

}  // namespace trireme
