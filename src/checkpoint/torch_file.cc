#include "checkpoint/torch_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/pickle.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/zip_archive.h"

namespace trireme {
namespace {

// A pickle of the number 0x1950a86a20f9469cfc6c, with which files of torch before 1.6 begin.
constexpr unsigned char kStreamMagic[] = {0x80, 2,    0x8a, 10,   0x6c, 0xfc, 0x9c, 0x46,
                                          0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};
constexpr int64_t kStreamVersion = 1001;
// Where programs keep the tensors' dictionary in what they save.
constexpr std::string_view kModelKeys[] = {"state_dict", "model", "model_state"};
constexpr std::string_view kSettings = "model_args";
constexpr size_t kMaxSettings = 1000;

using Kind = Pickle::Kind;
using StorageBytes = std::map<std::string_view, std::span<const std::byte>>;

class TorchReader {
 public:
  explicit TorchReader(std::string_view where) : where_(where) {}

  TorchContent read(std::span<const std::byte> file) {
    if (looks_like_zip(file)) return read_archive(file);
    if (file.size() >= sizeof kStreamMagic && std::memcmp(file.data(), kStreamMagic, sizeof kStreamMagic) == 0)
      return read_stream(file.subspan(sizeof kStreamMagic));
    if (const std::string format = other_format(file); !format.empty() && format != "pickle")
      bad("format {} recognised, not supported here; convert it to safetensors or to a state_dict of torch.save()",
          format);
    bad("is no file of torch.save(): it is neither a ZIP container nor the stream of torch before 1.6");
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::data, "{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }

  // ---- containers

  TorchContent read_archive(std::span<const std::byte> file) {
    const std::vector<ZipMember> members = read_zip(file, where_);
    const auto pickle = std::find_if(members.begin(), members.end(), [](const ZipMember& member) {
      return member.name.ends_with("/data.pkl") && member.name.find('/') + 9 == member.name.size();
    });
    if (pickle == members.end()) bad("is a ZIP file without NAME/data.pkl, so torch.save() did not make it");
    const std::string_view root = pickle->name.substr(0, pickle->name.size() - 8);
    StorageBytes storages;
    for (const ZipMember& member : members) {
      if (!member.name.starts_with(root)) continue;
      const std::string_view name = member.name.substr(root.size());
      if (name == "byteorder") require_little_endian(member.data);
      if (name.starts_with("data/")) storages.emplace(name.substr(5), member.data);
    }
    return read_content(Pickle(pickle->data, where_), storages);
  }

  void require_little_endian(std::span<const std::byte> data) const {
    const std::string_view order(reinterpret_cast<const char*>(data.data()), data.size());
    if (order != "little") bad("its numbers are \"{}\" endian, expected little", order.substr(0, 20));
  }

  /// Pickles of the version, the system, the content and the storages' keys; then each storage: its size, its bytes.
  TorchContent read_stream(std::span<const std::byte> rest) {
    const auto next = [&] {
      Pickle pickle(rest, where_);
      rest = rest.subspan(pickle.bytes());
      return pickle;
    };
    const Pickle version = next();
    if (version.kind(version.root()) != Kind::integer || version.integer(version.root()) != kStreamVersion)
      bad("version of the stream is not {}", kStreamVersion);
    const Pickle system = next(), content = next(), keys = next();
    if (system.kind(system.root()) != Kind::dict) bad("the system's description is no dictionary");
    for (const auto& [key, value] : system.dict(system.root())) {
      const bool endian = system.kind(key) == Kind::text && system.text(key) == "little_endian";
      if (endian && !(system.kind(value) == Kind::boolean && system.boolean(value)))
        bad("its numbers are big endian, expected little");
    }
    return read_content(content, stream_storages(content, keys, rest));
  }

  StorageBytes stream_storages(const Pickle& content, const Pickle& keys, std::span<const std::byte> rest) const {
    std::map<std::string_view, size_t> element;
    for (const Pickle::Storage& storage : content.storages())
      element[storage.key] = safetensors_element_bytes(storage.dtype);
    if (keys.kind(keys.root()) != Kind::list) bad("the list of storages is missing");
    StorageBytes storages;
    for (const Pickle::Index index : keys.list(keys.root())) {
      const auto known = keys.kind(index) == Kind::text ? element.find(keys.text(index)) : element.end();
      if (known == element.end()) bad("a storage belongs to no tensor");
      uint64_t count = 0;
      if (rest.size() < sizeof count) bad("truncated before storage {}", known->first);
      std::memcpy(&count, rest.data(), sizeof count);
      rest = rest.subspan(sizeof count);
      if (count > rest.size() / known->second)
        bad("truncated: storage {} has {} elements, {} bytes are left", known->first, count, rest.size());
      storages.emplace(known->first, rest.first(count * known->second));
      rest = rest.subspan(count * known->second);
    }
    return storages;
  }

  // ---- content

  TorchContent read_content(const Pickle& pickle, const StorageBytes& storages) {
    TorchContent content;
    const Pickle::Index root = pickle.root();
    if (pickle.kind(root) != Kind::dict) bad("holds no dictionary of tensors");
    const Pickle::Index model = find_model(pickle, root);
    std::set<std::string_view> names;
    for (const auto& [key, value] : pickle.dict(model)) {
      if (pickle.kind(key) != Kind::text) bad("a tensor's name is no text");
      if (pickle.kind(value) != Kind::tensor) bad("{} is no tensor", pickle.text(key));
      if (!names.insert(pickle.text(key)).second) bad("tensor {} stands twice", pickle.text(key));
      content.tensors.push_back(read_tensor(pickle, pickle.text(key), pickle.tensor(value), storages));
    }
    if (const auto settings = find(pickle, root, kSettings)) content.model_args = settings_json(pickle, *settings);
    return content;
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
    bad("holds no dictionary of tensors, neither itself nor under {}; it has: {}", fmt::join(kModelKeys, ", "),
        fmt::join(names, ", "));
  }

  TorchTensor read_tensor(const Pickle& pickle, std::string_view name, const Pickle::Tensor& tensor,
                          const StorageBytes& storages) const {
    const Pickle::Storage& storage = pickle.storage(tensor.storage);
    const auto found = storages.find(storage.key);
    if (found == storages.end()) bad("tensor {}: its storage {} is missing", name, storage.key);
    const size_t element = safetensors_element_bytes(storage.dtype);
    if (storage.count > found->second.size() / element || storage.count * element != found->second.size())
      bad("tensor {}: its storage {} should have {} elements of {}, it has {} bytes", name, storage.key, storage.count,
          storage.dtype, found->second.size());
    const uint64_t last = last_element(name, tensor);
    if (last >= storage.count && count_of(tensor) != 0)
      bad("tensor {}: shape {} with strides {} from element {} reaches past the {} of its storage", name, tensor.shape,
          tensor.strides, tensor.offset, storage.count);
    if (count_of(tensor) > storage.count)
      bad("tensor {}: shape {} has more elements than its storage, {}", name, tensor.shape, storage.count);
    const size_t begin = count_of(tensor) == 0 ? 0 : tensor.offset * element;
    return {std::string(name), std::string(storage.dtype), tensor.shape, tensor.strides, found->second.subspan(begin)};
  }

  /// Elements of a tensor; more than can be when that overflows.
  static uint64_t count_of(const Pickle::Tensor& tensor) {
    uint64_t count = 1;
    bool over = false;
    for (const int64_t size : tensor.shape) {
      if (size == 0) return 0;
      over |= __builtin_mul_overflow(count, static_cast<uint64_t>(size), &count);
    }
    return over ? UINT64_MAX : count;
  }

  uint64_t last_element(std::string_view name, const Pickle::Tensor& tensor) const {
    uint64_t last = tensor.offset;
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      uint64_t step = 0;
      const auto steps = static_cast<uint64_t>(std::max<int64_t>(tensor.shape[d], 1) - 1);
      if (__builtin_mul_overflow(steps, static_cast<uint64_t>(tensor.strides[d]), &step) ||
          __builtin_add_overflow(last, step, &last))
        bad("tensor {}: shape {} with strides {} overflows", name, tensor.shape, tensor.strides);
    }
    return last;
  }

