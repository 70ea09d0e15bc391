#pragma once
// Files of torch.save(): dictionaries, numbers, texts and tensors, as torch.load(weights_only=True) reads them.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/dtype.h"

namespace trireme {

struct TorchTensorItem {
  DType dtype;  ///< f32 or bf16
  std::vector<int64_t> shape;
  std::function<std::vector<std::byte>()> bytes;  ///< row-major; asked for once, when it is written
};

/// A value to write; the empty one is None.
struct TorchItem {
  using Entries = std::vector<std::pair<std::string, TorchItem>>;
  std::variant<std::monostate, int64_t, double, std::string, Entries, TorchTensorItem> value;

  TorchItem() = default;
  TorchItem(int64_t integer) : value(integer) {}
  TorchItem(double real) : value(real) {}
  TorchItem(std::string text) : value(std::move(text)) {}
  TorchItem(const char* text) : value(std::string(text)) {}
  TorchItem(Entries dictionary) : value(std::move(dictionary)) {}
  TorchItem(TorchTensorItem tensor) : value(std::move(tensor)) {}
};

/// Writes the file at once under its name (AtomicFile). Throws Error::io.
void write_torch(const std::string& path, const TorchItem& root);

}  // namespace trireme
