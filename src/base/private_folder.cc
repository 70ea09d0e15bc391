#include "base/private_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "base/error.h"

namespace trireme {

PrivateFolder::PrivateFolder(const char* name) {
  std::string path = (std::filesystem::temp_directory_path() / fmt::format("trireme-{}-XXXXXX", name)).string();
  const bool made = mkdtemp(path.data()) != nullptr;
  require(made, ErrorKind::io, "cannot create a temporary folder {}: {}", path, std::strerror(errno));
  path_ = path;
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace trireme
