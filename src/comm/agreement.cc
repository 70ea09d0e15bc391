#include "comm/agreement.h"

#include <exception>
#include <new>

#include "base/host.h"

namespace trireme {

void agree_on_success(Scalars& scalars, const std::string& failure, ErrorKind kind) {
  // The kind travels as one letter before the text.
  const std::string where = scalars.rank() == 0 ? "" : fmt::format("rank {} on {}: ", scalars.rank(), host_name());
  const std::string own = failure.empty() ? failure : static_cast<char>('a' + static_cast<int>(kind)) + where + failure;
  const std::vector<std::string> failures = scalars.gather(own);
  for (const std::string& first : failures) {
    if (!first.empty()) throw CommonError(static_cast<ErrorKind>(first[0] - 'a'), first.substr(1));
  }
}

void together(Scalars& scalars, const std::function<void()>& body) {
  std::string failure;
  ErrorKind kind = ErrorKind::io;
  try {
    body();
  } catch (const Error& e) {
    failure = e.what();
    kind = e.kind();
  } catch (const std::bad_alloc&) {
    failure = "out of memory";
  } catch (const std::exception& e) {
    failure = *e.what() ? e.what() : "unknown error";
  }
  agree_on_success(scalars, failure, kind);
}

}  // namespace trireme
