#include "hub/http.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "base/log.h"
#include "base/text.h"
#include "base/time.h"

namespace trireme::hub {
namespace {

constexpr int kAttempts = 5;
constexpr int kMostRedirects = 10;
constexpr double kLongestWait = 300;  // seconds; does not wait longer for a hub
constexpr size_t kMostText = size_t{64} << 20;

/// Whether another attempt may succeed.
bool is_passing(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

bool is_passing(CURLcode code) {
  constexpr std::array kCodes = {CURLE_COULDNT_RESOLVE_PROXY,
                                 CURLE_COULDNT_RESOLVE_HOST,
                                 CURLE_COULDNT_CONNECT,
                                 CURLE_PARTIAL_FILE,
                                 CURLE_OPERATION_TIMEDOUT,
                                 CURLE_SSL_CONNECT_ERROR,
                                 CURLE_GOT_NOTHING,
                                 CURLE_SEND_ERROR,
                                 CURLE_RECV_ERROR,
                                 CURLE_HTTP2,
                                 CURLE_HTTP2_STREAM};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/// Seconds that the answer asks to wait, given as a number or a date.
std::optional<double> retry_after(const Answer& answer) {
  const std::string text = answer.header("retry-after");
  if (text.empty()) return std::nullopt;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(seconds)) return std::max(seconds, 0.0);
  const time_t date = curl_getdate(text.c_str(), nullptr);
  if (date < 0) return std::nullopt;
  return std::max(std::difftime(date, std::time(nullptr)), 0.0);
}

/// The n-th wait, partly random, so that the nodes of a cluster return one after the other.
double backoff(double first, int failures) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return first * std::ldexp(1.0, failures - 1) * (1 + 0.25 * std::generate_canonical<double, 16>(random));
}

}  // namespace

std::string system_certificates() {
  for (const char* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    std::error_code unreadable;
    if (std::filesystem::exists(path, unreadable)) return path;
  }
  return "";
}

void* open_curl() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  void* const curl = curl_easy_init();
  require(curl != nullptr, ErrorKind::io, "libcurl cannot be started");
  return curl;
}

std::string Answer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

/// One exchange, for the library's callbacks.
struct Http::Attempt {
  Http* http = nullptr;
  Receiver* receiver = nullptr;
  Answer answer;
  bool begun = false;          ///< the receiver was informed
  bool moved = false;          ///< and took bytes
  std::exception_ptr failure;  ///< from a callback
  std::string reason;          ///< why it failed, if it may be repeated; else empty
  std::array<char, CURL_ERROR_SIZE> text{};

  static size_t on_header(char* data, size_t, size_t size, void* self) {
    auto& answer = static_cast<Attempt*>(self)->answer;
    std::string_view line(data, size);
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {  // also of a proxy, before the final one
      answer.headers.clear();
      return size;
    }
    const size_t colon = line.find(':');
    if (colon == line.npos) return size;
    const std::string name = lower_case(line.substr(0, colon));
    line.remove_prefix(colon + 1);
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.front()))) line.remove_prefix(1);
    answer.headers[name] = line;
    return size;
  }

  static size_t on_body(char* data, size_t, size_t size, void* self) {
    auto& attempt = *static_cast<Attempt*>(self);
    try {
      attempt.take({data, size});
      return size;
    } catch (...) {
      attempt.failure = std::current_exception();
      return CURL_WRITEFUNC_ERROR;
    }
  }

  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    auto& attempt = *static_cast<Attempt*>(self);
    try {
      attempt.http->alive_();
      return 0;
    } catch (...) {
      attempt.failure = std::current_exception();
      return 1;
    }
  }

  /// Informs the receiver, once, that its answer has arrived.
  void begin() {
    if (receiver == nullptr || begun) return;
    long status = 0;
    curl_easy_getinfo(http->curl_, CURLINFO_RESPONSE_CODE, &status);
    answer.status = static_cast<int>(status);
    if (status != 200 && status != 206) return;
    begun = true;
    receiver->begin(answer);
  }

  void take(std::string_view bytes) {
    begin();
    if (begun) {
      receiver->take(std::as_bytes(std::span(bytes.data(), bytes.size())));
      moved = moved || !bytes.empty();
      return;
    }
    require(answer.body.size() + bytes.size() <= kMostText, ErrorKind::data,
            "{} answers with more than {} bytes of text", answer.url.shown(), kMostText);
    answer.body += bytes;
  }
};

Http::Http(Settings settings, std::function<void()> alive)
    : settings_(std::move(settings)),
      endpoint_(parse_url(settings_.endpoint)),
      certificates_(settings_.certificates.empty() ? system_certificates() : settings_.certificates),
      alive_(std::move(alive)),
      curl_(open_curl()) {}

Http::~Http() { curl_easy_cleanup(curl_); }

void Http::configure(bool head, const Url& url, Attempt& attempt) {
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl_, option, value); };
  curl_easy_reset(curl_);  // keeps connections
  set(CURLOPT_URL, url.text().c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_NOBODY, head ? 1L : 0L);
  set(CURLOPT_USERAGENT, "trireme");
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(settings_.connect_seconds));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(settings_.stalled_seconds));
  if (!certificates_.empty()) set(CURLOPT_CAINFO, certificates_.c_str());
  if (url.scheme == "http") set(CURLOPT_PROXY, "");  // this host only: unencrypted data must not leave it
  set(CURLOPT_ERRORBUFFER, attempt.text.data());
  set(CURLOPT_HEADERFUNCTION, &Attempt::on_header);
  set(CURLOPT_HEADERDATA, &attempt);
  set(CURLOPT_WRITEFUNCTION, &Attempt::on_body);
  set(CURLOPT_WRITEDATA, &attempt);
  set(CURLOPT_XFERINFOFUNCTION, &Attempt::on_progress);
  set(CURLOPT_XFERINFODATA, &attempt);
  set(CURLOPT_NOPROGRESS, 0L);
}

