#include "text/pipeline/metaspace.h"

#include "base/error.h"
#include "text/pipeline/piece_delimiter.h"

namespace trireme {
namespace {

class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(MetaspaceOptions options) : options_(std::move(options)) {}

  void split(std::string_view text, bool at_start, PieceSink& sink) const override {
    using Prepend = MetaspaceOptions::Prepend;
    const std::string& mark = options_.replacement;
    Origins origins;
    Rewriting rewriting(text, sink.wants_origins() ? &origins : nullptr);
    const bool wanted = options_.prepend == Prepend::always || (options_.prepend == Prepend::first && at_start);
    if (wanted && !text.starts_with(' ') && !text.starts_with(mark)) {
      rewriting.out = mark;
      rewriting.took(0);
    }
    for (const char c : text) {
      if (c == ' ')
        rewriting.out += mark;
      else
        rewriting.out.push_back(c);
      rewriting.took(1);
    }
    const std::string marked = std::move(rewriting.out);
    sink.rewritten(text, marked, std::move(origins));
    if (!options_.split) return sink.piece(marked, at_start);
    DelimiterSplitter splitter(marked, at_start, DelimiterBehavior::merged_with_next, sink);
    size_t plain = 0;
    for (size_t at = 0; (at = marked.find(mark, at)) != std::string::npos; at = plain) {
      splitter.part(plain, at, false);
      plain = at + mark.size();
      splitter.part(at, plain, true);
    }
    splitter.part(plain, marked.size(), false);
    splitter.finish();
  }

  void describe(std::vector<std::string>& lines) const override {
    lines.push_back(fmt::format("spaces become {}", options_.replacement));
  }

 private:
  MetaspaceOptions options_;
};

}  // namespace

MetaspaceOptions read_metaspace(const JsonObject& element) {
  element.allow_only({"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"});
  MetaspaceOptions options;
  options.replacement = element.string("replacement");
  require(!options.replacement.empty(), ErrorKind::data, "{}: \"replacement\" is empty", element.place());
  options.split = element.boolean("split", true);
  const bool prefix = element.boolean("add_prefix_space", true);
  const std::string scheme = element.string("prepend_scheme", prefix ? "always" : "never");
  using Prepend = MetaspaceOptions::Prepend;
  if (scheme == "first")
    options.prepend = Prepend::first;
  else if (scheme == "never")
    options.prepend = Prepend::never;
  else
    require(scheme == "always", ErrorKind::data, "{}: unsupported prepend_scheme \"{}\"", element.place(), scheme);
  return options;
}

std::unique_ptr<PreTokenizer> make_metaspace(const JsonObject& element) {
  return std::make_unique<Metaspace>(read_metaspace(element));
}

}  // namespace trireme
