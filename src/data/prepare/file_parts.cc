#include "data/prepare/file_parts.h"

#include <algorithm>
#include <filesystem>

#include "data/prepare/ordered_pipeline.h"

namespace trireme {
namespace {

constexpr uint64_t kPart = uint64_t{16} << 20;  // some milliseconds for one thread

struct Item {
  size_t file = 0;
  uint64_t begin = 0, bytes = 0, result = 0;
};

}  // namespace

uint64_t sum_over_parts(const std::vector<std::string>& paths, int threads,
                        const std::function<uint64_t(FilePart)>& count) {
  Item next;
  uint64_t size = paths.empty() ? 0 : std::filesystem::file_size(paths[0]), sum = 0;
  const auto find_part = [&](Item& item) {
    while (next.begin == size) {
      if (next.file + 1 >= paths.size()) return false;
      next = {.file = next.file + 1};
      size = std::filesystem::file_size(paths[next.file]);
    }
    next.bytes = std::min(kPart, size - next.begin);
    item = next;
    next.begin += next.bytes;
    return true;
  };
  const auto count_part = [&](Item& item, int) {
    const auto source = open_bytes(paths[item.file]);
    source->skip(item.begin);
    item.result = count({*source, item.begin, item.bytes});
  };
  OrderedPipeline<Item>::run(threads, {find_part, count_part, [&](Item& item) { sum += item.result; }});
  return sum;
}

}  // namespace trireme
