// Mounts, space and inodes.

#include <sstream>

#include "base/error.h"
#include "cluster/health/check.h"
#include "cluster/health/match.h"

namespace trireme::health {
namespace {

struct Mount {
  std::string source, point, type, options;
};

/// \040 and its like stand for blanks in /proc/mounts.
std::string unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<Mount> mounts(const Machine& machine) {
  std::vector<Mount> found;
  const std::string text = machine.read("/proc/mounts").value_or("");
  for (std::string_view line : split_lines(text)) {
    std::istringstream fields{std::string(line)};
    Mount mount;
    if (!(fields >> mount.source >> mount.point >> mount.type >> mount.options)) continue;
    mount.source = unescape(mount.source);
    mount.point = unescape(mount.point);
    found.push_back(std::move(mount));
  }
  return found;
}

bool has_option(const std::string& options, const std::string& wanted) {
  return ("," + options + ",").find("," + wanted + ",") != std::string::npos;
}

class MountCheck {
 public:
  MountCheck(Words words, std::string mode) : mode_(std::move(mode)) {
    const Options options(words, "0rt:s:o:O:e:E:f:");
    require(options.positional.empty() || !options.has('f'), ErrorKind::config, "\"{}\" behind the options",
            options.positional.empty() ? "" : options.positional[0]);
    point_ = options.value('f', options.positional.empty() ? "" : options.positional[0]);
    require(!point_.empty(), ErrorKind::config, "no mount point; give -f /path");
    type_ = options.value('t', "*");
    source_ = options.value('s', "*");
    options_ = options.value('o');
    remount_ = options.has('r');
    remount_options_ = options.value('O', mode_.empty() ? "defaults" : mode_);
    if_missing_ = options.value('e');
    if_found_ = options.value('E');
    for (const std::string& text : {type_, source_, point_}) Match{text};  // reads them: errors belong to the line
  }

  Outcome operator()(const Machine& machine) const {
    std::string problem = look(machine);
    const std::string& action = problem.empty() ? if_found_ : if_missing_;
    if (machine.repair && !action.empty()) machine.command({"/bin/sh", "-c", action});
    if (!problem.empty() && machine.repair && (remount_ || !if_missing_.empty())) {
      if (remount_) machine.command({"mount", "-o", "remount," + remount_options_, point_});
      problem = look(machine);
      if (problem.empty()) return passed(fmt::format("{} mounted again", point_));
    }
    if (!problem.empty()) return {Outcome::Kind::fail, problem};
    return passed();
  }

 private:
  /// Empty when it is mounted as wanted. The last mount on a point hides the ones below it.
  std::string look(const Machine& machine) const {
    const Match type(type_), source(source_), point(point_);
    std::string reason = fmt::format("{} not mounted", point_);
    for (const Mount& mount : mounts(machine)) {
      if (!point(mount.point)) continue;
      if (!type(mount.type)) {
        reason = fmt::format("{} has type {}, expected {}", mount.point, mount.type, type_);
      } else if (!source(mount.source)) {
        reason = fmt::format("{} is mounted from {}, expected {}", mount.point, mount.source, source_);
      } else if (!mode_.empty() && !has_option(mount.options, mode_)) {
        reason = fmt::format("{} is mounted {}, expected {}", mount.point, mode_ == "rw" ? "read-only" : "read-write",
                             mode_ == "rw" ? "read-write" : "read-only");
      } else if (!options_.empty() && !Match(options_)(mount.options)) {
        reason = fmt::format("{} is mounted with {}, expected {}", mount.point, mount.options, options_);
      } else {
        reason.clear();
      }
    }
    return reason;
  }

  std::string mode_, point_, type_, source_, options_, remount_options_, if_missing_, if_found_;
  bool remount_ = false;
};

/// A bound in percent ("90%") or in kB or inodes.
struct Bound {
  std::string text;
  bool percent = false;
  double value = 0;
  Bound(const std::string& word, bool size) : text(word), percent(word.ends_with('%')) {
    if (percent) {
      value = parse_number(word.substr(0, word.size() - 1), "percentage");
      require(value >= 0 && value <= 100, ErrorKind::config, "expected 0% to 100%, found \"{}\"", word);
    } else {
      value = size ? parse_size_kb(word) : parse_number(word, "inodes");
    }
  }
};

enum class Quantity { size, free, used };

class SpaceCheck {
 public:
  SpaceCheck(Words words, Quantity quantity, bool inodes) : quantity_(quantity), inodes_(inodes) {
    const Options options(words, "0");
    require_words(options.positional, 2, quantity == Quantity::size ? 3 : 2,
                  quantity == Quantity::size ? "MOUNT-POINT LEAST [MOST]" : "MOUNT-POINT BOUND");
    path_ = options.positional[0];
    for (size_t i = 1; i < options.positional.size(); ++i) bounds_.emplace_back(options.positional[i], !inodes);
  }

  Outcome operator()(const Machine& machine) const {
    const auto space = machine.space(machine.root + path_);
    if (!space) return failed("{} does not exist", path_);
    const char* unit = inodes_ ? "inodes" : "kB";
    const auto total = static_cast<double>(inodes_ ? space->inodes : space->total_kb);
    const auto free = static_cast<double>(inodes_ ? space->inodes_free : space->free_kb);
    const double used_percent = inodes_ ? space->inodes_used_percent() : space->used_percent();
    const auto used = static_cast<double>(inodes_ ? space->inodes - space->inodes_free : space->used_kb);
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
        if (total < bound.value) return failed("{}: {:.0f} {} in all, below {}", path_, total, unit, bound.text);
        if (bounds_.size() > 1 && total > bounds_[1].value) {
          return failed("{}: {:.0f} {} in all, above {}", path_, total, unit, bounds_[1].text);
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
