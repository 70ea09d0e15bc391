#pragma once
// One self-contained page about a run: no scripts, no external files; light or dark as the reader's system is.

#include <string>
#include <vector>

#include "report/run_log.h"

namespace trireme {

/// What the page is made of.
struct HtmlReport {
  std::string title;
  RunLog log;
  RunFacts more_facts;              ///< shown after the log's own facts
  std::vector<SampleText> samples;  ///< shown after the log's own samples
};

std::string render_html(const HtmlReport& report);

}  // namespace trireme
