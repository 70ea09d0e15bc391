#pragma once
// The hub's two questions: which files a revision has, and what one of them is.

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

/// The hub has no repository or revision of that name, or not for us.
class NotThere : public Error {
 public:
  using Error::Error;
};

/// Throws NotThere, Unreachable, Error::data for an answer that is none of a hub, or for a list with an unsafe path.
Listing list_files(Http& http, const Settings& settings, const Repository& repository, const std::string& revision);

/// Throws as list_files() does.
RemoteFile ask_for_file(Http& http, const Settings& settings, const Repository& repository, const std::string& commit,
                        const std::string& path);

/// Where the file's bytes are asked for.
Url file_url(const Settings& settings, const Repository& repository, const std::string& commit,
             const std::string& path);

/// Throws NotThere, Unreachable for an answer without success.
void require_success(const Answer& answer, const Settings& settings, const Repository& repository,
                     const std::string& what);

}  // namespace trireme::hub
