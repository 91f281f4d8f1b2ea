// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/unit/sink/kit.hpp"
#include "tools/reconcile/store_proof.hpp"
#include "transport/sink/rows.hpp"
#include "transport/sink/schema.hpp"

using namespace tally;
using parcel::ProducerWhat;

namespace {

struct World {
    kit::TempDir dir;
    std::unique_ptr<sink::Connection> db;
    World() {
        kit::remove_at_exit(dir.path);
        db = std::move(*sink::Connection::open({{}, dir.path, {}}));
        REQUIRE(sink::apply_schema(*db));
        ask("SYSTEM STOP MERGES");
    }
    void insert(const std::vector<Bytes>& parcels, std::uint64_t batch) {
        sink::RowBuilder rows(batch);
        for (const Bytes& p : parcels) rows.add_parcel(p);
        for (sink::Block* b : rows.blocks())
            REQUIRE(db->insert("INSERT INTO tallyman." + b->table() + b->column_list() + " SETTINGS async_insert = 0", b->pieces()) == "");
    }
    std::string ask(const std::string& sql) {
        const sink::Answer a = db->query(sql);
        REQUIRE(a.error == "");
        return a.rows;
    }
    // A change made behind the product's back; merges are stopped otherwise, so that duplicates stay what they are.
    void alter(const std::string& sql) {
        ask("SYSTEM START MERGES");
        ask(sql);
        ask("SYSTEM STOP MERGES");
    }
    reconcile::Report prove(const std::string& run, std::uint64_t not_stored = 0) {
        const tools::QueryFn query = [this](const std::string& sql, const std::string& format, const sink::Params& params) {
            return db->query(sql, format, params);
        };
        reconcile::Report r = reconcile::prove_store(query, run, not_stored);
        INFO(r.text());
        return r;
    }
};
World& world() {
    static World* w = new World;
    return *w;
}

// A whole run in the store: opened, everything, closed. Returns the producer, for its model.
kit::Producer complete(const std::string& run, std::uint64_t seed) {
    kit::Producer p(run, seed);
    p.start = StartId{1000 + seed};
    std::vector<Bytes> parcels{p.live({ProducerWhat::opened}, false)};
    for (Bytes& b : kit::everything(p)) parcels.push_back(std::move(b));
    parcels.push_back(p.live({}));
    parcels.push_back(p.stats({Dtype::f32, "m_f32"}));
    parcels.push_back(p.live({ProducerWhat::closed}, false));
    world().insert(parcels, seed);
    return p;
}

}  // namespace

TEST_CASE("a complete run of every dtype and shape is exact") {
    if (!kit::have_chdb()) return;
    const kit::Producer p = complete("exact", 21);
    const auto r = world().prove("exact");
    INFO(r.text());
    CHECK(r.verdict == "exact");
    CHECK(r.exit_code() == 0);
    CHECK(r.checked == p.points.size());
    CHECK(r.points_stored == p.points.size());
    CHECK(r.points_logged == p.points.size());
    CHECK(r.headers.stored == 2);
    CHECK(r.json().find("\"verdict\": \"exact\"") != std::string::npos);
}

TEST_CASE("one flipped bit in the store is named with point, bit, expected and found") {
    if (!kit::have_chdb()) return;
    complete("flipped", 22);
    // value 5 of the row of metric m_f32 at step 7 that begins with environment 100: environment 105
    world().alter("ALTER TABLE tallyman.points_w4 UPDATE `v.p2` = arrayMap((x, i) -> if(i = 6, bitXor(x, 16), x), v.p2, arrayEnumerate(v.p2)) "
                "WHERE run = 'flipped' AND metric = 'm_f32' AND env_first = 100 AND step_first = 7 AND steps = 1 SETTINGS mutations_sync = 2");
    const auto r = world().prove("flipped");
    INFO(r.text());
    CHECK(r.verdict == "mismatch");
    CHECK(r.exit_code() == 4);
    REQUIRE(r.first.size() == 1);
    CHECK(r.first[0].metric == "m_f32");
    CHECK(r.first[0].env == 105);
    CHECK(r.first[0].step == 7);
    CHECK(r.first[0].found.find("bit 20 flipped") != std::string::npos);
    CHECK(r.tiles.mismatched == 1);
}

