#pragma once
// Aliases for hosts whose names the MPI starters refuse: IPv6 addresses, names with "_". Starters reach other hosts
// only through our remote shell, which knows the aliases.

#include <string>
#include <string_view>

#include "cluster/launch/starter.h"

namespace trireme::launch {

/// A name with dots that is not an IPv4 address.
bool is_domain_name(std::string_view name);

/// The name for `host` in the starter's hostfile: the host if the starter accepts it, otherwise an alias of letters,
/// digits and hyphens; a prefix user@ stays.
std::string name_for_starter(StarterKind kind, const std::string& host);

/// The host of an alias; any other name is returned unchanged.
std::string name_of_alias(std::string_view name);

/// A starter's message with its aliases replaced by host names.
std::string without_aliases(std::string_view text);

}  // namespace trireme::launch
