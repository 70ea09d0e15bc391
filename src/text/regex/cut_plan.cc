#include "text/regex/cut_plan.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr std::string_view kBefore = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr std::string_view kAfter = " \t\n\r";

}  // namespace

const std::shared_ptr<const Cutter>& gpt2_cutter() {
  static const auto cutter = std::make_shared<const Cutter>(kGpt2Pattern, Cutter::Text::lenient_utf8);
  return cutter;
}

bool CutPlan::cuts_before_space() const {
  // No stage has a match across the cut or looks past it, and a piece of one stage ends there.
  return std::all_of(kBefore.begin(), kBefore.end(), [&](char before) {
    const auto ends = [&](const Stage& stage) { return stage.cutter->always_matches(static_cast<uint8_t>(before)); };
    const auto apart = [&](const Stage& stage) {
      return std::all_of(kAfter.begin(), kAfter.end(), [&](char after) {
        return stage.cutter->ends_between(static_cast<uint8_t>(before), static_cast<uint8_t>(after));
      });
    };
    return std::any_of(stages_.begin(), stages_.end(), ends) && std::all_of(stages_.begin(), stages_.end(), apart);
  });
}

}  // namespace trireme
