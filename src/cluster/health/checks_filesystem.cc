// Mounts, space and inodes.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "cluster/health/check.h"
#include "cluster/health/match.h"

namespace trireme::health {
namespace {

/// Decodes \040 and other octal escapes, which /proc/mounts uses for blanks and a configuration may use.
std::string unescape(const std::string& text) {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && octal(text[i + 1]) && octal(text[i + 2]) && octal(text[i + 3])) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

/// A field of /proc/mounts: as written there (NHC compares with this form) and decoded.
struct Field {
  std::string raw, plain;

  bool is(const std::string& wanted) const { return wanted == raw || wanted == plain; }
  /// The match string may have either form, too.
  bool matches(const std::string& text) const {
    const Match match(text), meant(unescape(text));
    // Unchanged: a backslash written as \134 is not an escape of a glob.
    const bool same = unescape(text.substr(match.negated() ? 1 : 0)) == plain;
    return (same || match.positive(raw) || match.positive(plain) || meant.positive(plain)) != match.negated();
  }
};

struct Mount {
  Field source, point, type, options;
};

std::vector<Mount> mounts(const Machine& machine) {
  std::vector<Mount> found;
  const std::string text = machine.read("/proc/mounts").value_or("");
  for (std::string_view line : split_lines(text)) {
    std::istringstream fields{std::string(line)};
    Mount mount;
    bool whole = true;
    for (Field* field : {&mount.source, &mount.point, &mount.type, &mount.options}) {
      whole = whole && fields >> field->raw;
      field->plain = unescape(field->raw);
    }
    if (whole) found.push_back(std::move(mount));
  }
  return found;
}

bool has_option(const std::string& options, const std::string& wanted) {
  return ("," + options + ",").find("," + wanted + ",") != std::string::npos;
}

/// [-0] [-r] [-t TYPE] [-s SOURCE] [-o OPTIONS] [-O OPTIONS] [-e ACTION] [-E ACTION] -f|-F POINT..., or, as in older
/// NHC, POINT [SOURCE [TYPE [OPTIONS]]], where "" matches any. Every point must be mounted like this; if -t, -s or -o
/// is repeated, all values must match.
class MountCheck {
 public:
  MountCheck(Words words, std::string mode) : mode_(std::move(mode)) {
    const Options options(words, "0rt:s:o:O:e:E:f:F:");
    if (!words.empty() && words[0].starts_with('/')) {
      require_words(words, 1, 4, "POINT [SOURCE [TYPE [OPTIONS]]], or options before the points");
      points_ = {words[0]};
      std::vector<std::string>* const rest[] = {&sources_, &types_, &options_};
      for (size_t i = 1; i < words.size(); ++i) {
        if (!words[i].empty()) *rest[i - 1] = {words[i]};  // "": any
      }
    } else {
      points_ = options.all('f');
      automounted_ = options.all('F');
      points_.insert(points_.end(), options.positional.begin(), options.positional.end());
      points_.insert(points_.end(), automounted_.begin(), automounted_.end());
      sources_ = options.all('s');
      types_ = options.all('t');
      options_ = options.all('o');
    }
    require(!points_.empty(), ErrorKind::config, "the mount point is missing; give -f /path");
    for (std::string& point : points_) {
      require(point.starts_with('/'), ErrorKind::config, "the mount point \"{}\" does not begin with /", point);
      while (point.size() > 1 && point.ends_with('/')) point.pop_back();
    }
    fatal_ = !options.has('0');
    remount_ = options.has('r');
    mount_options_ = options.value('O');
    if_missing_ = options.value('e');
    if_found_ = options.value('E');
    for (const auto* matches : {&types_, &sources_, &options_}) {
      for (const std::string& text : *matches) Match{text};  // parsed now, so that errors are reported for this line
    }
  }