  std::string settings_json(const Pickle& pickle, Pickle::Index dict) const {
    if (pickle.kind(dict) != Kind::dict) bad("{} is no dictionary", kSettings);
    if (pickle.dict(dict).size() > kMaxSettings)
      bad("{} has {} entries, at most {} are read", kSettings, pickle.dict(dict).size(), kMaxSettings);
    Json json = Json::object();
    for (const auto& [key, value] : pickle.dict(dict)) {
      if (pickle.kind(key) != Kind::text) bad("{} has a key that is no text", kSettings);
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
          bad("{}: {} is neither a number nor a text", kSettings, pickle.text(key));
      }
    }
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  std::string_view where_;
};

/// Copies the elements of dim d and deeper into row order.
template <size_t kBytes>
std::byte* gather(const std::byte* from, const TorchTensor& tensor, size_t d, std::byte* to) {
  if (d == tensor.shape.size()) {
    std::memcpy(to, from, kBytes);
    return to + kBytes;
  }
  const size_t step = static_cast<size_t>(tensor.strides[d]) * kBytes;
  for (size_t i = 0; i < static_cast<size_t>(tensor.shape[d]); ++i)
    to = gather<kBytes>(from + i * step, tensor, d + 1, to);
  return to;
}

bool is_contiguous(const TorchTensor& tensor) {
  int64_t expected = 1;
  for (size_t d = tensor.shape.size(); d-- > 0; expected *= tensor.shape[d]) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != expected) return false;
  }
  return true;
}

}  // namespace

TorchContent parse_torch(std::span<const std::byte> file, std::string_view where) {
  return TorchReader(where).read(file);
}

std::vector<float> TorchFile::read_f32(const TorchTensor& tensor) const {
  const std::string what = fmt::format("{}: tensor {}", path(), tensor.name);
  const size_t element = safetensors_element_bytes(tensor.dtype);
  size_t bytes = element;
  for (const int64_t size : tensor.shape) bytes *= static_cast<size_t>(size);
  if (bytes == 0) return {};
  if (is_contiguous(tensor)) return elements_as_f32(tensor.values.first(bytes), tensor.dtype, what);
  std::vector<std::byte> rows(bytes);
  if (element == 2) gather<2>(tensor.values.data(), tensor, 0, rows.data());
  if (element == 4) gather<4>(tensor.values.data(), tensor, 0, rows.data());
  if (element == 8) gather<8>(tensor.values.data(), tensor, 0, rows.data());
  return elements_as_f32(rows, tensor.dtype, what);
}

}  // namespace trireme
