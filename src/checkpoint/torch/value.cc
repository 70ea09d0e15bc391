#include "checkpoint/torch/value.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "checkpoint/safetensors/safetensors.h"

namespace trireme {

using Kind = Pickle::Kind;

void TorchValue::fail_with(std::string_view what) const {
  fail(ErrorKind::data, "{}: {} {}", file_->where(), path_.empty() ? "the content" : path_, what);
}

TorchValue TorchValue::child(Pickle::Index value, std::string_view key) const {
  constexpr size_t kMostShown = 200;
  return {*file_, value, fmt::format("{}{}{}", path_, path_.empty() ? "" : ".", key.substr(0, kMostShown))};
}

std::optional<TorchValue> TorchValue::find(std::string_view key) const {
  const Pickle& pickle = file_->pickle();
  if (is_object()) {
    const auto state = pickle.object(value_).state;
    if (!state || pickle.kind(*state) != Kind::dict) return {};
    return TorchValue(*file_, *state, path_).find(key);
  }
  if (!is_dict()) fail_with("is not a dictionary");
  std::optional<TorchValue> found;
  for (const auto& [name, value] : pickle.dict(value_)) {
    const bool same = pickle.kind(name) == Kind::text
                          ? pickle.text(name) == key
                          : pickle.kind(name) == Kind::integer && fmt::format("{}", pickle.integer(name)) == key;
    if (same) found = child(value, key);
  }
  return found && found->is_none() ? std::nullopt : found;
}

TorchValue TorchValue::at(std::string_view key) const {
  const auto found = find(key);
  if (!found) child(value_, key).fail_with("is missing");
  return *found;
}

std::vector<std::pair<std::string, TorchValue>> TorchValue::entries() const {
  const Pickle& pickle = file_->pickle();
  if (!is_dict()) fail_with("is not a dictionary");
  std::vector<std::pair<std::string, TorchValue>> entries;
  for (const auto& [name, value] : pickle.dict(value_)) {
    std::string key;
    if (pickle.kind(name) == Kind::text) {
      key = pickle.text(name);
    } else if (pickle.kind(name) == Kind::integer) {
      key = fmt::format("{}", pickle.integer(name));
    } else {
      continue;
    }
    entries.emplace_back(key, child(value, key));
  }
  return entries;
}

std::vector<TorchValue> TorchValue::items() const {
  if (!is_list()) fail_with("is not a list");
  std::vector<TorchValue> items;
  for (const Pickle::Index item : file_->pickle().list(value_))
    items.push_back(child(item, fmt::format("{}", items.size())));
  return items;
}

int64_t TorchValue::integer() const {
  const Pickle& pickle = file_->pickle();
  if (kind() == Kind::integer) return pickle.integer(value_);
  if (kind() == Kind::boolean) return pickle.boolean(value_) ? 1 : 0;
  if (is_object() && pickle.object(value_).arguments) {
    const std::vector<TorchValue> made_from = TorchValue(*file_, *pickle.object(value_).arguments, path_).items();
    if (made_from.size() == 1 && !made_from[0].is_object()) return made_from[0].integer();
  }
  constexpr double kMost = 9e15;  // whole numbers are exact below
  const bool whole_number = kind() == Kind::real || is_tensor();
  if (!whole_number) fail_with("is not a whole number");
  const double value = number();
  if (!(std::abs(value) <= kMost) || value != std::floor(value)) fail_with("is not a whole number");
  return static_cast<int64_t>(value);
}

double TorchValue::number() const {
  const Pickle& pickle = file_->pickle();
  if (kind() == Kind::real) return pickle.real(value_);
  if (is_tensor()) {
    const TorchTensor scalar = tensor();
    if (element_count(scalar.shape) == 1 && is_float_type(scalar.dtype)) {
      float value;
      read_run(scalar, 0, std::span(&value, 1));
      return value;
    }
  }
  if (kind() != Kind::integer) fail_with("is not a number");
  return static_cast<double>(pickle.integer(value_));
}

std::string_view TorchValue::text() const {
  if (kind() != Kind::text) fail_with("is not a string");
  return file_->pickle().text(value_);
}

TorchTensor TorchValue::tensor() const {
  if (!is_tensor()) fail_with("is not a tensor");
  return file_->tensor(value_, path_);
}

std::vector<int64_t> TorchValue::sizes() const {
  std::vector<int64_t> sizes;
  for (const TorchValue& item : items()) {
    sizes.push_back(item.integer());
    if (sizes.back() < 0) item.fail_with(fmt::format("is {}, but a size must not be negative", sizes.back()));
  }
  return sizes;
}

}  // namespace trireme
