// SPDX-License-Identifier: BSD-3-Clause
// Messages as somebody wrote them: 1 byte says how, 32 are the message, and so on. Whatever comes,
// nobody is registered without his cookie, no answer is longer than its hello, and a client
// believes no answer that it didn't ask for.
#include "caravan/core/client.h"
#include "caravan/core/registrar.h"
#include "tests/fuzz/input.h"

using namespace test;

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzInput in(bytes, size);
  // The fuzzer sees what is compared, so cookies of a fixed secret would be learned from it.
  const caravan::Secret secret{caravan::siphash({11, 12}, {bytes, size}), size};
  caravan::HostTable hosts(16, secret);
  caravan::Registrar registrar(hosts, {.secret = secret, .session = 5});
  caravan::Client client({.secret = secret});
  caravan::Time now = std::chrono::seconds(1);
  uint64_t cookie = 0;
  for (int i = 0; i < 64 && !in.empty(); ++i) {
    const uint8_t how = in.u8();
    Bytes message = in.bytes((how & 1) != 0 ? 32 : how);
    const caravan::Address from{how % 2 != 0 ? caravan::Family::kIpv4 : caravan::Family::kIpv6,
                                {10, how}};
    const bool knows = (how & 2) != 0 && cookie != 0 && message.size() == 32;
    if (knows)  // what it was told is put in its place
      for (int k = 0; k < 8; ++k)
        message[16 + static_cast<size_t>(k)] = static_cast<uint8_t>(cookie >> (56 - 8 * k));
    std::array<uint8_t, caravan::kHelloBytes> out{};
    const auto hello = caravan::parse_hello(message);
    fuzz_check(!hello || !caravan::parse_answer(message), "a message is a hello or an answer");
    if (registrar.answer(from, message, now, out)) {
      fuzz_check(hello.has_value(), "only hellos are answered");
      const auto a = caravan::parse_answer(out);
      fuzz_check(a && a->nonce == hello->nonce, "the answer is one, to this hello");
      const bool in_table = hosts.size_of(from, now) != 0;
      if (a->status == caravan::Status::kRegistered)
        fuzz_check(in_table && hello->size != 0, "registered");
      if (!knows && cookie == 0) fuzz_check(!in_table, "nobody is known without a cookie");
      fuzz_check(a->size <= hello->size, "no more than the host takes");
      cookie = a->cookie;
    }
    if ((how & 4) != 0) client.next(now);
    const uint64_t before = client.answers();
    if (client.accept(message, now)) fuzz_check(client.answers() == before + 1, "counted");
    if (!caravan::parse_answer(message))
      fuzz_check(client.answers() == before, "no answer, nothing believed");
    now += std::chrono::milliseconds(how);
  }
  return 0;
}
