#pragma once
// A hub of two servers, like the real one: the hub itself, and another host to which large files are redirected. Both
// answer correctly unless a test changes it.

#include <fmt/format.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/file.h"
#include "hub/digest.h"
#include "tests/support/https_server.h"

namespace trireme {

/// SHA-256 or Git's SHA-1, which the hub uses as names of contents.
inline std::string hub_hash(const std::string& contents, bool large) {
  hub::Digest digest(std::string(large ? 64 : 40, '0'), contents.size());
  digest.add(std::as_bytes(std::span(contents.data(), contents.size())));
  return digest.finish();
}

class FakeHub {
 public:
  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";
  /// The answer to give instead; empty: the usual one.
  using Trick = std::function<std::optional<WebReply>(const WebRequest&)>;

  /// "models/gpt2" or "datasets/nyu-mll/glue".
  void add(const std::string& repository, const std::string& file, std::string contents, bool large = false) {
    files_[repository][file] = {std::move(contents), large};
  }
  /// Requests to the hub's host; to the other one.
  void trick(Trick trick) { set(trick_, std::move(trick)); }
  void trick_elsewhere(Trick trick) { set(elsewhere_trick_, std::move(trick)); }

  const HttpsServer& hub() const { return hub_; }
  const HttpsServer& elsewhere() const { return elsewhere_; }

 private:
  struct File {
    std::string contents;
    bool large = false;
  };

  void set(Trick& which, Trick trick) {
    const std::lock_guard lock(mutex_);
    which = std::move(trick);
  }
  std::optional<WebReply> tricked(const Trick& which, const WebRequest& request) {
    const std::lock_guard lock(mutex_);
    return which ? which(request) : std::nullopt;
  }

  static WebReply not_found(const char* code) { return {404, {{"X-Error-Code", code}}, ""}; }

  static WebReply part(const WebRequest& request, const std::string& contents) {
    const std::string range = request.header("range");
    if (!range.starts_with("bytes=")) return {200, {}, contents};
    const size_t from = std::stoul(range.substr(6));
    if (from >= contents.size()) return {416, {}, ""};
    return {206,
            {{"Content-Range", fmt::format("bytes {}-{}/{}", from, contents.size() - 1, contents.size())}},
            contents.substr(from)};
  }

  WebReply list(const std::string& rest) const {
    const size_t at = rest.find("/revision/");
    const auto found = files_.find(rest.substr(0, at));
    if (found == files_.end()) return {401, {{"X-Error-Message", "Invalid username or password."}}, ""};
    const std::string revision = rest.substr(at + 10);
    if (revision != "main" && revision != kCommit) return not_found("RevisionNotFound");
    std::string body = fmt::format(R"({{"sha":"{}","siblings":[)", kCommit);
    for (const auto& [name, file] : found->second)
      body += fmt::format(R"({}{{"rfilename":"{}"}})", body.ends_with('[') ? "" : ",", name);
    return {200, {{"Content-Type", "application/json; charset=utf-8"}}, body + "]}"};
  }

  WebReply resolve(const WebRequest& request, std::string path) {
    if (!path.starts_with("datasets/")) path.insert(0, "models/");
    const size_t at = path.find("/resolve/"), slash = path.find('/', at + 9);
    const auto repository = files_.find(path.substr(0, at));
    if (repository == files_.end()) return not_found("RepoNotFound");
    const auto found = repository->second.find(path.substr(slash + 1));
    if (found == repository->second.end()) return not_found("EntryNotFound");
    const File& file = found->second;
    const std::string hash = hub_hash(file.contents, file.large);
    if (file.large)
      return {302,
              {{"X-Repo-Commit", kCommit},
               {"X-Linked-Etag", '"' + hash + '"'},
               {"X-Linked-Size", std::to_string(file.contents.size())},
               {"Location", fmt::format("{}/cdn/{}?signature=secret", elsewhere_.url(), hash)}},
              ""};
    WebReply reply = part(request, file.contents);
    reply.headers.emplace_back("X-Repo-Commit", kCommit);
    reply.headers.emplace_back("ETag", '"' + hash + '"');
    return reply;
  }

  WebReply answer(const WebRequest& request) {
    if (auto reply = tricked(trick_, request)) return *reply;
    if (request.path.starts_with("/api/")) return list(request.path.substr(5));
    return resolve(request, request.path.substr(1));
  }

  WebReply answer_elsewhere(const WebRequest& request) {
    if (auto reply = tricked(elsewhere_trick_, request)) return *reply;
    for (const auto& [repository, files] : files_) {
      for (const auto& [name, file] : files) {
        if (request.path.find(hub_hash(file.contents, true)) != std::string::npos) return part(request, file.contents);
      }
    }
    return not_found("");
  }

  std::map<std::string, std::map<std::string, File>> files_;
  std::mutex mutex_;
  Trick trick_, elsewhere_trick_;
  HttpsServer elsewhere_{[this](const WebRequest& request) { return answer_elsewhere(request); }};
  HttpsServer hub_{[this](const WebRequest& request) { return answer(request); }};
};

}  // namespace trireme
