#include "report/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme {
namespace {

constexpr int kLeft = 64, kRight = 16, kTop = 40, kBottom = 44;  // room for tick labels, title and legend, in pixels
constexpr size_t kMostPoints = 800;                              // about one per pixel
constexpr size_t kMostDots = 100;                                // more would be a band

/// Larger ones are not drawn, as infinite ones: differences and sums of drawn values stay finite.
bool can_be_drawn(double value) { return std::abs(value) < 1e300; }

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    if (!can_be_drawn(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// Never empty: a single value gets a margin, and so do values that differ in their last digits only, among which
  /// there would be no ticks.
  void widen() {
    if (low > high) low = 0, high = 1;
    const double size = std::max(std::abs(low), std::abs(high));
    if (high - low <= 1e-9 * size || size == 0) {
      const double room = size == 0 ? 1 : size * 0.1;
      low -= room, high += room;
    }
  }
};

/// Maps data to pixels.
struct Frame {
  Range x, y;
  int width, height;
  double px(double value) const { return kLeft + (value - x.low) / (x.high - x.low) * (width - kLeft - kRight); }
  double py(double value) const {
    return height - kBottom - (value - y.low) / (y.high - y.low) * (height - kTop - kBottom);
  }
};

Frame frame_of(const Chart& chart, int width, int height) {
  Frame frame{{}, {}, width, height};
  for (const Series& series : chart.series) {
    for (const auto& [x, y] : series.points) frame.x.add(x), frame.y.add(y);
  }
  if (chart.from_zero) frame.y.add(0);
  frame.x.widen();
  frame.y.widen();
  const double room = 0.04 * (frame.y.high - frame.y.low);
  frame.y.high += room;
  if (!chart.from_zero || frame.y.low < 0) frame.y.low -= room;
  return frame;
}

std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points) {
  if (points.size() <= kMostPoints) return points;
  std::vector<std::pair<double, double>> means;
  for (size_t bucket = 0; bucket < kMostPoints; ++bucket) {
    const size_t first = bucket * points.size() / kMostPoints, last = (bucket + 1) * points.size() / kMostPoints;
    double x = 0, y = 0;
    for (size_t i = first; i < last; ++i) x += points[i].first, y += points[i].second;
    const auto count = static_cast<double>(last - first);
    means.emplace_back(x / count, y / count);
  }
  return means;
}

void draw_axes(std::string& svg, const Chart& chart, const Frame& f) {
  const int bottom = f.height - kBottom, right = f.width - kRight;
  for (const double tick : round_ticks(f.y.low, f.y.high, 6)) {
    const double y = f.py(tick);
    svg += fmt::format(R"(<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>)", kLeft, right, y, y);
    svg += fmt::format(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)", kLeft - 8, y + 4, short_number(tick));
  }
  for (const double tick : round_ticks(f.x.low, f.x.high, 6)) {
    const double x = f.px(tick);
    svg += fmt::format(R"(<line class="axis" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>)", x, bottom, bottom + 5);
    svg += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x, bottom + 19, short_number(tick));
  }
  svg += fmt::format(R"(<path class="axis" d="M{} {}V{}H{}"/>)", kLeft, kTop, bottom, right);
  svg += fmt::format(R"(<text x="{}" y="{}" text-anchor="end">{}</text>)", right, f.height - 6,
                     escape_html(chart.x_label));
}

void draw_markers(std::string& svg, const Chart& chart, const Frame& f) {
  for (const auto& [x, text] : chart.markers) {
    if (x < f.x.low || x > f.x.high) continue;
    svg += fmt::format(R"(<line class="marker" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>)", f.px(x), kTop,
                       f.height - kBottom);
    svg += fmt::format(R"(<text class="marker-text" x="{:.1f}" y="{}">{}</text>)", f.px(x) + 4, kTop + 12,
                       escape_html(text));
  }
}

void draw_series(std::string& svg, const Series& series, size_t index, const Frame& f) {
  std::string path, dots;
  bool pen_down = false;
  for (const auto& [x, y] : thinned(series.points)) {
    if (!can_be_drawn(x) || !can_be_drawn(y)) {
      pen_down = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', f.px(x), f.py(y));
    pen_down = true;
    if (series.dots && series.points.size() <= kMostDots) {
      dots +=
          fmt::format(R"(<circle class="series-{}" cx="{:.1f}" cy="{:.1f}" r="3"><title>{}: {} {}</title></circle>)",
                      index, f.px(x), f.py(y), escape_html(series.name), short_number(x), short_number(y));
    }
  }
  if (!path.empty()) svg += fmt::format(R"(<path class="line series-{}" d="{}"/>)", index, path);
  svg += dots;
}

void draw_legend(std::string& svg, const Chart& chart, const Frame& f) {
  if (chart.series.size() < 2 || !chart.legend) return;
  double x = f.width - kRight;
  for (size_t i = chart.series.size(); i-- > 0;) {
    const std::string& name = chart.series[i].name;
    svg += fmt::format(R"(<text x="{:.1f}" y="24" text-anchor="end">{}</text>)", x, escape_html(name));
    x -= 7.0 * static_cast<double>(name.size()) + 6;  // about the width of the text at 12 px
    svg += fmt::format(R"(<line class="line series-{}" x1="{:.1f}" x2="{:.1f}" y1="20" y2="20"/>)", i, x - 20, x);
    x -= 36;
  }
}

}  // namespace

std::string svg_chart(const Chart& chart, int width, int height) {
  const Frame frame = frame_of(chart, width, height);
  std::string svg =
      fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)", width, height, escape_html(chart.title));
  svg += fmt::format(R"(<text class="title" x="{}" y="24">{}</text>)", kLeft,
                     escape_html(chart.y_label.empty() ? chart.title : chart.title + ", " + chart.y_label));
  draw_axes(svg, chart, frame);
  draw_markers(svg, chart, frame);
  for (size_t i = 0; i < chart.series.size(); ++i) draw_series(svg, chart.series[i], i, frame);
  draw_legend(svg, chart, frame);
  return svg + "</svg>";
}

std::vector<double> round_ticks(double low, double high, int count) {
  const double rough = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough * 0.999) step = factor * power;
  }
  std::vector<double> ticks;  // + 0.0: turns -0 into 0
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) {
    if (i + 1 == i) break;  // the step is below the last digit of the values
    ticks.push_back(i * step + 0.0);
  }
  return ticks;
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  const double size = std::abs(value);
  if (size >= 1e9) return fmt::format("{:.4g}G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:.4g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.4g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

std::string fixed_number(double value, int digits) {
  constexpr double kLong = 1e12;
  return std::abs(value) < kLong ? fmt::format("{:.{}f}", value, digits) : fmt::format("{:.4g}", value);
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace trireme
