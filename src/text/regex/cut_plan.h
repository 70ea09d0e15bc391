#pragma once
// Cuts text into pieces by tables only: a sequence of cutters, each of which cuts the pieces of the previous one,
// without a call per piece.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex/cutter.h"

namespace trireme {

/// GPT-2's pattern, used by the element ByteLevel.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
/// Its tables. An invalid byte counts as a character that is neither letter, number nor white space.
const std::shared_ptr<const Cutter>& gpt2_cutter();

class CutPlan {
 public:
  struct Stage {
    std::shared_ptr<const Cutter> cutter;
    bool keep_matches = true, keep_others = true;  ///< which parts become pieces; other parts are dropped
  };
  void add(Stage stage) { stages_.push_back(std::move(stage)); }

  /// Later cutters read pieces as bytes in GPT-2's spelling (Cutter::Text::spelled).
  void spell() { spelled_ = true; }
  bool spelled() const { return spelled_; }
  Cutter::Text text() const { return spelled_ ? Cutter::Text::spelled : Cutter::Text::utf8; }

  /// True if text that is cut between an ASCII letter or digit and the ASCII white space after it gives the same pieces
  /// on both sides as uncut text.
  bool cuts_before_space() const;

  /// The only cutter of a plan if every part becomes a piece; nullptr: several cutters, or dropped parts.
  const Cutter* only_cutter() const {
    const bool only = stages_.size() == 1 && stages_[0].keep_matches && stages_[0].keep_others;
    return only ? stages_[0].cutter.get() : nullptr;
  }

  /// Calls give(piece) for each piece, in order.
  template <class Give>
  void cut(std::string_view text, Give give) const {
    cut_from(0, text.data(), text.data() + text.size(), give);
  }

 private:
  template <class Give>
  void cut_from(size_t index, const char* p, const char* end, Give& give) const {
    if (index == stages_.size()) return give(std::string_view(p, static_cast<size_t>(end - p)));
    const Stage& stage = stages_[index];
    const Cutter& cutter = *stage.cutter;
    const bool last = index + 1 == stages_.size();
    while (p < end) {
      const Cutter::Part part = cutter.next(p, end);
      if (part.matched ? stage.keep_matches : stage.keep_others) {
        if (last)
          give(std::string_view(p, static_cast<size_t>(part.end - p)));
        else
          cut_from(index + 1, p, part.end, give);
      }
      p = part.end;
    }
  }

  std::vector<Stage> stages_;
  bool spelled_ = false;
};

}  // namespace trireme
