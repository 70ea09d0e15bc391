#include "data/prepare/temporary_copy.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "base/file.h"
#include "data/prepare/byte_source.h"

namespace trireme {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;

}  // namespace

TemporaryCopy::TemporaryCopy(const std::string& folder, const std::string& source, size_t number)
    : path_(fmt::format("{}/.input-{}-{}-{}", folder, getpid(), number,
                        std::filesystem::path(source).filename().string())) {
  const auto from = open_bytes(source);
  AtomicFile copy(path_);
  std::vector<char> buffer(kBuffer);
  while (const size_t n = from->read(buffer.data(), buffer.size())) copy.write(std::string_view(buffer.data(), n));
  copy.commit();
}

TemporaryCopy::~TemporaryCopy() { unlink(path_.c_str()); }

}  // namespace trireme
