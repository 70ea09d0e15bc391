#pragma once
// Joins the tensors of tensor ranks into a process's part of the complete one; reads only the needed parts of files.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/neox/element_source.h"
#include "checkpoint/neox/names.h"
#include "model/parameter_table.h"

namespace trireme {

/// A tensor rank's box of a tensor, row-major from an element of a source on.
struct NeoxPiece {
  const ElementSource* source;
  uint64_t first;
};

class NeoxJoiner {
 public:
  /// tables: the part of each tensor rank of the files; borrowed. folder: for warnings.
  NeoxJoiner(const std::vector<ParameterTable>& tables, std::string folder)
      : tables_(tables), folder_(std::move(folder)) {}

  /// Gives `store` the values of the part of the parameter that `own` holds: place in own's box, values. pieces: by
  /// tensor rank. Copies that are not the same on all ranks are averaged; shares are summed; both in f64.
  void join(const NeoxRule& rule, const Parameter& own, NeoxJoin how, std::span<const NeoxPiece> pieces,
            const std::function<void(int64_t, std::span<const float>)>& store);

  uint64_t bytes_read() const { return bytes_read_; }
  /// One warning about all copies that were far apart.
  void tell() const;

 private:
  void read_box(const NeoxPiece& piece, const Box& box, const Parameter& own,
                const std::function<void(int64_t, std::span<const float>)>& store);

  const std::vector<ParameterTable>& tables_;
  std::string folder_;
  std::vector<float> buffer_;
  uint64_t bytes_read_ = 0;
  size_t apart_ = 0;
  double furthest_ = 0;
  std::string furthest_name_;
};

}  // namespace trireme
