#pragma once
// Reads a pickle of dictionaries, numbers, texts and tensors as data: nothing is imported, called or executed. Opcodes
// and globals that such pickles do not need are refused by name; if objects of other programs are allowed among the
// data, their classes are names only. Source: CPython's pickletools.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

class Pickle {
 public:
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    list,     ///< lists, tuples, torch.Size
    dict,     ///< plain or ordered
    global,   ///< a class or function, by its name only
    storage,  ///< the memory of tensors
    tensor,
    object,  ///< of an unknown class: what it was made from, never the object itself
  };
  /// Handling of classes and functions that no dictionary of tensors needs.
  enum class Classes : uint8_t { refused, opaque };
  using Index = uint32_t;  ///< of a value; equal indices are the same object

  /// Elements of a storage; the container knows where its bytes are.
  struct Storage {
    std::string_view dtype;  ///< "F32", "BF16", ...
    std::string_view key;    ///< its name in the container
    uint64_t count = 0;
  };
  struct Tensor {
    Index storage = 0;
    uint64_t offset = 0;  ///< elements
    std::vector<int64_t> shape, strides;
  };
  /// The name of the class or function, without its module; its arguments; the attributes set afterwards.
  struct Object {
    std::string_view name;
    std::optional<Index> arguments, state;
  };

  /// Reads one pickle from the start of `bytes`; texts are views of it. `where` names the file in errors. Throws
  /// Error::data. Memory is bounded by kMaxValues and kMaxReferences, whatever the bytes are.
  Pickle(std::span<const std::byte> bytes, std::string_view where, Classes classes = Classes::refused);

  size_t bytes() const { return bytes_; }  ///< of this pickle; another can follow
  Index root() const { return root_; }
  Kind kind(Index value) const { return values_[value].kind; }
  bool boolean(Index value) const { return values_[value].integer != 0; }
  int64_t integer(Index value) const { return values_[value].integer; }
  double real(Index value) const { return values_[value].real; }
  std::string_view text(Index value) const { return values_[value].text; }
  const std::vector<Index>& list(Index value) const { return lists_[values_[value].place]; }
  /// In the order in which keys were set; a key that is set again appears twice.
  const std::vector<std::pair<Index, Index>>& dict(Index value) const { return dicts_[values_[value].place]; }
  const Storage& storage(Index value) const { return storages_[values_[value].place]; }
  const std::vector<Storage>& storages() const { return storages_; }  ///< every storage described
  const Tensor& tensor(Index value) const { return tensors_[values_[value].place]; }
  const Object& object(Index value) const { return objects_[values_[value].place]; }

  static constexpr size_t kMaxValues = 2'000'000;      ///< about 20 per tensor: files of 100,000 tensors
  static constexpr size_t kMaxReferences = 4'000'000;  ///< writers memoize nearly every value
  static constexpr size_t kMaxMarks = 1000;            ///< open at a time: no dictionary of tensors nests deeper
  static constexpr size_t kMaxDims = 8;
  static constexpr size_t kMaxBytes = size_t{64} << 20;

 private:
  friend class PickleStack;
  friend class PickleReader;
  struct Value {
    Kind kind = Kind::none;
    uint32_t place = 0;  ///< in the array of its kind
    union {
      int64_t integer = 0;
      double real;
    };
    std::string_view text;
  };

  std::vector<Value> values_;
  std::vector<std::vector<Index>> lists_;
  std::vector<std::vector<std::pair<Index, Index>>> dicts_;
  std::vector<Storage> storages_;
  std::vector<Tensor> tensors_;
  std::vector<Object> objects_;
  Index root_ = 0;
  size_t bytes_ = 0;
};

}  // namespace trireme
