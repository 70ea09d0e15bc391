#pragma once
// One self-contained page about a run: no scripts, no external files; light or dark like the reader's system.

#include <string>
#include <vector>

#include "report/run_log.h"

namespace trireme {

/// The contents of the page.
struct HtmlReport {
  std::string title;
  RunLog log;
  RunFacts more_facts;              ///< shown after the log's own facts
  std::vector<SampleText> samples;  ///< shown after the log's own samples
};

std::string render_html(const HtmlReport& report);

}  // namespace trireme
