#pragma once
// One setting from a file, a flag or a dialect, before its option is looked up.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trireme {

/// monostate: no usable value; Setting::problem says what was found instead.
using Value = std::variant<std::monostate, bool, int64_t, double, std::string>;

/// Where a setting comes from. A higher layer wins: dialect defaults, files in the order given, flags in the order
/// given.
struct Origin {
  std::string source;  ///< path of a file, "flag --x", "default of DIALECT"
  int line = 0;        ///< 0: the source has no lines
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

/// The value that PyYAML, which reads YAML 1.1, gives a word that resolve_plain() reads as text: yes, no, on, off,
/// 1_000, 0x1f, 0b11, 1:30; also 017, which is octal there. Nothing for all other words.
std::optional<Value> resolve_pyyaml(std::string_view text);

/// The name of a setting in a message: "configs/a.yaml:12: optim.clip", "--optim.clip".
std::string place(const Setting& setting);
/// Its value in a message: `"abc"`, `12`, `true`.
std::string describe(const Setting& setting);
std::string to_text(const Value& value);

/// '_' written as '-': the one spelling in which keys are compared.
std::string canonical(std::string_view key);

/// Names in other programs, with blanks between, and the native one with the same meaning.
struct Synonym {
  const char *theirs, *ours;
};

/// The one name of which key is a misspelling, compared in canonical spelling: typing errors within and between words,
/// or a missing group. Never a name with different words, which would mean something else (save-interval is not
/// eval-interval), and never one of several equally near names. Empty if there is none.
std::string nearest_name(std::string_view key, const std::vector<std::string>& names);
/// First the native name of the key in `synonyms`, then nearest_name().
std::string nearest_name(std::string_view key, const std::vector<std::string>& names,
                         std::span<const Synonym> synonyms);

/// Whether key is a misspelling of name: one wrong letter, or two if it has at least ten letters; '-' and '_' do not
/// count.
bool is_misspelling_of(std::string_view key, std::string_view name);

/// Whether the list has this item between its separators.
constexpr bool lists_word(std::string_view list, std::string_view item, char separator = ' ') {
  while (true) {
    const size_t end = std::min(list.find(separator), list.size());
    if (list.substr(0, end) == item) return true;
    if (end == list.size()) return false;
    list.remove_prefix(end + 1);
  }
}

}  // namespace trireme
