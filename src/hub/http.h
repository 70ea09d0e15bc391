#pragma once
// Requests to a hub: redirects never send the token to another host, failed attempts are repeated, the usual variables
// set proxies (https_proxy, all_proxy, no_proxy).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "hub/settings.h"

namespace trireme::hub {

/// The hub did not answer, or not as expected, in all attempts.
class Unreachable : public Error {
 public:
  using Error::Error;
};

struct Answer {
  Url url;                                     ///< the one that answered
  int status = 0;                              ///< HTTP status
  std::map<std::string, std::string> headers;  ///< names in lower case; the last of several
  std::string body;                            ///< unless a receiver took it

  /// Empty: missing.
  std::string header(const std::string& name) const;
};

/// Receives the body of a file. Its functions may throw, which ends the request.
class Receiver {
 public:
  virtual ~Receiver() = default;
  /// Bytes that it has: each attempt asks for the bytes after them.
  virtual uint64_t have() = 0;
  /// Status of the attempt that begins: 200 (from the first byte on) or 206.
  virtual void begin(const Answer& answer) = 0;
  virtual void take(std::span<const std::byte> bytes) = 0;
  /// After a completed attempt: whether the file is complete; if not, another attempt follows.
  virtual bool whole() = 0;
};

/// A handle of libcurl, which curl_easy_cleanup() ends. Throws Error::io.
void* open_curl();
/// Where the distribution keeps the certificates of authorities: the library only knows the place of its own. Empty if
/// there is none.
std::string system_certificates();

/// For one thread. Borrows nothing.
class Http {
 public:
  /// `alive` is called about once a second or more often during a request or a wait; an exception from it ends both.
  Http(Settings settings, std::function<void()> alive);
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;
  ~Http();

  /// The answer to HEAD; follows redirects on the same host, returns one to another host.
  Answer head(const Url& url);
  /// A text of at most 64 MiB. Throws Error::data for a longer one.
  Answer get(const Url& url);
  /// Fetches bytes of a file.
  Answer get(const Url& url, Receiver& receiver);
  // All return on 2xx, a 3xx of head(), or a 4xx that another attempt would not change. They throw Unreachable with the
  // reason after five attempts in a row without a byte, at once for a wrong certificate; Error::data for a redirect to
  // a URL that is neither https nor on this host.

 private:
  struct Attempt;
  Answer send(bool head, const Url& url, Receiver* receiver);
  Answer follow(bool head, const Url& url, Receiver* receiver, Attempt& attempt);
  Answer exchange(bool head, const Url& url, Receiver* receiver, Attempt& attempt);
  void configure(bool head, const Url& url, Attempt& attempt);
  void wait(double seconds);

  Settings settings_;
  Url endpoint_;
  std::string certificates_;
  std::function<void()> alive_;
  void* curl_ = nullptr;
  bool reached_ = false;  ///< a server has answered
};

}  // namespace trireme::hub
