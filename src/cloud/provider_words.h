#pragma once
// The words of az and aws, wherever a call's end has to be understood: both end with the same code for most failures,
// and put the reason into their messages alone. As the providers document their error codes; seen from stand-ins and
// the parsers of azure-cli and awscli only, never from the real services.

#include <string>

namespace trireme::cloud {

/// The line of a message with the reason: az repeats the parts of its message after it, aws prints nothing after it.
std::string reason_in(const std::string& message);

bool is_azure_not_found(const std::string& reason);
bool is_azure_group_not_found(const std::string& reason);
/// Azure has no machine of a size free.
bool is_azure_no_capacity(const std::string& reason);

bool is_aws_no_stack(const std::string& reason);
/// A stack is in the requested state.
bool is_aws_no_update(const std::string& reason);

}  // namespace trireme::cloud
