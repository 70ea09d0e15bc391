#include "data/prepare/split.h"

#include <algorithm>
#include <cmath>

#include "base/count.h"
#include "base/error.h"
#include "data/prepare/numpy_random.h"

namespace trireme {

DocumentSplit split_documents(uint64_t documents, const SplitRule& rule) {
  require(documents > 0, ErrorKind::data, "the input has no documents");
  require(rule.val_fraction >= 0 && rule.val_fraction < 1, ErrorKind::usage,
          "--val-fraction is {}, expected a number from 0 to below 1", rule.val_fraction);
  const auto val = static_cast<uint64_t>(std::ceil(rule.val_fraction * static_cast<double>(documents)));
  require(val < documents, ErrorKind::data,
          "--val-fraction {} of {} leaves none for training; give more documents or --val-fraction 0",
          rule.val_fraction, count_text(documents, "document"));
  DocumentSplit split;
  split.train = NumpyGenerator(rule.seed).permutation(documents);
  const auto border = split.train.begin() + static_cast<ptrdiff_t>(val);
  split.val.assign(split.train.begin(), border);
  split.train.erase(split.train.begin(), border);
  if (rule.order == DocumentOrder::input) {
    std::sort(split.train.begin(), split.train.end());
    std::sort(split.val.begin(), split.val.end());
  }
  return split;
}

std::string describe(const SplitRule& rule) {
  if (rule.val_fraction == 0) return "all documents in train";
  return fmt::format(
      "documents: the first ceil({} x n) of numpy default_rng({}).permutation(n) in val, the rest in train, {}",
      rule.val_fraction, rule.seed,
      rule.order == DocumentOrder::input ? "both in input order" : "both in the order of the permutation");
}

}  // namespace trireme