TEST_CASE("one altered row of the live lane is named with its field, expected and found") {
    if (!kit::have_chdb()) return;
    struct Case {
        const char *table, *change, *where, *layer, *expected, *found;
        std::int64_t env, step;
    };
    std::uint64_t seed = 200;
    for (const Case& c : {Case{"stats", "count = count + 1", "step = 7", "stats", "count 5", "count 6", 100, 7},
                          Case{"stats", "sum = sum - 3", "step = 7", "stats", "sum 10", "sum 7", 100, 7},
                          Case{"stats", "bin_counts = [1, 3, 1]", "step = 7", "stats", nullptr, nullptr, -1, 0},
                          Case{"episodes", "length = length + 64", "env = 3", "headers", "length 64", "length 128", 3, 63},
                          Case{"episodes", "ret = -ret", "env = 4", "headers", "return -0", "return 0", 4, 5},
                          Case{"event_rows", "text = '{}'", "1", "events", nullptr, nullptr, -1, 0}}) {
        const std::string run = "live" + std::to_string(++seed);
        complete(run, seed);
        world().alter(std::string("ALTER TABLE tallyman.") + c.table + " UPDATE " + c.change + " WHERE run = '" + run + "' AND " + c.where +
                      " SETTINGS mutations_sync = 2");
        const auto r = world().prove(run);
        INFO(r.text());
        CHECK(r.verdict == "mismatch");
        REQUIRE(r.first.size() == 1);
        CHECK(r.first[0].layer == c.layer);
        CHECK(r.first[0].env == c.env);
        CHECK(r.first[0].step == c.step);
        if (c.expected == nullptr) continue;
        CHECK(r.first[0].expected == std::string(c.expected));
        CHECK(r.first[0].found == std::string(c.found));
    }
}

TEST_CASE("an altered time or rl_step is a mismatch, also where values of a row have times of their own") {
    if (!kit::have_chdb()) return;
    std::uint64_t seed = 230;
    for (const auto& [change, where] : {std::pair{"time_ns = time_ns + 1", "metric = 'm_f32' AND env_first = 100 AND step_first = 7"},
                                        std::pair{"rl_step = NULL", "metric = 'm_i32' AND env_first = 100 AND step_first = 20"},
                                        std::pair{"rl_step = rl_step + 1", "metric = 'listed' AND env_first = 10 AND step_first = -5"},
                                        std::pair{"time_list = arrayMap((t, i) -> t + (i = 3), time_list, arrayEnumerate(time_list))", "metric = 'loss' AND step_first = 0"},
                                        std::pair{"rl_list = arrayReverse(rl_list)", "metric = 'loss' AND step_first = 0"}}) {
        const std::string run = "when" + std::to_string(++seed);
        complete(run, seed);
        CHECK(world().prove(run).verdict == "exact");
        for (const char* width : {"4", "8"})
            world().alter(std::string("ALTER TABLE tallyman.points_w") + width + " UPDATE " + change + " WHERE run = '" + run + "' AND " + where +
                          " SETTINGS mutations_sync = 2");
        const auto r = world().prove(run);
        INFO(change << '\n' << r.text());
        CHECK(r.verdict == "mismatch");
        REQUIRE(!r.first.empty());
        CHECK(r.first[0].layer == "times");
    }
}

TEST_CASE("a missing row is a loss, and its first point is named") {
    if (!kit::have_chdb()) return;
    complete("missing", 23);
    world().alter("ALTER TABLE tallyman.points_w8 DELETE WHERE run = 'missing' AND metric = 'm_i64' AND env_first = 164 AND step_first = 7 AND steps = 1 "
                "SETTINGS mutations_sync = 2");
    const auto r = world().prove("missing");
    INFO(r.text());
    CHECK(r.verdict == "loss");
    CHECK(r.exit_code() == 4);
    CHECK(r.undeclared_lost == 64);
    REQUIRE(!r.first.empty());
    CHECK(r.first[0].metric == "m_i64");
    CHECK(r.first[0].env == 164);
    CHECK(r.first[0].step == 7);
}

