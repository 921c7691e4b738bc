// SPDX-License-Identifier: BSD-3-Clause
// Reads `pmtu`: how path MTUs are found out.
#include <array>

#include "pxgw/ctl/config_value.h"

namespace pxgw {

void read_pmtu(const Value& v, Config& c, std::vector<ListedPrefix>& answer) {
  PathProbing& p = c.policy.probing;
  v.map("probe, assume, answer, port, key_file, elephant_bytes, probes_per_second, retry_s",
        [&](const std::string& name, const Value& x) {
          using Choice = std::pair<std::string_view, bool>;
          if (name == "probe")
            p.probe = x.one_of(std::array{Choice{"off", false}, Choice{"on", true}});
          else if (name == "assume")
            c.pmtu.assume = static_cast<uint16_t>(x.number(kMinMtu, kMaxMtu, "B"));
          else if (name == "answer")
            answer = read_prefixes(x);
          else if (name == "port")
            p.port = static_cast<uint16_t>(x.number(1, 65535));
          else if (name == "key_file") {
            c.pmtu.key_file = x.text("the path of a file");
            c.pmtu.key_line = x.line();
            if (c.pmtu.key_file.empty()) x.fail("is empty; give the path of a file, or leave the key out");
          } else if (name == "elephant_bytes")
            p.elephant_bytes = static_cast<uint32_t>(x.number(1u << 16, 1u << 30, "B"));
          else if (name == "probes_per_second")
            c.pmtu.probes_per_second = static_cast<uint32_t>(x.number(1, 1000));
          else if (name == "retry_s")
            p.retry = std::chrono::seconds(x.number(10, 86400, "s"));
          else
            return false;
          return true;
        });
}

}  // namespace pxgw
