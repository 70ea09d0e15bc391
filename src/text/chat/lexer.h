#pragma once
// Cuts a template into tokens, with Jinja's rules for white space as transformers sets them: trim_blocks and
// lstrip_blocks on, one line break at the end dropped, "\r\n" and "\r" read as "\n".

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/budget.h"

namespace trireme::chat {

enum class TokenKind : uint8_t {
  data,  ///< text between tags
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  number,
  sign,  ///< an operator or a bracket
  end
};

struct Token {
  TokenKind kind;
  uint32_t line;
  std::string text = {};  ///< of data, names and signs; the value of a string
  int64_t integer = 0;
  double number = 0;

  bool is_name(std::string_view name) const { return kind == TokenKind::name && text == name; }
  bool is_sign(std::string_view sign) const { return kind == TokenKind::sign && text == sign; }
};

/// What a template's text does wrong, and where.
struct SyntaxFault {
  uint32_t line;
  std::string message;
};

/// The last token is an end. `source` is valid UTF-8. Throws SyntaxFault.
std::vector<Token> cut_template(std::string_view source);

}  // namespace trireme::chat
