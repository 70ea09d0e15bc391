// Any bytes as .idx, sidecar, .npy, or token file: Error::data, or something whose every id can be read.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/indexed_dataset.h"
#include "data/npy_file.h"
#include "data/token_dataset.h"

namespace {

/// Files need a folder; memory is fast enough for a fuzzer.
const std::string& folder() {
  static const std::string path = [] {
    std::string name = "/dev/shm/trireme-fuzz-XXXXXX";
    if (!mkdtemp(name.data())) std::abort();
    return name;
  }();
  return path;
}

void write(const std::string& name, std::string_view bytes) {
  std::FILE* file = std::fopen((folder() + "/" + name).c_str(), "wb");
  if (!file || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size()) std::abort();
  std::fclose(file);
}

template <class Body>
void expect_data_error_at_most(Body body) {
  try {
    body();
  } catch (const trireme::Error& e) {
    if (e.kind() != trireme::ErrorKind::data && e.kind() != trireme::ErrorKind::usage) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0:
      write("i.bin", std::string_view("\x01\0\x02\0\x03\0\x04\0", 8));
      write("i.idx", bytes);
      expect_data_error_at_most([] {
        const IndexedDataset dataset(folder() + "/i");
        uint64_t ids = 0;
        for (uint64_t i = 0; i < dataset.sequences(); ++i) ids += dataset.sequence(i).size();
        if (ids != dataset.tokens()) std::abort();
        dataset.check_ids(5, true);
      });
      break;
    case 1:
      write("t.bin", std::string_view("\x01\0\x02\0\x03\0\x04\0", 8));
      write("t.bin.json", bytes);
      expect_data_error_at_most([] {
        if (TokenDataset(folder() + "/t.bin", 0, true).size() != 4) std::abort();
      });
      break;
    case 2:
      write("a.npy", bytes);
      expect_data_error_at_most([] {
        const NpyArray array(folder() + "/a.npy");
        for (uint64_t i = 0; i < array.size(); ++i) array.at(i);
      });
      break;
    case 4:  // the sidecar of a file of 32-bit ids
      write("w.bin", std::string_view("\x01\0\0\0\0\0\x01\0", 8));
      write("w.bin.json", bytes);
      expect_data_error_at_most([] {
        const TokenDataset dataset(folder() + "/w.bin", 0, true);
        if (dataset.size() != 8 / dataset.tokens().width()) std::abort();
      });
      break;
    case 5:  // any token file without a sidecar
      write("u.bin", bytes);
      expect_data_error_at_most([] {
        const TokenDataset dataset(folder() + "/u.bin", 0, true);
        std::vector<int32_t> ids(dataset.size());
        dataset.tokens().copy(0, ids);
        for (const int32_t id : ids) {
          if (id < 0) std::abort();
        }
      });
      break;
    default:
      expect_data_error_at_most([&] {
        const PartBorders borders = part_borders(std::string(bytes), 1000);
        if (borders[3] != 1000 || borders[0] != 0) std::abort();
      });
  }
  return 0;
}
