#pragma once
// One self-contained page about a run: no scripts, no external files; light or dark like the reader's system.

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

}  // namespace trireme