TEST_CASE("rows under another key that say the same again are a mismatch") {
    if (!kit::have_chdb()) return;
    complete("doubled", 24);
    world().ask("INSERT INTO tallyman.points_w1 SELECT * REPLACE (origin_row + 100000 AS origin_row) FROM tallyman.points_w1 WHERE run = 'doubled' AND "
                "metric = 'listed8' AND env_first = 4106 LIMIT 1");
    const auto r = world().prove("doubled");
    INFO(r.text());
    CHECK(r.verdict == "mismatch");
    CHECK(r.physical_duplicates == 0);
    REQUIRE(!r.first.empty());
    CHECK(r.first[0].metric == "listed8");
}

TEST_CASE("the same batch twice is exact, and its physical duplicates are told apart") {
    if (!kit::have_chdb()) return;
    kit::Producer p("again", 25);
    p.start = StartId{1025};
    std::vector<Bytes> parcels{p.live({ProducerWhat::opened}, false)};
    for (Bytes& b : kit::everything(p)) parcels.push_back(std::move(b));
    parcels.push_back(p.live({ProducerWhat::closed}));
    // closed counts what live() adds in the same parcel
    world().insert(parcels, 251);
    world().insert(parcels, 252);
    const auto r = world().prove("again");
    INFO(r.text());
    CHECK(r.verdict == "exact");
    CHECK(r.physical_duplicates > 0);
    CHECK(r.points_stored == p.points.size());
}

TEST_CASE("an open producer is pending, also while points are on their way; an altered one is a mismatch all the same") {
    if (!kit::have_chdb()) return;
    kit::Producer p("open", 26);
    p.start = StartId{1026};
    std::vector<Bytes> parcels{p.live({ProducerWhat::opened}, false)};
    const auto bulk = kit::everything(p);
    parcels.push_back(p.live({}));
    parcels.push_back(bulk[0]);
    world().insert(parcels, 26);
    auto r = world().prove("open");
    INFO(r.text());
    CHECK(r.verdict == "pending");
    CHECK(r.exit_code() == 3);
    CHECK(r.open_producers == 1);
    CHECK(r.mismatched == 0);
    world().alter("ALTER TABLE tallyman.points_w4 UPDATE `v.p0` = arrayMap((x, i) -> if(i = 1, bitXor(x, 1), x), v.p0, arrayEnumerate(v.p0)) "
                "WHERE run = 'open' AND metric = 'm_u32' AND env_first = 100 AND step_first = 7 AND steps = 1 SETTINGS mutations_sync = 2");
    r = world().prove("open");
    INFO(r.text());
    CHECK(r.exit_code() == 4);
}

TEST_CASE("a declared gap is a loss") {
    if (!kit::have_chdb()) return;
    kit::Producer p = complete("gap", 27);
    parcel::Gap gap;
    gap.points = 12;
    gap.reason = "budget";
    Bytes body;
    parcel::write_gaps({p.origin, {gap}}, body);
    parcel::ParcelBuilder builder;
    builder.add(parcel::SectionKind::gaps, body, false);
    world().insert({p.seal(builder, Lane::live, 0)}, 270);
    const auto r = world().prove("gap");
    INFO(r.text());
    CHECK(r.verdict == "loss");
    CHECK(r.points_declared_lost == 12);
}

TEST_CASE("a hole in the sequences below the run's newest parcel is seen") {
    if (!kit::have_chdb()) return;
    kit::Producer p("hole", 28);
    p.start = StartId{1028};
    std::vector<Bytes> parcels{p.live({ProducerWhat::opened}, false)};
    p.next_seq[0] += 2;
    parcels.push_back(p.live({ProducerWhat::closed}, false));
    world().insert(parcels, 28);
    const auto r = world().prove("hole");
    INFO(r.text());
    CHECK(r.transport.mismatched == 2);
    CHECK(r.verdict == "pending");
}

