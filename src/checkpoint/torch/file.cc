#include "checkpoint/torch/file.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "checkpoint/torch/container.h"

namespace trireme {
namespace {

// Keys under which programs save the dictionary of tensors.
constexpr std::string_view kModelKeys[] = {"state_dict", "model", "model_state"};
constexpr std::string_view kSettings = "model_args";
constexpr size_t kMaxSettings = 1000;

using Kind = Pickle::Kind;

class TorchReader {
 public:
  explicit TorchReader(const TorchContainer& file) : file_(file), where_(file.where()) {}

  TorchContent read() const {
    const Pickle& pickle = file_.pickle();
    TorchContent content;
    const Pickle::Index root = pickle.root();
    if (pickle.kind(root) != Kind::dict) bad("has no dictionary of tensors");
    const Pickle::Index model = find_model(pickle, root);
    std::set<std::string_view> names;
    for (const auto& [key, value] : pickle.dict(model)) {
      if (pickle.kind(key) != Kind::text) bad("the name of a tensor is not a string");
      if (pickle.kind(value) != Kind::tensor) bad("{} is not a tensor", pickle.text(key));
      if (!names.insert(pickle.text(key)).second) bad("tensor {} appears twice", pickle.text(key));
      content.tensors.push_back(file_.tensor(value, pickle.text(key)));
    }
    if (const auto settings = find(pickle, root, kSettings)) content.model_args = settings_json(pickle, *settings);
    return content;
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::data, "{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }

  static std::optional<Pickle::Index> find(const Pickle& pickle, Pickle::Index dict, std::string_view name) {
    for (const auto& [key, value] : pickle.dict(dict)) {
      if (pickle.kind(key) == Kind::text && pickle.text(key) == name) return value;
    }
    return {};
  }

  /// The dictionary whose values are tensors: the root, or one of kModelKeys.
  Pickle::Index find_model(const Pickle& pickle, Pickle::Index root) const {
    const auto& entries = pickle.dict(root);
    if (!entries.empty() && pickle.kind(entries.front().second) == Kind::tensor) return root;
    for (const std::string_view name : kModelKeys) {
      const auto model = find(pickle, root, name);
      if (model && pickle.kind(*model) == Kind::dict) return *model;
    }
    std::vector<std::string_view> names;
    for (const auto& [key, value] : entries) {
      if (pickle.kind(key) == Kind::text && names.size() < 10) names.push_back(pickle.text(key).substr(0, 40));
    }
    bad("has no dictionary of tensors, neither at the top level nor under {}; it has: {}", fmt::join(kModelKeys, ", "),
        fmt::join(names, ", "));
  }

  std::string settings_json(const Pickle& pickle, Pickle::Index dict) const {
    if (pickle.kind(dict) != Kind::dict) bad("{} is not a dictionary", kSettings);
    if (pickle.dict(dict).size() > kMaxSettings)
      bad("{} has {} entries, but at most {} are supported", kSettings, pickle.dict(dict).size(), kMaxSettings);
    Json json = Json::object();
    for (const auto& [key, value] : pickle.dict(dict)) {
      if (pickle.kind(key) != Kind::text) bad("{} has a key that is not a string", kSettings);
      Json& out = json[std::string(pickle.text(key))];
      switch (pickle.kind(value)) {
        case Kind::none:
          break;
        case Kind::boolean:
          out = pickle.boolean(value);
          break;
        case Kind::integer:
          out = pickle.integer(value);
          break;
        case Kind::real:
          out = pickle.real(value);
          break;
        case Kind::text:
          out = std::string(pickle.text(value));
          break;
        default:
          bad("{}: {} is neither a number nor a string", kSettings, pickle.text(key));
      }
    }
    return dump_json(json);
  }

  const TorchContainer& file_;
  const std::string& where_;
};

}  // namespace

TorchContent parse_torch(std::span<const std::byte> file, std::string_view where) {
  const TorchContainer container(file, where);
  return TorchReader(container).read();
}

}  // namespace trireme
