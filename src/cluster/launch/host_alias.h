#pragma once
// Names that the MPI starters take for hosts whose own names they refuse: IPv6 addresses, names with "_". Starters
// reach other hosts through our remote shell alone, which knows what is meant.

#include <string>
#include <string_view>

#include "cluster/launch/starter.h"

namespace trireme::launch {

/// A name with dots that is not an IPv4 address.
bool is_domain_name(std::string_view name);

/// What the starter's hostfile has for `host`: itself where the starter takes it, else an alias of letters, digits and
/// hyphens; user@ stays in front.
std::string name_for_starter(StarterKind kind, const std::string& host);

/// The host that an alias means; any other name is itself.
std::string name_of_alias(std::string_view name);

/// A starter's own words with its aliases turned back.
std::string without_aliases(std::string_view text);

}  // namespace trireme::launch
