#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "text/chat/builtins.h"
#include "text/chat/python_text.h"
#include "text/unicode.h"

namespace trireme::chat {
namespace {

/// Python's json.dumps().
class JsonWriter {
 public:
  JsonWriter(Machine& machine, const Bound& bound) : machine_(machine) {
    ascii_ = bound.truth_of(0, false);
    sorted_ = bound.truth_of(3, false);
    if (const Value* indent = bound.find(1); indent != nullptr && !indent->is(Kind::none)) {
      constexpr int64_t kMostBlanks = 64;
      indent_ = indent->is(Kind::text)
                    ? indent->text()
                    : std::string(static_cast<size_t>(std::clamp<int64_t>(bound.integer(1, 0), 0, kMostBlanks)), ' ');
      between_ = ",";
    }
    if (const Value* separators = bound.find(2); separators != nullptr && !separators->is(Kind::none)) {
      const std::vector<Value> pair = items_of(*separators, machine.budget);
      if (pair.size() != 2 || !pair[0].is(Kind::text) || !pair[1].is(Kind::text))
        fault("tojson: \"separators\" is not a pair of strings");
      between_ = pair[0].text();
      after_key_ = pair[1].text();
    }
  }

  std::string run(const Value& value) {
    write(value, 0);
    return std::move(out_);
  }

 private:
  void write(const Value& value, size_t level) {
    machine_.budget.step();
    switch (value.kind()) {
      case Kind::none:
        out_ += "null";
        break;
      case Kind::boolean:
        out_ += value.as<bool>() ? "true" : "false";
        break;
      case Kind::integer:
      case Kind::number:
        out_ += number(value);
        break;
      case Kind::text:
        write_text(value.text());
        break;
      case Kind::sequence:
        write_list(value, level);
        break;
      case Kind::mapping:
        write_object(value, level);
        break;
      default:
        fault("{} cannot be written as JSON", type_name(value));
    }
    if (out_.size() > machine_.budget.limits().output)
      fault("tojson makes more than {} bytes, the limit", machine_.budget.limits().output);
  }

  std::string number(const Value& value) const {
    if (value.is(Kind::integer)) return std::to_string(value.as<int64_t>());
    const double real = value.as<double>();
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
    return number_text(real);
  }

  void write_text(std::string_view text) {
    machine_.budget.visit(text.size());
    out_ += '"';
    for (size_t place = 0; place < text.size();) {
      const Decoded character = decode_utf8(text.data() + place, text.data() + text.size());
      write_character(character.code, text.substr(place, character.length));
      place += character.length;
    }
    out_ += '"';
  }

  void write_character(char32_t character, std::string_view bytes) {
    static constexpr std::string_view kNames = "\"\\nrtbf", kValues = "\"\\\n\r\t\b\f";
    const auto code = static_cast<uint32_t>(character);
    const size_t named = code < 0x80 ? kValues.find(static_cast<char>(code)) : std::string_view::npos;
    if (named != std::string_view::npos) {
      out_ += '\\';
      out_ += kNames[named];
    } else if (code < 0x20 || (ascii_ && code > 0x7E && code < 0x10000)) {
      out_ += fmt::format("\\u{:04x}", code);
    } else if (ascii_ && code >= 0x10000) {
      const uint32_t pair = code - 0x10000;
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (pair >> 10), 0xDC00 + (pair & 0x3FF));
    } else {
      out_ += bytes;
    }
  }

  void new_line(size_t level) {
    if (!indent_) return;
    out_ += '\n';
    for (size_t i = 0; i < level; ++i) out_ += *indent_;
  }

  void write_list(const Value& value, size_t level) {
    const Sequence& list = value.sequence();
    if (list.flavor != Flavor::list && list.flavor != Flavor::tuple)
      fault("{} cannot be written as JSON; apply the filter \"list\" first", type_name(value));
    out_ += '[';
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += between_;
      new_line(level + 1);
      write(list.items[i], level + 1);
    }
    if (!list.items.empty()) new_line(level);
    out_ += ']';
  }

  void write_object(const Value& value, size_t level) {
    auto entries = value.mapping().entries;
    machine_.budget.make_items(entries.size());
    if (sorted_) {
      std::ranges::stable_sort(
          entries, [&](const auto& a, const auto& b) { return order(a.first, b.first, machine_.budget) < 0; });
    }
    out_ += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += between_;
      new_line(level + 1);
      write_text(key_text(entries[i].first));
      out_ += after_key_;
      write(entries[i].second, level + 1);
    }
    if (!entries.empty()) new_line(level);
    out_ += '}';
  }

  std::string key_text(const Value& key) const {
    switch (key.kind()) {
      case Kind::text:
        return key.text();
      case Kind::none:
        return "null";
      case Kind::boolean:
        return key.as<bool>() ? "true" : "false";
      case Kind::integer:
      case Kind::number:
        return number(key);
      default:
        fault("{} cannot be a key in JSON", type_name(key));
    }
  }

  Machine& machine_;
  std::string out_, between_ = ", ", after_key_ = ": ";
  std::optional<std::string> indent_;
  bool ascii_ = false, sorted_ = false;
};

}  // namespace

Value to_json(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  if (input.is(Kind::undefined)) fail_undefined(input);
  std::string text = JsonWriter(machine, bound).run(input);
  machine.budget.make_text(text.size());
  return Value::text(std::move(text));
}

}  // namespace trireme::chat
