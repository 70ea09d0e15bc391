#include "checkpoint/torch/container.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "checkpoint/safetensors/safetensors.h"
#include "checkpoint/torch/zip_archive.h"

namespace trireme {
namespace {

// A pickle of the number 0x1950a86a20f9469cfc6c, with which files of torch before 1.6 begin.
constexpr unsigned char kStreamMagic[] = {0x80, 2,    0x8a, 10,   0x6c, 0xfc, 0x9c, 0x46,
                                          0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};
constexpr int64_t kStreamVersion = 1001;

using Kind = Pickle::Kind;
using Storages = TorchContainer::Storages;
using Parts = TorchContainer::Parts;

class ContainerReader {
 public:
  ContainerReader(std::string_view where, Pickle::Classes classes) : where_(where), classes_(classes) {}

  Parts read(std::span<const std::byte> file) {
    refuse_lfs_pointer(file, where_);
    if (looks_like_zip(file)) return read_archive(file);
    if (file.size() >= sizeof kStreamMagic && std::memcmp(file.data(), kStreamMagic, sizeof kStreamMagic) == 0)
      return read_stream(file.subspan(sizeof kStreamMagic));
    if (const std::string format = other_format(file); !format.empty() && format != "pickle")
      bad("format {} is recognised but not supported here; convert it to safetensors or to a state_dict of "
          "torch.save()",
          format);
    bad("is not a file of torch.save(): neither a ZIP container nor a stream of torch before 1.6");
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::data, "{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }

  Parts read_archive(std::span<const std::byte> file) {
    const std::vector<ZipMember> members = read_zip(file, where_);
    const auto pickle = std::find_if(members.begin(), members.end(), [](const ZipMember& member) {
      return member.name.ends_with("/data.pkl") && member.name.find('/') + 9 == member.name.size();
    });
    if (pickle == members.end()) bad("is a ZIP file without NAME/data.pkl, so torch.save() did not make it");
    const std::string_view root = pickle->name.substr(0, pickle->name.size() - 8);
    const std::string fault = zip_fault(*pickle, where_);
    require(fault.empty(), ErrorKind::data, "{}", fault);
    Storages storages;
    for (const ZipMember& member : members) {
      if (!member.name.starts_with(root)) continue;
      const std::string_view name = member.name.substr(root.size());
      if (name == "byteorder") require_little_endian(member.data);
      if (name.starts_with("data/"))
        storages.emplace(name.substr(5), std::make_shared<const TorchStorage>(member, where_));
    }
    return {Pickle(pickle->data, where_, classes_), std::move(storages)};
  }

  void require_little_endian(std::span<const std::byte> data) const {
    const std::string_view order(reinterpret_cast<const char*>(data.data()), data.size());
    if (order != "little") bad("its numbers are \"{}\" endian, expected little", order.substr(0, 20));
  }

  /// Pickles of the version, the system, the content and the storages' keys; then each storage: its size, its bytes.
  Parts read_stream(std::span<const std::byte> rest) {
    const auto next = [&] {
      Pickle pickle(rest, where_, classes_);
      rest = rest.subspan(pickle.bytes());
      return pickle;
    };
    const Pickle version = next();
    if (version.kind(version.root()) != Kind::integer || version.integer(version.root()) != kStreamVersion)
      bad("version of the stream is not {}", kStreamVersion);
    const Pickle system = next();
    Pickle content = next();
    const Pickle keys = next();
    if (system.kind(system.root()) != Kind::dict) bad("the system's description is not a dictionary");
    for (const auto& [key, value] : system.dict(system.root())) {
      const bool endian = system.kind(key) == Kind::text && system.text(key) == "little_endian";
      if (endian && !(system.kind(value) == Kind::boolean && system.boolean(value)))
        bad("its numbers are big endian, expected little");
    }
    Storages storages = stream_storages(content, keys, rest);
    return {std::move(content), std::move(storages)};
  }

  Storages stream_storages(const Pickle& content, const Pickle& keys, std::span<const std::byte> rest) const {
    std::map<std::string_view, size_t> element;
    for (const Pickle::Storage& storage : content.storages())
      element[storage.key] = safetensors_element_bytes(storage.dtype);
    if (keys.kind(keys.root()) != Kind::list) bad("the list of storages is missing");
    Storages storages;
    for (const Pickle::Index index : keys.list(keys.root())) {
      const auto known = keys.kind(index) == Kind::text ? element.find(keys.text(index)) : element.end();
      if (known == element.end()) bad("a storage belongs to no tensor");
      uint64_t count = 0;
      if (rest.size() < sizeof count) bad("truncated before storage {}", known->first);
      std::memcpy(&count, rest.data(), sizeof count);
      rest = rest.subspan(sizeof count);
      if (count > rest.size() / known->second)
        bad("truncated: storage {} has {} elements, but only {} bytes are left", known->first, count, rest.size());
      const ZipMember whole{known->first, rest.first(count * known->second), 0};  // this form has no checksums
      storages.emplace(known->first, std::make_shared<const TorchStorage>(whole, where_));
      rest = rest.subspan(count * known->second);
    }
    return storages;
  }

  std::string_view where_;
  Pickle::Classes classes_;
};

/// Index in its storage of the tensor's last element.
uint64_t last_element(const std::string& where, std::string_view name, const Pickle::Tensor& tensor) {
  uint64_t last = tensor.offset;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    uint64_t step = 0;
    const auto steps = static_cast<uint64_t>(std::max<int64_t>(tensor.shape[d], 1) - 1);
    require(!__builtin_mul_overflow(steps, static_cast<uint64_t>(tensor.strides[d]), &step) &&
                !__builtin_add_overflow(last, step, &last),
            ErrorKind::data, "{}: tensor {}: shape {} with strides {} overflows", where, name, tensor.shape,
            tensor.strides);
  }
  return last;
}

}  // namespace

TorchContainer::TorchContainer(std::span<const std::byte> file, std::string_view where, Pickle::Classes classes)
    : where_(where), parts_(ContainerReader(where, classes).read(file)) {}

TorchTensor TorchContainer::tensor(Pickle::Index value, std::string_view name) const {
  const Pickle::Tensor& tensor = pickle().tensor(value);
  const Pickle::Storage& storage = pickle().storage(tensor.storage);
  const auto found = parts_.storages.find(storage.key);
  require(found != parts_.storages.end(), ErrorKind::data, "{}: tensor {}: its storage {} is missing", where_, name,
          storage.key);
  const size_t element = safetensors_element_bytes(storage.dtype), bytes = found->second->bytes().size();
  require(storage.count <= bytes / element && storage.count * element == bytes, ErrorKind::data,
          "{}: tensor {}: its storage {} should have {} elements of {}, but has {} bytes", where_, name, storage.key,
          storage.count, storage.dtype, bytes);
  const uint64_t last = last_element(where_, name, tensor), count = element_count(tensor.shape);
  require(last < storage.count || count == 0, ErrorKind::data,
          "{}: tensor {}: shape {} with strides {} from element {} reaches past the {} of its storage", where_, name,
          tensor.shape, tensor.strides, tensor.offset, storage.count);
  require(count <= storage.count, ErrorKind::data, "{}: tensor {}: shape {} has more elements than its storage, {}",
          where_, name, tensor.shape, storage.count);
  const size_t begin = count == 0 ? 0 : tensor.offset * element;
  return {std::string(name),
          std::string(storage.dtype),
          tensor.shape,
          tensor.strides,
          found->second->bytes().subspan(begin),
          found->second};
}

}  // namespace trireme
