#pragma once
// Text of Terraform's language (HCL), formatted as `terraform fmt` formats it.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::cloud {

/// A quoted string with exactly this value: quotes, backslashes, line ends and the signs of templates are escaped.
std::string hcl_text(std::string_view text);
/// Text for a file that templatefile() reads: its signs of templates are escaped.
std::string template_text(std::string_view text);
/// "[a, b]" of expressions.
std::string hcl_list(const std::vector<std::string>& expressions);
/// The same of texts.
std::string hcl_texts(const std::vector<std::string>& texts);
/// "{ a = 1, b = 2 }" on one line; keys are names.
std::string hcl_object(const std::vector<std::pair<std::string, std::string>>& members);

/// A block: arguments, nested blocks and comments in the order in which they are added.
class Hcl {
 public:
  /// "resource", {"azurerm_subnet", "nodes"}; a label is quoted.
  explicit Hcl(std::string type, const std::vector<std::string>& labels = {});

  /// An argument with an expression, which may have several lines.
  Hcl& set(const std::string& name, const std::string& expression);
  /// An argument with a text.
  Hcl& text(const std::string& name, std::string_view value) { return set(name, hcl_text(value)); }
  Hcl& flag(const std::string& name, bool value) { return set(name, value ? "true" : "false"); }
  /// An argument with a map: keys are quoted, values are expressions.
  Hcl& map(const std::string& name, const std::vector<std::pair<std::string, std::string>>& members);
  Hcl& block(const Hcl& nested);
  Hcl& comment(const std::string& line);

  /// Its lines, ending with a line end.
  std::string str() const;

 private:
  enum class Kind : unsigned char { argument, block, comment };
  struct Item {
    Kind kind;
    std::string name, text;
  };
  std::string head_;
  std::vector<Item> items_;
};

}  // namespace trireme::cloud
