#include "train/skips.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

namespace trireme {
namespace {

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value)); }

}  // namespace

std::string write_skips(const std::string& run_dir, std::span<const SkippedStep> skips) {
  const std::string path = run_dir + "/bad-samples.json";
  Json list = Json::array();
  for (const SkippedStep& skip : skips) {
    list.push_back({{"step", skip.step},
                    {"first_sample", skip.first_sample},
                    {"last_sample", skip.last_sample},
                    {"loss", number(skip.loss)},
                    {"norm", number(skip.norm)}});
  }
  try {
    write_text(path, list.dump(1) + "\n");
  } catch (const Error& e) {
    log::warning("{}", e.what());
    return {};
  }
  return "; see " + path;
}

}  // namespace trireme