Answer Http::exchange(bool head, const Url& url, Receiver* receiver, Attempt& attempt) {
  require(url.may_be_asked(), ErrorKind::data,
          "{} is neither https nor on this host: Trireme sends no unencrypted requests", url.shown());
  attempt.http = this;
  attempt.receiver = receiver;
  attempt.answer = {};
  attempt.answer.url = url;
  attempt.begun = false;
  attempt.failure = nullptr;
  attempt.reason.clear();
  configure(head, url, attempt);
  // Sizes and ranges refer to the file, not to a compressed form.
  curl_slist* lines = curl_slist_append(nullptr, "Accept-Encoding: identity");
  const uint64_t from = receiver == nullptr ? 0 : receiver->have();
  if (from > 0) lines = curl_slist_append(lines, fmt::format("Range: bytes={}-", from).c_str());
  if (!settings_.token.empty() && url.same_origin(endpoint_))
    lines = curl_slist_append(lines, ("Authorization: Bearer " + settings_.token).c_str());
  curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, lines);
  const CURLcode code = curl_easy_perform(curl_);
  curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, nullptr);
  curl_slist_free_all(lines);
  if (attempt.failure) std::rethrow_exception(attempt.failure);
  const std::string text = attempt.text[0] != '\0' ? attempt.text.data() : curl_easy_strerror(code);
  if (is_passing(code)) {
    attempt.reason = text;
  } else if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
    throw Unreachable(ErrorKind::io,
                      fmt::format("{} is not trusted: {}; set SSL_CERT_FILE to the certificates of trusted authorities "
                                  "(now {}), which the package ca-certificates installs",
                                  url.shown(), text, certificates_.empty() ? "none" : certificates_));
  } else if (code != CURLE_OK) {
    throw Unreachable(ErrorKind::io, fmt::format("cannot fetch {}: {}", url.shown(), text));
  }
  long status = 0;
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
  attempt.answer.status = static_cast<int>(status);
  reached_ = reached_ || status > 0;
  if (code == CURLE_OK && is_passing(attempt.answer.status)) attempt.reason = fmt::format("status {}", status);
  if (attempt.reason.empty()) attempt.begin();  // an empty file
  return attempt.answer;
}

Answer Http::follow(bool head, const Url& url, Receiver* receiver, Attempt& attempt) {
  Url at = url;
  for (int redirects = 0; redirects <= kMostRedirects; ++redirects) {
    Answer answer = exchange(head, at, receiver, attempt);
    if (!attempt.reason.empty() || !is_redirect(answer.status)) return answer;
    const std::string location = answer.header("location");
    require(!location.empty(), ErrorKind::data, "{} redirects without a target", at.shown());
    Url next = redirected(at, location);
    require(next.may_be_asked(), ErrorKind::data,
            "{} redirects to {}, which is neither https nor on this host; nothing is fetched from there", at.shown(),
            next.shown());
    if (head && !next.same_origin(at)) return answer;
    at = std::move(next);
  }
  fail(ErrorKind::data, "{} redirects more than {} times", url.shown(), kMostRedirects);
}

void Http::wait(double seconds) {
  const auto start = Clock::now();
  while (true) {
    alive_();
    const double left = seconds - seconds_since(start);
    if (left <= 0) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, 0.1)));
  }
}

Answer Http::send(bool head, const Url& url, Receiver* receiver) {
  for (int failures = 0;;) {
    Attempt attempt;
    Answer answer = follow(head, url, receiver, attempt);
    if (attempt.reason.empty() && attempt.begun && !receiver->whole())
      attempt.reason = "the connection ended before the end of the file";
    if (attempt.reason.empty()) return answer;
    failures = attempt.moved ? 1 : failures + 1;
    const std::optional<double> asked = retry_after(answer);
    // Does not wait if the network was never reached, only if it was lost.
    const int most = reached_ || attempt.answer.status > 0 ? kAttempts : settings_.first_attempts;
    if (failures >= most)
      throw Unreachable(ErrorKind::io, fmt::format("cannot fetch {}: {}{}", url.shown(), attempt.reason,
                                                   most > 1 ? fmt::format(" ({} attempts)", most) : ""));
    const double seconds = asked.value_or(backoff(settings_.first_wait, failures));
    if (seconds > kLongestWait)
      throw Unreachable(ErrorKind::io, fmt::format("cannot fetch {}: {}, and it asks to retry after {:.0f} s",
                                                   url.shown(), attempt.reason, seconds));
    log::info_all("{}: {}; retrying in {:.1f} s{}", url.shown(), attempt.reason, seconds,
                  attempt.moved ? "" : fmt::format(" (attempt {} of {})", failures + 1, most));
    wait(seconds);
  }
}

Answer Http::head(const Url& url) { return send(true, url, nullptr); }
Answer Http::get(const Url& url) { return send(false, url, nullptr); }
Answer Http::get(const Url& url, Receiver& receiver) { return send(false, url, &receiver); }

}  // namespace trireme::hub
