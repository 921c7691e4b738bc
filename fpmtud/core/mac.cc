// SPDX-License-Identifier: BSD-3-Clause
#include "fpmtud/core/mac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cassert>

namespace fpmtud {

Mac mac_of(const Key& key, std::span<const uint8_t> bytes) {
  std::array<uint8_t, 32> full{};
  unsigned length = full.size();
  const uint8_t* made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes.data(),
                             bytes.size(), full.data(), &length);
  assert(made != nullptr && length == full.size());
  (void)made;
  Mac mac;
  std::copy_n(full.begin(), mac.size(), mac.begin());
  return mac;
}

bool equal_in_constant_time(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace fpmtud
