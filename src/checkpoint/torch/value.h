#pragma once
// The values of a file of torch.save() that holds more than tensors: the saved state of programs. Objects of their
// classes are opaque: their state can be read, but they are never created.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "checkpoint/torch/container.h"

namespace trireme {

/// A value and the keys that lead to it, which errors name: "FILE: optimizer.state.0.step". Valid as long as the file.
class TorchValue {
 public:
  TorchValue(const TorchContainer& file, Pickle::Index value, std::string path)
      : file_(&file), value_(value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  bool is_none() const { return kind() == Pickle::Kind::none; }
  bool is_dict() const { return kind() == Pickle::Kind::dict; }
  bool is_list() const { return kind() == Pickle::Kind::list; }
  bool is_tensor() const { return kind() == Pickle::Kind::tensor; }
  bool is_object() const { return kind() == Pickle::Kind::object; }

  /// A key (a text, or a number written as one) of a dictionary, or of an object's state; nothing if it is absent or
  /// None.
  std::optional<TorchValue> find(std::string_view key) const;
  TorchValue at(std::string_view key) const;  ///< throws Error::data where find() finds nothing
  /// The entries of a dictionary; keys that are numbers as text, others are left out.
  std::vector<std::pair<std::string, TorchValue>> entries() const;
  std::vector<TorchValue> items() const;  ///< of a list

  // Throw Error::data naming what was expected.
  int64_t integer() const;  ///< also a tensor of one number, and the value of an enumeration
  double number() const;
  std::string_view text() const;
  TorchTensor tensor() const;
  std::vector<int64_t> sizes() const;  ///< a list of sizes

  /// "FILE: KEY ..." as Error::data.
  [[noreturn]] void fail_with(std::string_view what) const;

 private:
  Pickle::Kind kind() const { return file_->pickle().kind(value_); }
  TorchValue child(Pickle::Index value, std::string_view key) const;

  const TorchContainer* file_;
  Pickle::Index value_;
  std::string path_;
};

/// A mapped file; tensors are read from it on demand.
class TorchArchive {
 public:
  /// Throws Error::io, Error::data.
  explicit TorchArchive(const std::string& path)
      : file_(path), container_(file_.bytes(), path, Pickle::Classes::opaque) {}
  TorchValue root() const { return {container_, container_.pickle().root(), ""}; }
  const std::string& path() const { return file_.path(); }

 private:
  MappedFile file_;
  TorchContainer container_;
};

}  // namespace trireme
