// Any bytes: files that hold more than tensors give values or Error::data, and so does what is read of an optimizer's
// state; every element that is promised can be read.
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/neox/states.h"
#include "tests/fuzz/fuzz_file.h"

namespace {

using trireme::NeoxOptimizer;
using trireme::TorchValue;

void look_at(const TorchValue& value, int depth) {
  constexpr int kDeepest = 6;
  if (depth > kDeepest) return;
  if (value.is_tensor()) {
    const trireme::TorchTensor tensor = value.tensor();
    if (trireme::element_count(tensor.shape) < 4096) (void)trireme::read_f32(tensor, "fuzzed");
  } else if (value.is_dict()) {
    for (const auto& [key, entry] : value.entries()) look_at(entry, depth + 1);
  } else if (value.is_list()) {
    for (const TorchValue& item : value.items()) look_at(item, depth + 1);
  } else if (value.is_object()) {
    (void)value.find("cur_scale");
  }
}

/// The groups of the file in the corpus.
const trireme::NeoxGroups kGroups = {{{"a", {4, 3}, "a"}, {"b", {5}, "b"}}, {{"c", {3}, "c"}}};

void read_all(const NeoxOptimizer& optimizer) {
  for (const auto& group : kGroups) {
    for (const trireme::NeoxShape& shape : group) {
      const trireme::NeoxState* state = optimizer.find(shape.name);
      if (!state) std::abort();
      std::vector<float> values(trireme::element_count(shape.shape));
      (void)state->m->read(state->first, values);
      (void)state->v->read(state->first, values);
      if (state->master) (void)state->master->read(state->first, values);
    }
  }
}

template <class Read>
void only_data_errors(Read read) {
  try {
    read();
  } catch (const trireme::Error& e) {
    if (e.kind() != trireme::ErrorKind::data) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string path = fuzz_file({reinterpret_cast<const char*>(data), size}, ".pt");
  only_data_errors([&] {
    const trireme::TorchArchive file(path);
    only_data_errors([&] { look_at(file.root(), 0); });
    only_data_errors([&] {
      const trireme::TorchArchive* ranks[] = {&file};
      read_all(NeoxOptimizer(ranks, kGroups));
    });
    only_data_errors([&] { read_all(NeoxOptimizer(file.root(), kGroups, path)); });
  });
  return 0;
}
