#pragma once
// Line charts as inline SVG: axes with round ticks, grid, legend. Colors come from the page's CSS (classes series-0,
// series-1, grid, axis, marker), so that one chart serves light and dark pages.

#include <string>
#include <utility>
#include <vector>

namespace trireme {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< ascending x; a non-finite y is a gap
  bool dots = false;                              ///< also mark each point, if they are few
};

struct Chart {
  std::string title;
  std::string x_label, y_label;
  std::vector<Series> series;
  std::vector<std::pair<double, std::string>> markers;  ///< vertical lines: x, text
  bool from_zero = false;                               ///< the y axis starts at 0
  bool legend = true;                                   ///< names of the series, if there are several
};

/// The <svg> element. Series with more points than pixels are drawn as means of neighbours.
std::string svg_chart(const Chart& chart, int width, int height);

/// About `count` round values (1, 2 or 5 times a power of ten apart) that lie in [low, high].
std::vector<double> round_ticks(double low, double high, int count);
/// 0.0003, 0.25, 12.5, 1,500, 2.5M: as short as a tick label can be.
std::string short_number(double value);
/// With so many digits after the point; a value too long for that in the form 1.234e+30.
std::string fixed_number(double value, int digits);
/// &, <, > and quotes as entities.
std::string escape_html(std::string_view text);

}  // namespace trireme
