#pragma once
// The container of torch.save()'s files: a pickle and the memory of its tensors. ZIP, and the plain stream of torch
// before 1.6. It is read as data (text/files/pickle.h): nothing of it is executed, and memory is bounded.

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/torch/tensor.h"
#include "text/files/pickle.h"

namespace trireme {

class TorchContainer {
 public:
  /// Reads a complete file image; all views refer to it. The pickle's checksum is verified here, that of a tensor's
  /// storage when the tensor is read. `where` names it in errors. Throws Error::data: what is wrong,
  /// found, expected; other formats by their name.
  TorchContainer(std::span<const std::byte> file, std::string_view where,
                 Pickle::Classes classes = Pickle::Classes::refused);

  const Pickle& pickle() const { return parts_.pickle; }
  const std::string& where() const { return where_; }
  /// A tensor of the pickle, called `name`, checked to be inside its storage. Throws Error::data.
  TorchTensor tensor(Pickle::Index value, std::string_view name) const;

  using Storages = std::map<std::string_view, std::shared_ptr<const TorchStorage>>;
  struct Parts {
    Pickle pickle;
    Storages storages;
  };

 private:
  std::string where_;
  Parts parts_;
};

}  // namespace trireme
