#include "cluster/private_folder.h"

#include <cstdlib>
#include <system_error>

#include "base/error.h"

namespace trireme {

PrivateFolder::PrivateFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "trireme-launch-XXXXXX").string();
  require(mkdtemp(name.data()) != nullptr, ErrorKind::io, "cannot create a temporary folder {}", name);
  path_ = name;
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace trireme
