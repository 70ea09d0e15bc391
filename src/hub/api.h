#pragma once
// The two requests to the hub: the files of a revision, and the properties of a file.

#include <cstdint>
#include <string>
#include <vector>

#include "hub/http.h"
#include "hub/name.h"
#include "hub/settings.h"

namespace trireme::hub {

struct Listing {
  std::string commit;              ///< of the revision
  std::vector<std::string> files;  ///< safe relative paths, sorted
};

struct RemoteFile {
  std::string path;
  std::string hash;  ///< SHA-256 or Git's SHA-1 of its contents, and the name of its blob
  uint64_t bytes = 0;
};

/// The repository or revision is missing on the hub, or not accessible.
class NotThere : public Error {
 public:
  using Error::Error;
};

/// Throws NotThere, Unreachable, Error::data if the answer is not a hub's or lists an unsafe path.
Listing list_files(Http& http, const Settings& settings, const Repository& repository, const std::string& revision);

/// Throws as list_files() does.
RemoteFile ask_for_file(Http& http, const Settings& settings, const Repository& repository, const std::string& commit,
                        const std::string& path);

/// The URL of the file's bytes.
Url file_url(const Settings& settings, const Repository& repository, const std::string& commit,
             const std::string& path);

/// Throws NotThere or Unreachable unless the answer is a success.
void require_success(const Answer& answer, const Settings& settings, const Repository& repository,
                     const std::string& what);

}  // namespace trireme::hub
