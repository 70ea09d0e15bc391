#include "comm/control/secret.h"

#include <gmock/gmock.h>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

TEST(Secret, AProofIsThatOfOneSecretOneSideAndOneConnection) {
  const Handshake handshake{"secret", "server-nonce", "client-nonce", "stop"};
  const std::string proof = proof_of(handshake, Side::client);
  EXPECT_EQ(proof.size(), 64u);
  EXPECT_TRUE(proves(handshake, Side::client, proof));
  EXPECT_FALSE(proves(handshake, Side::server, proof)) << "not to be sent back";
  EXPECT_FALSE(proves(handshake, Side::client, ""));
  for (std::string Handshake::*field :
       {&Handshake::secret, &Handshake::server_nonce, &Handshake::client_nonce, &Handshake::said}) {
    Handshake other = handshake;
    other.*field += "x";
    EXPECT_FALSE(proves(other, Side::client, proof));
  }
  // The borders between the parts count.
  EXPECT_FALSE(proves({"secret", "server-nonc", "eclient-nonce", "stop"}, Side::client, proof));
}

TEST(Secret, AProofIsHmacSha256) {
  // As Python computes it: hmac.new(b"k", b"trireme client 1:a 1:b 1:c", "sha256").hexdigest()
  EXPECT_EQ(proof_of({"k", "a", "b", "c"}, Side::client),
            "b4cc1791cd859650f7a7d5bb5716fbe0924c616123039f812a498b22a1f4df20");
}

TEST(Secret, TwoAgreeOnASecretThatNobodyElseGets) {
  const KeyAgreement one, two, three;
  EXPECT_NE(one.public_key(), two.public_key());
  const std::string secret = one.secret_with(two.public_key());
  EXPECT_EQ(secret.size(), 64u);
  EXPECT_EQ(secret, two.secret_with(one.public_key()));
  EXPECT_NE(secret, one.secret_with(three.public_key()));
  EXPECT_NE(secret, three.secret_with(one.public_key()));
}

TEST(Secret, WhatIsNoKeyIsRefused) {
  const KeyAgreement key;
  for (const std::string& wrong : {std::string(), std::string("00"), std::string(64, 'x'), std::string(64, '0')})
    EXPECT_ERROR(key.secret_with(wrong), ErrorKind::comm, "not a public key");
}

}  // namespace
}  // namespace trireme
