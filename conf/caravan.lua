-- SPDX-License-Identifier: BSD-3-Clause
-- Wireshark and tshark: dissects PX-caravan as docs/caravan-format.md has it.
--   tshark -X lua_script:conf/caravan.lua ...    or copy it to Wireshark's folder of personal plugins
-- A caravan that must be refused shows why in pxcaravan.refused. Another port than 7475: Preferences, or
--   -d udp.port==PORT,pxcaravan

local proto = Proto("pxcaravan", "PX-caravan")
local types = { [0] = "caravan", [1] = "hello", [2] = "answer" }
local ecns = { [0] = "Not-ECT", [1] = "ECT(1)", [2] = "ECT(0)", [3] = "CE" }
local statuses = { [0] = "registered", [1] = "cookie", [2] = "full", [3] = "gone" }

local f = {
  magic = ProtoField.uint16("pxcaravan.magic", "Magic", base.HEX),
  version = ProtoField.uint8("pxcaravan.version", "Version", base.DEC, nil, 0xf0),
  type = ProtoField.uint8("pxcaravan.type", "Type", base.DEC, types, 0x0f),
  ecn = ProtoField.uint8("pxcaravan.ecn", "ECN when bundled", base.DEC, ecns, 0x03),
  count = ProtoField.uint8("pxcaravan.count", "Datagrams"),
  length = ProtoField.uint16("pxcaravan.length", "Bytes of records"),
  id = ProtoField.uint16("pxcaravan.record.id", "Identification", base.HEX),
  label = ProtoField.uint32("pxcaravan.record.flow_label", "Flow label", base.HEX),
  src = ProtoField.uint16("pxcaravan.record.srcport", "Source port"),
  dst = ProtoField.uint16("pxcaravan.record.dstport", "Destination port"),
  udp_length = ProtoField.uint16("pxcaravan.record.length", "UDP length"),
  refused = ProtoField.string("pxcaravan.refused", "Refused"),
  status = ProtoField.uint8("pxcaravan.status", "Status", base.DEC, statuses),
  size = ProtoField.uint16("pxcaravan.size", "Largest caravan"),
  lifetime = ProtoField.uint16("pxcaravan.lifetime", "Lifetime (ms)"),
  nonce = ProtoField.uint64("pxcaravan.nonce", "Nonce", base.HEX),
  cookie = ProtoField.uint64("pxcaravan.cookie", "Cookie", base.HEX),
  session = ProtoField.uint64("pxcaravan.session", "Session", base.HEX),
}
proto.fields = f
local malformed = ProtoExpert.new("pxcaravan.malformed", "must be refused whole", expert.group.MALFORMED,
                                  expert.severity.ERROR)
proto.experts = { malformed }
proto.prefs.port = Pref.uint("UDP port", 7475, "the caravan port")

local ip_ecn = Field.new("ip.dsfield.ecn")
local ip6_ecn = Field.new("ipv6.tclass.ecn")

-- Version and ECN field of the IP header that carries it: the last one, where there is a tunnel below.
local function outer(pinfo)
  local v6 = tostring(pinfo.net_src):find(":") ~= nil
  local all = { (v6 and ip6_ecn or ip_ecn)() }
  return v6 and 6 or 4, #all > 0 and all[#all].value or 0
end

local function refuse(tree, range, why)
  tree:add(f.refused, range, why)
  tree:add_proto_expert_info(malformed, why)
end

local function message(buffer, tree, kind)
  if buffer:len() ~= 32 then return refuse(tree, buffer(), "length") end
  tree:add(f.status, buffer(3, 1))
  tree:add(f.size, buffer(4, 2))
  tree:add(f.lifetime, buffer(6, 2))
  tree:add(f.nonce, buffer(8, 8))
  tree:add(f.cookie, buffer(16, 8))
  tree:add(f.session, buffer(24, 8))
end

-- The reason to refuse the records, or nothing and the places of their UDP headers.
local function check(buffer, version, mark)
  local count, places, at = buffer(4, 1):uint(), {}, 8
  if buffer(3, 1):bitfield(0, 6) ~= 0 or buffer(5, 1):uint() ~= 0 then return "reserved" end
  if count == 0 or count > 64 then return "count" end
  if buffer(6, 2):uint() ~= buffer:len() - 8 then return "length" end
  for _ = 1, count do
    if buffer:len() - at < mark + 8 then return "record" end
    local label = mark == 4 and buffer(at, 4):uint() or 0
    at = at + mark
    local length = buffer(at + 4, 2):uint()
    if length < 8 or length > buffer:len() - at then return "record" end
    if buffer(at, 2):uint() == proto.prefs.port or buffer(at + 2, 2):uint() == proto.prefs.port then
      return "nested"
    end
    if label > 0xfffff then return "mark" end
    places[#places + 1] = at
    at = at + length
  end
  if at ~= buffer:len() then return "rest" end
  return nil, places
end

local function records(buffer, pinfo, root, tree)
  local version, arrived = outer(pinfo)
  local mark = version == 6 and 4 or 2
  tree:add(f.ecn, buffer(3, 1))
  tree:add(f.count, buffer(4, 1))
  tree:add(f.length, buffer(6, 2))
  local why, places = check(buffer, version, mark)
  if not why and buffer(3, 1):bitfield(6, 2) == 0 and arrived == 3 then why = "ecn" end
  if why then
    refuse(tree, buffer(), why)
    pinfo.cols.info:append(", refused: " .. why)
    return
  end
  local src_port, dst_port = pinfo.src_port, pinfo.dst_port
  local udp = Dissector.get("udp")
  for i, at in ipairs(places) do
    local length = buffer(at + 4, 2):uint()
    local record = tree:add(proto, buffer(at - mark, mark + length), string.format("Datagram %d", i))
    record:add(mark == 4 and f.label or f.id, buffer(at - mark, mark))
    record:add(f.src, buffer(at, 2))
    record:add(f.dst, buffer(at + 2, 2))
    record:add(f.udp_length, buffer(at + 4, 2))
  end
  -- A payload that its own dissector can't read is no reason not to show the others.
  for _, at in ipairs(places) do
    pcall(udp.call, udp, buffer(at, buffer(at + 4, 2):uint()):tvb(), pinfo, root)
  end
  pinfo.src_port, pinfo.dst_port = src_port, dst_port
  pinfo.cols.protocol = "PX-caravan"
  pinfo.cols.info = string.format("caravan, %d datagrams", #places)
end

function proto.dissector(buffer, pinfo, root)
  local size = buffer:len()
  pinfo.cols.protocol = "PX-caravan"
  local tree = root:add(proto, buffer())
  if size < 4 then
    refuse(tree, buffer(), "short")
    return size
  end
  tree:add(f.magic, buffer(0, 2))
  tree:add(f.version, buffer(2, 1))
  tree:add(f.type, buffer(2, 1))
  local kind = buffer(2, 1):bitfield(4, 4)
  local why = buffer(0, 2):uint() ~= 0x5058 and "magic" or buffer(2, 1):bitfield(0, 4) ~= 1 and "version" or
              not types[kind] and "type" or size < 8 and "short" or nil
  if why then
    refuse(tree, buffer(), why)
    pinfo.cols.info = "refused: " .. why
  else
    pinfo.cols.info = types[kind]
    if kind == 0 then records(buffer, pinfo, root, tree) else message(buffer, tree, kind) end
  end
  return size
end

local registered
local function register()
  local ports = DissectorTable.get("udp.port")
  if registered then ports:remove(registered, proto) end
  registered = proto.prefs.port
  ports:add(registered, proto)
end
proto.prefs_changed = register
register()
