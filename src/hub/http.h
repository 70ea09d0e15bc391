#pragma once
// Requests to a hub: redirects that never take the token to another host, attempts that are repeated, proxies by the
// usual variables (https_proxy, all_proxy, no_proxy).

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
#include "hub/url.h"

namespace trireme::hub {

/// The hub did not answer, or not with what was asked for, until no attempt was left.
class Unreachable : public Error {
 public:
  using Error::Error;
};

struct Answer {
  Url url;                                     ///< that answered
  int status = 0;                              ///< of HTTP
  std::map<std::string, std::string> headers;  ///< names in small letters; of several the last
  std::string body;                            ///< unless a receiver took it

  /// Empty: not there.
  std::string header(const std::string& name) const;
};

/// Takes the body of a file. Its functions may throw, which ends the request.
class Receiver {
 public:
  virtual ~Receiver() = default;
  /// Bytes that it has: the request asks for those behind them, again before each attempt.
  virtual uint64_t have() = 0;
  /// Status 200 (from the first byte on) or 206 of the attempt that begins.
  virtual void begin(const Answer& answer) = 0;
  virtual void take(std::span<const std::byte> bytes) = 0;
  /// After an attempt that came to its end: whether that was all; if not, there is another one.
  virtual bool whole() = 0;
};

/// Of one thread. Borrows nothing.
class Http {
 public:
  /// `alive` is called at least about once a second while a request takes its time, or waits; what it throws ends that.
  Http(Settings settings, std::function<void()> alive);
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;
  ~Http();

  /// What a HEAD says, redirects on the same host followed; one to another host is the answer.
  Answer head(const Url& url);
  /// A text of at most 64 MiB. Throws Error::data for a longer one.
  Answer get(const Url& url);
  /// Bytes of a file.
  Answer get(const Url& url, Receiver& receiver);
  // All: 2xx, or a 3xx of head(), or 4xx that another attempt would not change. They throw Unreachable with the reason
  // after five attempts in a row without a byte; at once where a certificate is wrong; Error::data for a redirect to
  // what is neither https nor on this host.

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
  bool reached_ = false;  ///< some server has answered
};

}  // namespace trireme::hub
