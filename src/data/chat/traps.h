#pragma once
// Conversations that can be trained on but are probably not meant so.

#include <set>
#include <string>

namespace trireme::chat {

class ChatFormat;
struct ChatTokens;
struct Conversation;

/// What is worth a line in the log about a conversation, in words that are the same for all of their kind.
std::set<std::string> traps_of(const Conversation& conversation);
/// The same with what its text and ids show.
std::set<std::string> traps_of(const Conversation& conversation, const ChatFormat& format, const ChatTokens& tokens);

}  // namespace trireme::chat
