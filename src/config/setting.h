#pragma once
// One setting as a file, a flag or a dialect gave it, before it is known which option it sets.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trireme {

/// monostate: nothing that can be used; Setting::problem says what was found instead.
using Value = std::variant<std::monostate, bool, int64_t, double, std::string>;

/// Where a setting stands. A higher layer wins: dialect defaults, files in the order given, flags in the order given.
struct Origin {
  std::string source;  ///< path of a file, "flag --x", "default of DIALECT"
  int line = 0;        ///< 0: has no lines
  int layer = 0;

  /// "configs/a.yaml:12", "flag --optim.clip".
  std::string text() const { return line > 0 ? source + ":" + std::to_string(line) : source; }
};

constexpr int kDefaultLayer = -1;
constexpr int kFlagLayer = 1 << 20;  // above any number of files

struct Setting {
  std::string key;   ///< nesting joined by '.', otherwise as written
  Value value;       ///< type as the source's own rules say
  std::string text;  ///< the value as written, without quotes; of a list: as JSON
  Origin origin;
  std::string problem;  ///< what was found, when value is monostate: "a list", "nothing"
};

/// Type of an unquoted word: true/false (also True, TRUE), a whole number, a number (.inf and .nan included), else
/// text.
Value resolve_plain(std::string_view text);

/// What PyYAML, which reads YAML 1.1, finds in a word that resolve_plain() takes for text: yes, no, on, off, 1_000,
/// 0x1f, 0b11, 1:30; also 017, which is octal there. Nothing for all other words.
std::optional<Value> resolve_pyyaml(std::string_view text);

/// How a setting is named in a message: "configs/a.yaml:12: optim.clip", "--optim.clip".
std::string place(const Setting& setting);
/// How its value reads in a message: `"abc"`, `12`, `true`.
std::string describe(const Setting& setting);
std::string to_text(const Value& value);

/// '_' written as '-': the one spelling in which keys are compared.
std::string canonical(std::string_view key);

/// A name of another program, and the one that means the same here.
struct Synonym {
  const char *theirs, *ours;
};

/// The one name that key is a misspelling of, compared in canonical spelling: slips inside words and between them, and
/// a group that is missing. Never a name of other words, which would mean something else (save-interval is not
/// eval-interval), nor one of several that are as near. Empty if there is none.
std::string nearest_name(std::string_view key, const std::vector<std::string>& names);
/// First what the key is called here, then nearest_name().
std::string nearest_name(std::string_view key, const std::vector<std::string>& names,
                         std::span<const Synonym> synonyms);

}  // namespace trireme