  Outcome operator()(const Machine& machine) const {
    for (const std::string& point : automounted_)
      machine.exists(unescape(point) + "/.");  // access makes an automounter mount it
    std::string remarks;
    for (const std::string& point : points_) {
      const Outcome outcome = look_after(machine, point);
      if (outcome.kind == Outcome::Kind::fail && fatal_) return outcome;
      if (!outcome.text.empty()) remarks += (remarks.empty() ? "" : "; ") + outcome.text;
    }
    return passed(remarks);
  }

 private:
  struct Found {
    bool mounted = false;
    std::string problem;  ///< empty: mounted as wanted
  };

  Outcome look_after(const Machine& machine, const std::string& point) const {
    Found found = look(machine, point);
    const std::string& action = found.problem.empty() ? if_found_ : if_missing_;
    if (machine.repair && !action.empty()) machine.command({"/bin/sh", "-c", action});
    if (!found.problem.empty() && machine.repair && (remount_ || !if_missing_.empty())) {
      if (remount_) machine.command(mount_command(point, found.mounted));
      found = look(machine, point);
      if (found.problem.empty()) return passed(fmt::format("{} mounted again", point));
    }
    if (!found.problem.empty()) return {Outcome::Kind::fail, found.problem};
    return passed();
  }

  std::vector<std::string> mount_command(const std::string& point, bool mounted) const {
    std::string with = mount_options_;
    if (mounted) with = "remount," + (!with.empty() ? with : !mode_.empty() ? mode_ : "defaults");
    if (with.empty()) return {"mount", unescape(point)};
    return {"mount", "-o", with, unescape(point)};
  }

  /// The last mount on a point hides earlier ones.
  Found look(const Machine& machine, const std::string& point) const {
    Found found{false, fmt::format("{} not mounted", point)};
    for (const Mount& mount : mounts(machine)) {
      if (mount.point.is(point)) found = {true, compare(mount)};
    }
    return found;
  }

  std::string compare(const Mount& mount) const {
    const std::string& point = mount.point.plain;
    if (const std::string* type = mismatch(types_, mount.type)) {
      return fmt::format("{} has type {}, expected {}", point, mount.type.plain, *type);
    }
    if (const std::string* source = mismatch(sources_, mount.source)) {
      return fmt::format("{} is mounted from {}, expected {}", point, mount.source.plain, *source);
    }
    if (!mode_.empty() && !has_option(mount.options.raw, mode_)) {
      return fmt::format("{} is mounted {}, expected {}", point, mode_ == "rw" ? "read-only" : "read-write",
                         mode_ == "rw" ? "read-write" : "read-only");
    }
    if (const std::string* options = mismatch(options_, mount.options)) {
      return fmt::format("{} is mounted with {}, expected {}", point, mount.options.plain, *options);
    }
    return "";
  }

  /// The first match string that fails.
  static const std::string* mismatch(const std::vector<std::string>& wanted, const Field& field) {
    const auto found = std::ranges::find_if(wanted, [&](const std::string& text) { return !field.matches(text); });
    return found == wanted.end() ? nullptr : &*found;
  }

  std::string mode_;
  std::vector<std::string> points_, automounted_, types_, sources_, options_;
  std::string mount_options_, if_missing_, if_found_;
  bool fatal_ = true, remount_ = false;
};

/// "1k" or "2.5M" inodes: NHC uses powers of 1000 here.
double parse_count(const std::string& text) {
  constexpr std::string_view kUnits = "kmgtpe";
  const auto unit = text.empty()
                        ? std::string_view::npos
                        : kUnits.find(static_cast<char>(std::tolower(static_cast<unsigned char>(text.back()))));
  if (unit == std::string_view::npos) return parse_number(text, "inodes");
  return parse_number(text.substr(0, text.size() - 1), "inodes") * std::pow(1000.0, static_cast<double>(unit + 1));
}

/// A limit in percent ("90%"), in kB or in inodes.
struct Bound {
  std::string text;
  bool percent = false;
  double value = 0;
  Bound(const std::string& word, bool size) : text(word), percent(word.ends_with('%')) {
    if (percent) {
      value = parse_number(word.substr(0, word.size() - 1), "percentage");
      require(value >= 0 && value <= 100, ErrorKind::config, "expected 0% to 100%, found \"{}\"", word);
    } else {
      value = size ? parse_size_kb(word) : parse_count(word);
    }
  }
};

enum class Quantity { size, free, used };

class SpaceCheck {
 public:
  SpaceCheck(Words words, Quantity quantity, bool inodes) : quantity_(quantity), inodes_(inodes) {
    require_words(words, 2, quantity == Quantity::size ? 3 : 2,
                  quantity == Quantity::size ? "MOUNT-POINT LEAST [MOST]" : "MOUNT-POINT BOUND");
    path_ = words[0];
    const bool no_least =
        quantity == Quantity::size && words.size() == 3 && words[1].empty();  // "": only MOST is given
    bounds_.emplace_back(no_least ? "0" : words[1], !inodes);
    if (words.size() == 3 && !words[2].empty()) bounds_.emplace_back(words[2], !inodes);
  }

