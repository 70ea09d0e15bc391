#include "text/pipeline/token_stage.h"

#include <algorithm>

namespace trireme {
namespace {

/// Bytes at the end of `text` that may be the beginning of `literal`.
size_t begun(std::string_view text, std::string_view literal) {
  for (size_t length = std::min(text.size(), literal.size() - 1); length > 0; --length) {
    if (text.ends_with(literal.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

LiteralStage::LiteralStage(TokenSink& next, std::string from, std::string to_in_first, std::string to,
                           const GivenBytes& given)
    : TokenStage(next),
      from_(std::move(from)),
      to_in_first_(std::move(to_in_first)),
      to_(std::move(to)),
      given_(given) {}

void LiteralStage::part(std::string_view text) {
  waiting_ += text;
  const std::string& to = first_ ? to_in_first_ : to_;
  std::string ready;
  size_t at = 0;
  for (size_t found; (found = waiting_.find(from_, at)) != std::string::npos; at = found + from_.size()) {
    ready.append(waiting_, at, found - at).append(to);
    given_.limit().check(made_ + ready.size());
  }
  const size_t last = waiting_.size() - begun(std::string_view(waiting_).substr(at), from_);
  ready.append(waiting_, at, last - at);
  waiting_.erase(0, last);
  made_ += ready.size();
  next().part(ready);
}

void LiteralStage::end_token() {
  hand_on(waiting_);
  waiting_.clear();
  made_ = 0;
  first_ = false;
}

StripStage::StripStage(TokenSink& next, std::string content, uint64_t start, uint64_t stop)
    : TokenStage(next),
      content_(std::move(content)),
      start_(start),
      stop_(stop),
      held_(static_cast<size_t>(std::min<uint64_t>(stop, uint64_t{1} << 32)) * content_.size()) {}

void StripStage::strip_start() {
  while (at_start_ && stripped_ < start_ && waiting_.starts_with(content_)) {
    waiting_.erase(0, content_.size());
    ++stripped_;
  }
  at_start_ = at_start_ && stripped_ < start_ && std::string_view(content_).starts_with(waiting_);
}

void StripStage::part(std::string_view text) {
  waiting_ += text;
  strip_start();
  if (at_start_ || waiting_.size() <= held_) return;
  const size_t ready = waiting_.size() - held_;
  next().part(std::string_view(waiting_).substr(0, ready));
  waiting_.erase(0, ready);
}

void StripStage::end_token() {
  for (uint64_t i = 0; i < stop_ && waiting_.ends_with(content_); ++i)
    waiting_.resize(waiting_.size() - content_.size());
  hand_on(waiting_);
  waiting_.clear();
  stripped_ = 0;
  at_start_ = true;
}

}  // namespace trireme