TEST_CASE("runs of one row shape only are exact too: steps one by one, and many steps of one environment") {
    if (!kit::have_chdb()) return;
    std::uint64_t seed = 30;
    for (const std::uint32_t steps : {1U, 64U, 40U}) {
        kit::Producer p("shape" + std::to_string(steps), ++seed);
        p.start = StartId{1000 + seed};
        std::vector<Bytes> parcels{p.live({ProducerWhat::opened}, false)};
        for (const Dtype d : {Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::i64})
            parcels.push_back(p.frames({{d, dtype_name(d)}}, 70, 150, {kit::dense(-3, steps, 3), kit::dense(500, steps, 2)}));
        parcels.push_back(p.live({}));
        parcels.push_back(p.live({ProducerWhat::closed}, false));
        world().insert(parcels, seed);
        const auto r = world().prove(p.origin.run);
        INFO(r.text());
        CHECK(r.verdict == "exact");
        CHECK(r.checked == p.points.size());
    }
}

TEST_CASE("a run nobody knows is pending, not exact") {
    if (!kit::have_chdb()) return;
    CHECK(world().prove("nobody").verdict == "pending");
}

TEST_CASE("nothing is exact or lost while received parcels are not in the store") {
    if (!kit::have_chdb()) return;
    complete("backlog", 40);
    auto r = world().prove("backlog", 2);
    INFO(r.text());
    CHECK(r.verdict == "pending");
    CHECK(r.exit_code() == 3);
    CHECK(r.json().find("\"not_stored\": 2") != std::string::npos);
    CHECK(world().prove("backlog").verdict == "exact");
    // Rows that are short may be among them; a wrong value cannot come right any more.
    world().alter("ALTER TABLE tallyman.stats DELETE WHERE run = 'backlog' AND step = 7 SETTINGS mutations_sync = 2");
    CHECK(world().prove("backlog", 2).verdict == "pending");
    CHECK(world().prove("backlog").verdict == "loss");
    world().alter("ALTER TABLE tallyman.points_w4 UPDATE `v.p2` = arrayMap((x, i) -> if(i = 6, bitXor(x, 16), x), v.p2, arrayEnumerate(v.p2)) "
                  "WHERE run = 'backlog' AND metric = 'm_f32' AND env_first = 100 AND step_first = 7 AND steps = 1 SETTINGS mutations_sync = 2");
    CHECK(world().prove("backlog", 2).verdict == "mismatch");
}

TEST_CASE("the end of a life that a later start tells of is waited for, in every lane") {
    if (!kit::have_chdb()) return;
    kit::Producer p = complete("ended", 41);
    parcel::StartSection section;
    section.ended.resize(1);
    parcel::EndedLife& life = section.ended[0];
    life.start = p.start;
    life.group = p.group + 1;
    for (std::size_t lane = 0; lane < lane_count; ++lane) life.seq[lane] = p.next_seq[lane] - 1;
    life.seq[static_cast<std::size_t>(Lane::bulk)] += 2;
    kit::Producer later("other", 42);
    later.start = StartId{1999};
    Bytes body;
    parcel::write_start(section, body);
    parcel::ParcelBuilder builder;
    builder.add(parcel::SectionKind::start, body, false);
    CHECK(world().prove("ended").verdict == "exact");
    world().insert({later.seal(builder, Lane::live, 0)}, 420);
    auto r = world().prove("ended");
    INFO(r.text());
    CHECK(r.verdict == "pending");
    CHECK(r.transport.mismatched == 2);
    REQUIRE(!r.first.empty());
    CHECK(r.first[0].layer == "transport");
    parcel::ParcelBuilder first, second;
    world().insert({p.seal(first, Lane::bulk, 0), p.seal(second, Lane::bulk, 0)}, 421);
    CHECK(world().prove("ended").verdict == "exact");
}
