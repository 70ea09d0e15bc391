#pragma once
// Who may take part in a job: both ends of a connection prove that they know its secret, and neither sends it. A proof
// is an HMAC-SHA256 of what its sender says and of one new random number of each end, so a recorded one is of no use.
//
//   server -> challenge: server_nonce
//   client -> what it says, client_nonce, proof_of(secret, Side::client, ...)
//   server -> proof_of(secret, Side::server, ...) of the same
//
// What follows is neither encrypted nor signed: this keeps out who listens or connects, not who alters packets on
// their way.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace trireme {

/// 64 random hexadecimal digits.
std::string random_secret();
/// Takes the same time for every difference.
bool same_secret(std::string_view a, std::string_view b);

enum class Side : uint8_t { client, server };

/// The proofs of one connection.
struct Handshake {
  std::string secret, server_nonce, client_nonce;
  std::string said;  ///< what the client says with its proof
};
/// 64 hexadecimal digits.
std::string proof_of(const Handshake& handshake, Side side);
/// Whether it is the proof of that side.
bool proves(const Handshake& handshake, Side side, std::string_view proof);

/// A secret with somebody over a connection that others may hear (X25519).
class KeyAgreement {
 public:
  KeyAgreement();
  ~KeyAgreement();
  KeyAgreement(const KeyAgreement&) = delete;
  KeyAgreement& operator=(const KeyAgreement&) = delete;
  /// What the other one needs; not secret.
  const std::string& public_key() const { return public_key_; }
  /// The same on both ends. Throws Error::comm for what is not a public key.
  std::string secret_with(const std::string& public_key) const;

 private:
  struct Key;
  std::unique_ptr<Key> key_;
  std::string public_key_;
};

}  // namespace trireme
