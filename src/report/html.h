#pragma once
// Self-contained pages about a run, and about several that are compared: no scripts, no external files; light or dark
// like the reader's system.

#include <string>
#include <string_view>
#include <vector>

#include "report/run_log.h"

namespace trireme {

/// The contents of the page.
struct HtmlReport {
  std::string title;
  RunLog log;
  RunFacts more_facts;              ///< shown after the log's own facts
  std::vector<SampleText> samples;  ///< shown after the log's own samples
  std::vector<SampleText> before;   ///< by the model before the training: each is shown above its prompt's next sample
};

std::string render_html(const HtmlReport& report);

/// The page's parts, for another page. From the beginning to <body>; more: rules after the common ones.
std::string html_head(const std::string& title, std::string_view more_style = "");
/// Tiles and curves.
std::string html_results(const HtmlReport& report);
/// Evaluations, facts, attempts, samples.
std::string html_details(const HtmlReport& report);

/// More runs than this could not be distinguished by their lines in a comparison.
constexpr size_t kMostCompared = 16;

/// A run of the comparison.
struct ComparedRun {
  std::string name;  ///< differs from the other runs'
  RunLog log;        ///< thinned, if it is long (RunHistory)
};

/// Curves over each other, by step, tokens or running time; results side by side; the options and facts that differ.
/// At least one and at most kMostCompared runs.
std::string render_comparison(const std::vector<ComparedRun>& runs);

}  // namespace trireme
