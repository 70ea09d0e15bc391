#include "cloud/hcl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace trireme::cloud {
namespace {

/// All lines but the first are indented by two blanks more, except empty ones.
std::string deeper(const std::string& text) {
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) {
    result += text[at];
    if (text[at] == '\n' && at + 1 < text.size() && text[at + 1] != '\n') result += "  ";
  }
  return result;
}

bool opens_template(std::string_view text, size_t at) {
  return (text[at] == '$' || text[at] == '%') && at + 1 < text.size() && text[at + 1] == '{';
}

bool has_lines(const std::string& text) { return text.find('\n') != std::string::npos; }

}  // namespace

std::string hcl_text(std::string_view text) {
  std::string result = "\"";
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' || c == '\\') {
      result += std::string("\\") + c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\r') {
      result += "\\r";
    } else if (c == '\t') {
      result += "\\t";
    } else if (opens_template(text, at)) {
      result += std::string(2, c);
    } else if (static_cast<unsigned char>(c) < 32 || c == 127) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string template_text(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) result += std::string(opens_template(text, at) ? 2 : 1, text[at]);
  return result;
}

std::string hcl_list(const std::vector<std::string>& expressions) {
  return fmt::format("[{}]", fmt::join(expressions, ", "));
}

std::string hcl_texts(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(hcl_text(text));
  return hcl_list(quoted);
}

std::string hcl_object(const std::vector<std::pair<std::string, std::string>>& members) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : members) parts.push_back(name + " = " + value);
  return fmt::format("{{ {} }}", fmt::join(parts, ", "));
}

Hcl::Hcl(std::string type, const std::vector<std::string>& labels) : head_(std::move(type)) {
  for (const std::string& label : labels) head_ += " " + hcl_text(label);
}

Hcl& Hcl::set(const std::string& name, const std::string& expression) {
  items_.push_back({Kind::argument, name, expression});
  return *this;
}

Hcl& Hcl::map(const std::string& name, const std::vector<std::pair<std::string, std::string>>& members) {
  if (members.empty()) return set(name, "{}");
  size_t widest = 0;
  for (const auto& [key, value] : members) widest = std::max(widest, hcl_text(key).size());
  std::string text = "{\n";
  for (const auto& [key, value] : members) text += fmt::format("  {:<{}} = {}\n", hcl_text(key), widest, deeper(value));
  return set(name, text + "}");
}

Hcl& Hcl::block(const Hcl& nested) {
  items_.push_back({Kind::block, "", nested.str()});
  return *this;
}

Hcl& Hcl::comment(const std::string& line) {
  items_.push_back({Kind::comment, "", line});
  return *this;
}

std::string Hcl::str() const {
  if (items_.empty()) return head_ + " {}\n";
  std::string text = head_ + " {\n";
  const auto is_plain = [](const Item& item) { return item.kind == Kind::argument && !has_lines(item.text); };
  for (auto item = items_.begin(); item != items_.end(); ++item) {
    const bool follows_comment = item != items_.begin() && std::prev(item)->kind == Kind::comment;
    switch (item->kind) {
      case Kind::comment:
        text += "  # " + item->text + "\n";
        break;
      case Kind::block:
        if (item != items_.begin() && !follows_comment) text += "\n";
        text += "  " + deeper(item->text);
        break;
      case Kind::argument: {
        // The signs of arguments that follow each other on separate lines are below each other.
        if (item != items_.begin() && std::prev(item)->kind == Kind::block) text += "\n";
        auto first = item, last = item;
        while (first != items_.begin() && is_plain(*item) && is_plain(*std::prev(first))) --first;
        while (std::next(last) != items_.end() && is_plain(*item) && is_plain(*std::next(last))) ++last;
        size_t widest = 0;
        for (auto one = first; one != std::next(last); ++one) widest = std::max(widest, one->name.size());
        text += fmt::format("  {:<{}} = {}\n", item->name, widest, deeper(item->text));
        break;
      }
    }
  }
  return text + "}\n";
}

}  // namespace trireme::cloud
