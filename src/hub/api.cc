#include "hub/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "hub/digest.h"

namespace trireme::hub {
namespace {

/// What a page of a login, a proxy or another server tells by.
std::string kind_of_answer(const Answer& answer) {
  const std::string type = answer.header("content-type");
  return type.starts_with("text/html") ? "a web page (text/html)" : type.empty() ? "something else" : type;
}

[[noreturn]] void refuse_answer(const Answer& answer, const std::string& lacks) {
  fail(ErrorKind::data,
       "{} answers with {} {}: that is no Hugging Face hub; is a login page or a proxy in between? HF_ENDPOINT names "
       "the "
       "hub",
       answer.url.shown(), kind_of_answer(answer), lacks);
}

/// ETag without quotes and the mark of a weak one.
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
    refuse_answer(answer, "and does not say how large the file is");
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
        fmt::format("the hub does not let {} read {} ({}{}): accept the conditions of the {} at {}{}",
                    settings.token.empty() ? "anybody without a token" : "the owner of the token", what, status, said,
                    kind, page, settings.token.empty() ? " and give a token (HF_TOKEN)" : " as the token's owner"));
  }
  if (code == "RevisionNotFound" || code == "EntryNotFound")
    throw NotThere(ErrorKind::io, fmt::format("{} has no {} ({}{})", page, what, status, said));
  if (status == 401 && !settings.token.empty())
    throw NotThere(ErrorKind::io,
                   fmt::format("the hub does not know the token (401), or it may not read {}; HF_TOKEN or "
                               "the file HF_TOKEN_PATH has it",
                               what));
  if (status == 401 || status == 404)
    throw NotThere(ErrorKind::io,
                   fmt::format("the hub has no {} {} that {} may read ({}{})", kind, repository.name,
                               settings.token.empty() ? "anybody without a token (HF_TOKEN)" : "the owner of the token",
                               status, said));
  throw Unreachable(ErrorKind::io, fmt::format("{} answers with status {}{}", answer.url.shown(), status, said));
}

Listing list_files(Http& http, const Settings& settings, const Repository& repository, const std::string& revision) {
  const std::string area = repository.kind == Kind::model ? "models" : "datasets";
  const Answer answer = http.get(parse_url(
      fmt::format("{}/api/{}/{}/revision/{}", settings.endpoint, area, repository.name, url_encoded(revision, true))));
  require_success(answer, settings, repository, revision == "main" ? repository.name : "revision " + revision);
  if (!answer.header("content-type").starts_with("application/json"))
    refuse_answer(answer, "in place of its list of files");
  const Json json = parse_json(answer.body, answer.url.shown());
  Listing listing;
  const auto sha = json.find("sha"), siblings = json.find("siblings");
  if (sha == json.end() || !sha->is_string() || siblings == json.end() || !siblings->is_array())
    refuse_answer(answer, "that lists no files");
  listing.commit = sha->get<std::string>();
  require(is_commit(listing.commit), ErrorKind::data, "{} names the commit \"{}\", 40 hexadecimal digits were expected",
          answer.url.shown(), listing.commit);
  for (const Json& sibling : *siblings) {
    const auto name = sibling.is_object() ? sibling.find("rfilename") : sibling.end();
    if (!sibling.is_object() || name == sibling.end() || !name->is_string())
      refuse_answer(answer, "that lists no files");
    listing.files.push_back(name->get<std::string>());
    require(is_safe_path(listing.files.back()), ErrorKind::data,
            "{} lists the file \"{}\", which would not stay inside the cache; nothing of it is fetched",
            answer.url.shown(), listing.files.back());
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
  if (answer.header("x-repo-commit").empty()) refuse_answer(answer, "and names no commit");
  require(answer.header("x-repo-commit") == commit, ErrorKind::data, "{} is of the commit {}, not of {}",
          answer.url.shown(), answer.header("x-repo-commit"), commit);
  require(Digest::is_name(file.hash), ErrorKind::data,
          "{} has the tag \"{}\", neither a SHA-256 nor a SHA-1 of Git: its contents could not be checked",
          answer.url.shown(), file.hash);
  return file;
}

}  // namespace trireme::hub
