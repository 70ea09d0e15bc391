#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/device/report.h"

namespace trireme::device_check {
namespace {

Report report_of(std::vector<Verdict> verdicts) {
  GpuReport gpu;
  for (const Verdict verdict : verdicts) {
    gpu.results.emplace_back();
    gpu.results.back().check = "cudnn";
    gpu.results.back().verdict = verdict;
  }
  Report report;
  report.gpus.push_back(std::move(gpu));
  return report;
}

TEST(DeviceReport, WhatWasNotCheckedIsNotOk) {
  const Report none = report_of({Verdict::not_checked});
  EXPECT_EQ(verdict_line(none), "not checked: cudnn");
  EXPECT_EQ(to_json(none).at("verdict"), "not checked");
  EXPECT_FALSE(has_checked(none));
  const Report some = report_of({Verdict::ok, Verdict::not_checked});
  EXPECT_EQ(verdict_line(some), "ok: 1 check of 1 GPU; not checked: cudnn");
  EXPECT_EQ(to_json(some).at("verdict"), "ok");
  const Report bad = report_of({Verdict::failed, Verdict::ok});
  EXPECT_EQ(verdict_line(bad), "failed: cudnn");
  EXPECT_EQ(to_json(bad).at("verdict"), "failed");
}

}  // namespace
}  // namespace trireme::device_check
