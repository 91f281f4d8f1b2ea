// SPDX-License-Identifier: Apache-2.0
#include "transport/receiver/dedup.hpp"

namespace tally::receiver {

namespace {
constexpr std::uint8_t value_version = 1;
}

Bytes Dedup::cursor_key(const LaneKey& key) {
    Bytes out;
    ByteWriter w(out);
    w.put(key.spool);
    w.put(raw(key.start));
    w.put(static_cast<std::uint8_t>(key.lane));
    return out;
}

Bytes Dedup::cursor_value(const LaneKey& key) const {
    Bytes out;
    ByteWriter w(out);
    w.put(value_version);
    const auto it = lanes_.find(key);
    if (it == lanes_.end()) {
        IntervalSet{}.write(w);
        w.put(std::uint32_t{0});
        return out;
    }
    IntervalSet all = it->second.received;
    for (const auto& [seq, hash] : it->second.pending) all.insert(seq);
    all.write(w);
    std::map<std::uint64_t, std::uint64_t> kept = it->second.hashes;
    kept.insert(it->second.pending.begin(), it->second.pending.end());
    while (kept.size() > hashes_kept) kept.erase(kept.begin());
    w.put(static_cast<std::uint32_t>(kept.size()));
    for (const auto& [seq, hash] : kept) {
        w.put(seq);
        w.put(hash);
    }
    return out;
}

Status Dedup::restore(ByteView key, ByteView value) {
    ByteReader k(key);
    LaneKey lane_key;
    lane_key.spool = k.get<Uuid>();
    lane_key.start = StartId{k.get<std::uint64_t>()};
    const auto lane = k.get<std::uint8_t>();
    if (!k.ok() || k.left() != 0 || lane >= lane_count) return fail(Code::corrupt, "landing cursor key");
    lane_key.lane = static_cast<Lane>(lane);
    ByteReader v(value);
    if (v.get<std::uint8_t>() != value_version) return fail(Code::unsupported, "landing cursor version");
    auto received = IntervalSet::read(v);
    if (!received) return std::unexpected(received.error());
    LaneState state;
    state.received = std::move(*received);
    const auto n = v.get<std::uint32_t>();
    if (!v.ok() || v.left() / 16 < n) return fail(Code::truncated, "landing cursor");
    for (std::uint32_t i = 0; i < n; ++i) {
        const auto seq = v.get<std::uint64_t>();
        state.hashes[seq] = v.get<std::uint64_t>();
    }
    lanes_[lane_key] = std::move(state);
    return {};
}

bool Dedup::has_room(const LaneKey& key, Seq seq) const {
    const auto it = lanes_.find(key);
    if (it == lanes_.end()) return true;
    const LaneState& s = it->second;
    if (s.received.intervals().size() + s.pending.size() < intervals_max) return true;
    return s.received.contains(raw(seq)) || s.received.contains(raw(seq) - 1) || s.received.contains(raw(seq) + 1);
}

Verdict Dedup::judge(const LaneKey& key, Seq seq, std::uint64_t xxh3) const {
    const auto it = lanes_.find(key);
    if (it == lanes_.end()) return Verdict::fresh;
    const LaneState& s = it->second;
    if (const auto p = s.pending.find(raw(seq)); p != s.pending.end())
        return p->second == xxh3 ? Verdict::pending : Verdict::conflict;
    if (!s.received.contains(raw(seq))) return Verdict::fresh;
    const auto h = s.hashes.find(raw(seq));
    return h == s.hashes.end() || h->second == xxh3 ? Verdict::duplicate : Verdict::conflict;
}

void Dedup::begin(const LaneKey& key, Seq seq, std::uint64_t xxh3) { lanes_[key].pending[raw(seq)] = xxh3; }

void Dedup::abort(const LaneKey& key, Seq seq) { lanes_[key].pending.erase(raw(seq)); }

void Dedup::commit(const LaneKey& key, Seq seq) {
    LaneState& s = lanes_[key];
    const auto it = s.pending.find(raw(seq));
    TALLY_ASSERT(it != s.pending.end());
    s.hashes.insert(*it);
    s.pending.erase(it);
    s.received.insert(raw(seq));
    while (s.hashes.size() > hashes_max) s.hashes.erase(s.hashes.begin());
}

const IntervalSet& Dedup::received(const LaneKey& key) const {
    static const IntervalSet none;
    const auto it = lanes_.find(key);
    return it == lanes_.end() ? none : it->second.received;
}

std::vector<LaneKey> Dedup::lanes() const {
    std::vector<LaneKey> out;
    for (const auto& [key, state] : lanes_) out.push_back(key);
    return out;
}

}  // namespace tally::receiver
