// trireme fetch: downloads a model or a data set into the Hugging Face cache.

#include <fmt/core.h>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "hub/api.h"
#include "hub/place.h"

namespace trireme {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  trireme fetch gpt2                                  then: trireme sample --model gpt2 --prompt \"Once\"\n"
    "  trireme fetch EleutherAI/pythia-160m --revision step1000   then: --model EleutherAI/pythia-160m@step1000\n"
    "  trireme fetch glue/mrpc --dataset                   then: trireme glue --task-name mrpc ...\n"
    "  trireme fetch roneneldan/TinyStories --dataset --include '*train*'\n\n"
    "The names are those of https://huggingface.co. Commands that take a model, a tokenizer or data also accept them "
    "and\nfetch missing files; `fetch` also checks for a newer version. An interrupted download is resumed.\n"
    "Files are stored where Python's huggingface_hub stores them: HF_HUB_CACHE, or HF_HOME/hub\n"
    "(~/.cache/huggingface/hub). HF_TOKEN or HF_HOME/token is the token for private files, HF_ENDPOINT another "
    "hub,\n"
    "HF_HUB_OFFLINE=1 uses no network; https_proxy and no_proxy are respected. docs/models.md has more.";

hub::Snapshot fetch(const hub::Settings& settings, const hub::Repository& repository, const std::string& revision,
                    const hub::Selection& selection) {
  try {
    return hub::fetch(settings, repository, revision, selection, [] {});
  } catch (const hub::NotThere& e) {
    fail(ErrorKind::io, "{}{}", e.what(), hub::advice(settings, repository, revision));
  } catch (const hub::Unreachable& e) {
    fail(ErrorKind::io, "{}{}", e.what(), hub::advice(settings, repository, revision));
  }
}

}  // namespace

int run_fetch(CommandLine line) {
  std::string name, revision;
  bool dataset = false;
  std::vector<std::string> patterns;
  Flags app(std::move(line), "trireme fetch",
            "Downloads a model or a data set of the Hugging Face hub into the cache and prints its folder.");
  app.add("name", name, "NAME or OWNER/NAME, optionally with @REVISION; glue/TASK is one GLUE task").required();
  app.add_switch("--dataset", dataset, "fetch a data set, not a model");
  app.add("--revision", revision, "branch, tag or commit (default: main, or the part after @ in the name)");
  app.add("--include", patterns,
          "only files that match; '*' also matches '/'; may be repeated (default: what trireme reads: the "
          "configuration, tokenizer and weights of a model, safetensors rather than pickles; the texts of a data set)")
      .one_value();
  app.set_footer(kFooter);
  if (const auto code = app.parse()) return *code;
  hub::NamedData wanted{hub::Repository{}, {}, {}};
  if (dataset) {
    wanted = hub::named_data(name);
  } else {
    require(!name.starts_with("glue/"), ErrorKind::usage, "{} is a data set: add --dataset", name);
    wanted = {hub::checked_repository(hub::Kind::model, hub::name_in(name)), {}, hub::revision_in(name)};
  }
  require(revision.empty() || name.find('@') == name.npos, ErrorKind::usage,
          "{} and --revision {} both name a revision; remove one of them", name, revision);
  if (!revision.empty()) wanted.revision = revision;
  if (!patterns.empty()) wanted.patterns = patterns;
  const hub::Settings settings = hub::read_settings();
  const hub::ModelSelection of_model;
  const hub::DataSelection of_data;
  const hub::GlobSelection of_patterns(wanted.patterns);
  const hub::Selection* selection = &of_patterns;
  if (wanted.patterns.empty()) selection = dataset ? static_cast<const hub::Selection*>(&of_data) : &of_model;
  const hub::Snapshot snapshot = fetch(settings, wanted.repository, wanted.revision, *selection);
  log::info("{} has {} of commit {}", name, count_text(snapshot.files.size(), "file"), snapshot.commit);
  fmt::print("{}\n", snapshot.folder);
  return 0;
}

}  // namespace trireme
