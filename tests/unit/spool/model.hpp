// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What a spool must hold, as plain lists: the oracle of the property test and of the simulated disk.

#include <set>

#include "tests/unit/spool/support.hpp"

namespace tally::spool::test {

// 1..count; SPOOL_SEED=n runs that one alone, SPOOL_SEEDS=n as many.
inline std::vector<std::uint64_t> seeds(std::uint64_t count) {
    if (const char* one = std::getenv("SPOOL_SEED")) return {std::strtoull(one, nullptr, 10)};
    if (const char* many = std::getenv("SPOOL_SEEDS")) count = std::strtoull(many, nullptr, 10);
    std::vector<std::uint64_t> out;
    for (std::uint64_t seed = 1; seed <= count; ++seed) out.push_back(seed);
    return out;
}

struct ModelGroup {
    std::vector<ParcelId> records;
    std::vector<CursorUpdate> cursors;
};
struct ModelLife {
    std::uint64_t start = 0;
    CursorTable cursors_before;
    std::vector<ModelGroup> groups;  // number = position + 1
};

class Model {
public:
    void begin_life(const Spool& s) { lives.push_back({raw(s.start()), cursors_at(), {}}); }
    void appended(const Group& group) {
        ModelGroup out;
        for (const NewRecord& r : group.records)
            out.records.push_back({StartId{lives.back().start}, r.lane, r.seq});
        out.cursors = group.cursors;
        lives.back().groups.push_back(std::move(out));
    }
    // The last life ended with this many groups.
    void cut(std::uint64_t groups) { lives.back().groups.resize(groups); }
    CursorTable cursors_at(std::uint64_t groups = UINT64_MAX) const {
        CursorTable table;
        if (lives.empty()) return table;
        table = lives.back().cursors_before;
        for (std::size_t i = 0; i < lives.back().groups.size() && i < groups; ++i) {
            for (const CursorUpdate& c : lives.back().groups[i].cursors) {
                if (c.value.empty())
                    table.erase(c.key);
                else
                    table[c.key] = c.value;
            }
        }
        return table;
    }
    std::set<ParcelId> committed(std::uint64_t groups_of_last = UINT64_MAX) const {
        std::set<ParcelId> out;
        for (const ModelLife& life : lives) {
            for (std::size_t i = 0; i < life.groups.size(); ++i) {
                if (&life == &lives.back() && i >= groups_of_last) break;
                out.insert(life.groups[i].records.begin(), life.groups[i].records.end());
            }
        }
        return out;
    }
    void ack(Spool& s, const ParcelId& id) {
        s.ack_received(id.start, id.lane, range(raw(id.seq), raw(id.seq)));
        acked.insert(id);
    }
    void swept() { acked_saved = acked; }

    // Reads the spool, which was just opened, to the end and compares. `durable` of the last life must be there. Returns
    // how many groups of the last life it has.
    std::uint64_t check(Spool& s, std::uint64_t durable) const {
        std::uint64_t groups = 0;
        for (const EndedStart& end : s.ended_starts()) {
            if (end.start == lives.back().start) groups = end.group;
        }
        CHECK(groups >= durable);
        REQUIRE(groups <= lives.back().groups.size());
        for (const Damage& d : s.damage()) {
            MESSAGE(d.file << " " << d.what << " start " << raw(d.start) << " lane "
                           << static_cast<int>(d.lane) << " " << d.seq_first << ".." << d.seq_last);
        }
        CHECK(s.damage().empty());
        CHECK((s.cursors() == cursors_at(groups)));
        std::set<ParcelId> got;
        for (const Lane lane : {Lane::live, Lane::bulk, Lane::file}) {
            ParcelId before{};
            for (const Fetched& one : fetch_all(s, lane, 20000)) {
                CHECK(got.insert(one.id).second);
                if (in_order && before.start == one.id.start) CHECK(before.seq < one.id.seq);
                before = one.id;
            }
        }
        CHECK(s.damage().empty());
        const auto expected = committed(groups);
        for (const ParcelId& id : got) {
            CHECK(expected.contains(id));
            CHECK(!acked_saved.contains(id));
        }
        for (const ParcelId& id : expected) {
            if (!acked.contains(id)) CHECK(got.contains(id));
        }
        return groups;
    }

    bool in_order = true;  // write errors leave early copies of later records in the chain
    std::vector<ModelLife> lives;
    std::set<ParcelId> acked;        // told the spool
    std::set<ParcelId> acked_saved;  // and swept since
};

inline Shape random_shape(std::mt19937_64& rng, std::uint64_t group) {
    Shape shape;
    const auto sizes = [&](std::size_t count, std::size_t bytes_max) {
        std::vector<std::size_t> out(count);
        for (auto& b : out) b = 1 + rng() % bytes_max;
        return out;
    };
    shape.live = sizes(1 + rng() % 2, rng() % 8 == 0 ? 20000 : 3000);
    shape.bulk = sizes(rng() % 4, rng() % 16 == 0 ? 60000 : 15000);
    if (rng() % 4 == 0) shape.file = sizes(1, 9000);
    shape.cursors.push_back({text_bytes("group"), text_bytes(std::to_string(group))});
    if (rng() % 2 == 0) {
        shape.cursors.push_back({text_bytes("k" + std::to_string(rng() % 6)),
                                 rng() % 4 == 0 ? Bytes{} : text_bytes(std::to_string(rng()))});
    }
    return shape;
}

}  // namespace tally::spool::test
