#include "hub/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "hub/digest.h"

namespace trireme::hub {
namespace {

/// Describes the answer of a login page, a proxy or another server.
std::string kind_of_answer(const Answer& answer) {
  const std::string type = answer.header("content-type");
  return type.starts_with("text/html") ? "a web page (text/html)" : type.empty() ? "something else" : type;
}

[[noreturn]] void refuse_answer(const Answer& answer, const std::string& lacks) {
  fail(ErrorKind::data,
       "{} answers with {} {}: it is not a Hugging Face hub; is a login page or a proxy in between? HF_ENDPOINT names "
       "the "
       "hub",
       answer.url.shown(), kind_of_answer(answer), lacks);
}

/// ETag without quotes and weak mark.
std::string plain_tag(std::string tag) {
  if (tag.starts_with("W/")) tag.erase(0, 2);
  std::erase(tag, '"');
  return tag;
}

uint64_t size_of(const Answer& answer) {
  std::string text = answer.header("x-linked-size");
  if (text.empty() && answer.status / 100 == 2) text = answer.header("content-length");
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || bytes > (uint64_t{1} << 50))
    refuse_answer(answer, "without the file's size");
  return bytes;
}

}  // namespace

void require_success(const Answer& answer, const Settings& settings, const Repository& repository,
                     const std::string& what) {
  const int status = answer.status;
  if (status / 100 == 2) return;
  const std::string code = answer.header("x-error-code"), kind = name_of(repository.kind);
  const std::string page = settings.endpoint + "/" + repository.path();
  const std::string said = answer.header("x-error-message").empty() ? "" : ": " + answer.header("x-error-message");
  if (status == 403 || code == "GatedRepo") {
    throw NotThere(
        ErrorKind::io,
        fmt::format("the hub refuses {} access to {} ({}{}): accept the conditions of the {} at {}{}",
                    settings.token.empty() ? "users without a token" : "the token's owner", what, status, said, kind,
                    page, settings.token.empty() ? " and give a token (HF_TOKEN)" : " as the token's owner"));
  }
  if (code == "RevisionNotFound" || code == "EntryNotFound")
    throw NotThere(ErrorKind::io, fmt::format("{} has no {} ({}{})", page, what, status, said));
  if (status == 401 && !settings.token.empty())
    throw NotThere(ErrorKind::io, fmt::format("the hub does not accept the token (401), or the token gives no access "
                                              "to {}; it is in HF_TOKEN or the file HF_TOKEN_PATH",
                                              what));
  if (status == 401 || status == 404)
    throw NotThere(
        ErrorKind::io,
        fmt::format("the {} {} is missing on the hub, or {} cannot read it ({}{})", kind, repository.name,
                    settings.token.empty() ? "users without a token (HF_TOKEN)" : "the token's owner", status, said));
  throw Unreachable(ErrorKind::io, fmt::format("{} answers with status {}{}", answer.url.shown(), status, said));
}

Listing list_files(Http& http, const Settings& settings, const Repository& repository, const std::string& revision) {
  const std::string area = repository.kind == Kind::model ? "models" : "datasets";
  const Answer answer = http.get(parse_url(
      fmt::format("{}/api/{}/{}/revision/{}", settings.endpoint, area, repository.name, url_encoded(revision, true))));
  require_success(answer, settings, repository, revision == "main" ? repository.name : "revision " + revision);
  if (!answer.header("content-type").starts_with("application/json"))
    refuse_answer(answer, "instead of its list of files");
  const Json json = parse_json(answer.body, answer.url.shown());
  Listing listing;
  const auto sha = json.find("sha"), siblings = json.find("siblings");
  if (sha == json.end() || !sha->is_string() || siblings == json.end() || !siblings->is_array())
    refuse_answer(answer, "that lists no files");
  listing.commit = sha->get<std::string>();
  require(is_commit(listing.commit), ErrorKind::data, "{} names the commit \"{}\", expected 40 hexadecimal digits",
          answer.url.shown(), listing.commit);
  for (const Json& sibling : *siblings) {
    const auto name = sibling.is_object() ? sibling.find("rfilename") : sibling.end();
    if (!sibling.is_object() || name == sibling.end() || !name->is_string())
      refuse_answer(answer, "that lists no files");
    listing.files.push_back(name->get<std::string>());
    require(is_safe_path(listing.files.back()), ErrorKind::data,
            "{} lists the file \"{}\", whose path would leave the cache; nothing is fetched", answer.url.shown(),
            listing.files.back());
  }
  std::ranges::sort(listing.files);
  return listing;
}

Url file_url(const Settings& settings, const Repository& repository, const std::string& commit,
             const std::string& path) {
  return parse_url(fmt::format("{}/{}/resolve/{}/{}", settings.endpoint, repository.path(), commit, url_encoded(path)));
}

RemoteFile ask_for_file(Http& http, const Settings& settings, const Repository& repository, const std::string& commit,
                        const std::string& path) {
  const Answer answer = http.head(file_url(settings, repository, commit, path));
  if (answer.status / 100 != 3) require_success(answer, settings, repository, path);
  const std::string linked = answer.header("x-linked-etag");
  RemoteFile file{path, plain_tag(linked.empty() ? answer.header("etag") : linked), size_of(answer)};
  if (answer.header("x-repo-commit").empty()) refuse_answer(answer, "without a commit");
  require(answer.header("x-repo-commit") == commit, ErrorKind::data, "{} belongs to commit {}, expected {}",
          answer.url.shown(), answer.header("x-repo-commit"), commit);
  require(Digest::is_name(file.hash), ErrorKind::data,
          "{} has the tag \"{}\", which is not a SHA-256 or Git SHA-1: its contents cannot be verified",
          answer.url.shown(), file.hash);
  return file;
}

}  // namespace trireme::hub
