#pragma once
// Which of cuBLASLt's algorithms computes which product, where they were timed. Kept in a file: another algorithm adds
// in another order, so a run that resumes takes the same again.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trireme {

/// What a product is made for: shapes, types, alignments, bias and beta, in the order of cublaslt.cc.
using ProductKey = std::array<int64_t, 12>;
/// cublasLtMatmulAlgo_t, which the library lets programs store.
using ProductAlgorithm = std::array<uint64_t, 8>;

class ProductChoices {
 public:
  /// path: a file of lines {"gpu": name, "library": version, "product": [12 numbers], "algorithm": [8 numbers]}, which
  /// may be missing. Lines of other GPUs and versions stay in it and are not used. Throws Error::io, or Error::data
  /// naming the line that is malformed.
  ProductChoices(std::string path, std::string gpu, int64_t library);

  /// nullptr: not timed yet.
  const ProductAlgorithm* find(const ProductKey& product) const;
  /// Also writes the file. Throws Error::io.
  void add(const ProductKey& product, const ProductAlgorithm& algorithm);

 private:
  std::string path_, gpu_;
  int64_t library_;
  std::vector<std::string> lines_;
  std::map<ProductKey, ProductAlgorithm> choices_;
};

}  // namespace trireme