  Outcome operator()(const Machine& machine) const {
    auto space = machine.space(machine.root + path_);
    if (!space) space = machine.space(machine.root + unescape(path_));
    if (!space) return failed("{} does not exist", path_);
    const char* unit = inodes_ ? "inodes" : "kB";
    const auto total = static_cast<double>(inodes_ ? space->inodes : space->total_kb);
    const auto free = static_cast<double>(inodes_ ? space->inodes_free : space->free_kb);
    const double used_percent = inodes_ ? space->inodes_used_percent() : space->used_percent();
    const auto used = static_cast<double>(inodes_ ? space->inodes - space->inodes_free : space->used_kb);
    // As for /proc, and for inodes on file systems that create them on demand (vfat, btrfs).
    if (total == 0) return passed(fmt::format("{} does not count {}", path_, unit));
    const Bound& bound = bounds_[0];
    switch (quantity_) {
      case Quantity::used:
        if (bound.percent ? used_percent > bound.value : used > bound.value) {
          return failed("{}: {:.1f}% used ({:.0f} {}), above {}", path_, used_percent, used, unit, bound.text);
        }
        return passed();
      case Quantity::free:
        if (bound.percent ? 100 - used_percent < bound.value : free < bound.value) {
          return failed("{}: {:.1f}% free ({:.0f} {}), below {}", path_, 100 - used_percent, free, unit, bound.text);
        }
        return passed();
      default:
        if (total < bound.value) return failed("{}: {:.0f} {} in total, below {}", path_, total, unit, bound.text);
        if (bounds_.size() > 1 && total > bounds_[1].value) {
          return failed("{}: {:.0f} {} in total, above {}", path_, total, unit, bounds_[1].text);
        }
        return passed();
    }
  }

 private:
  Quantity quantity_;
  bool inodes_;
  std::string path_;
  std::vector<Bound> bounds_;
};

constexpr KnownCheck kChecks[] = {
    {"check_fs_mount", [](Words w) -> Check { return MountCheck(w, ""); }},
    {"check_fs_mount_ro", [](Words w) -> Check { return MountCheck(w, "ro"); }},
    {"check_fs_mount_rw", [](Words w) -> Check { return MountCheck(w, "rw"); }},
    {"check_fs_size", [](Words w) -> Check { return SpaceCheck(w, Quantity::size, false); }},
    {"check_fs_free", [](Words w) -> Check { return SpaceCheck(w, Quantity::free, false); }},
    {"check_fs_used", [](Words w) -> Check { return SpaceCheck(w, Quantity::used, false); }},
    {"check_fs_inodes", [](Words w) -> Check { return SpaceCheck(w, Quantity::size, true); }},
    {"check_fs_ifree", [](Words w) -> Check { return SpaceCheck(w, Quantity::free, true); }},
    {"check_fs_iused", [](Words w) -> Check { return SpaceCheck(w, Quantity::used, true); }},
};

}  // namespace

std::span<const KnownCheck> filesystem_checks() { return kChecks; }

}  // namespace trireme::health
