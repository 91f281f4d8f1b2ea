// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <sstream>

#include "tests/unit/sink/kit.hpp"
#include "transport/sink/rows.hpp"
#include "transport/sink/schema.hpp"
#include "transport/sink/store.hpp"

using namespace tally;

namespace {

constexpr const char* into = " SETTINGS async_insert = 0, max_insert_block_size = 1000000000, min_insert_block_size_rows = 0, "
                             "min_insert_block_size_bytes = 0, optimize_on_insert = 0";

// One process has one storage path, so all tests of this file share one store and use runs of their own.
struct World {
    kit::TempDir dir;
    std::unique_ptr<sink::Connection> db;
    World() {
        kit::remove_at_exit(dir.path);
        db = std::move(*sink::Connection::open({{}, dir.path, {}}));
        REQUIRE(sink::apply_schema(*db));
    }
    void insert(const std::vector<Bytes>& parcels, std::uint64_t batch) {
        sink::RowBuilder rows(batch);
        for (const Bytes& p : parcels) rows.add_parcel(p);
        for (sink::Block* b : rows.blocks())
            REQUIRE(db->insert("INSERT INTO tallyman." + b->table() + b->column_list() + into, b->pieces()) == "");
    }
    std::string ask(const std::string& sql) {
        const sink::Answer a = db->query(sql);
        REQUIRE(a.error == "");
        return a.rows;
    }
};
World& world() {
    static World* w = new World;  // never destroyed: the engine's own teardown is not safe after main
    return *w;
}

std::string model_lines(const kit::Producer& p) {
    std::string out;
    for (const kit::Point& q : p.points)
        out += q.metric + "\t" + std::to_string(q.env) + "\t" + std::to_string(q.step) + "\t" + q.rl + "\t" +
               std::to_string(q.time_ns) + "\t" + std::to_string(q.bits) + "\t" + dtype_name(q.dtype) + "\t" + p.origin.producer.text() +
               "\t0\n";
    return kit::sorted_lines(out);
}

std::string stored_lines(const std::string& run, const std::string& view = "points") {
    return kit::sorted_lines(world().ask("SELECT metric, env, step, rl_step, toUnixTimestamp64Nano(time), bits, dtype, producer, attempt FROM tallyman." +
                                         view + " WHERE run = '" + run + "'"));
}

}  // namespace

TEST_CASE("every dtype and shape comes back bit for bit through the points view") {
    if (!kit::have_chdb()) return;
    kit::Producer p("all");
    world().insert(kit::everything(p), 1);
    CHECK(stored_lines("all") == model_lines(p));
    CHECK(stored_lines("all", "points_current") == model_lines(p));
}

TEST_CASE("a batch inserted twice shows once, and its rows are there twice") {
    if (!kit::have_chdb()) return;
    kit::Producer p("twice", 3);
    const auto parcels = kit::everything(p);
    world().ask("SYSTEM STOP MERGES");
    world().insert(parcels, 2);
    world().insert(parcels, 3);
    CHECK(stored_lines("twice") == model_lines(p));
    CHECK(world().ask("SELECT count() = 2 * uniqExact(origin_seq, origin_row) FROM tallyman.points_w4 WHERE run = 'twice'") == "1\n");
    world().ask("SYSTEM START MERGES");
}

TEST_CASE("values are what the dtype says, NaN and infinities included") {
    if (!kit::have_chdb()) return;
    kit::Producer p("values", 5);
    std::vector<parcel::ScalarSeries> series;
    for (std::uint8_t code = 1; code <= 13; ++code) {
        const Dtype d{code};
        parcel::ScalarSeries s{{d, dtype_name(d)}, {}, {}, {}, {}};
        std::vector<std::uint64_t> bits{0, 1, 0x7F, 0x80, 0xFF};
        if (dtype_width(d) >= 2) bits.insert(bits.end(), {0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E01, 0x8000, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFFFF});
        if (dtype_width(d) >= 4) bits.insert(bits.end(), {0x3F800000, 0x80000000, 0x7F800000, 0xFFC00001, 0xFFFFFFFF});
        if (dtype_width(d) == 8) bits.insert(bits.end(), {0x3FF0000000000000, 0x8000000000000000, 0x7FF0000000000001, UINT64_MAX, 0x20000000000001});
        if (d == Dtype::boolean) bits = {0, 1};
        for (std::size_t i = 0; i < bits.size(); ++i) {
            s.steps.push_back(static_cast<std::int64_t>(i));
            s.times_ns.push_back(1);
            s.rl_steps.push_back({});
            s.bits.push_back(bits[i]);
        }
        series.push_back(std::move(s));
    }
    world().insert({p.scalars(series)}, 4);
    std::istringstream answers(world().ask("SELECT reinterpretAsUInt64(value) FROM tallyman.points WHERE run = 'values' ORDER BY dtype, step"));
    for (const kit::Point& q : p.points) {
        const double expected = dtype_to_f64(q.dtype, q.bits);
        std::uint64_t answer = 0;
        answers >> answer;
        const auto found = std::bit_cast<double>(answer);
        INFO(q.metric, " ", q.bits);
        CHECK((std::isnan(expected) ? std::isnan(found) : std::bit_cast<std::uint64_t>(found) == std::bit_cast<std::uint64_t>(expected)));
    }
}

TEST_CASE("series and step_slice give what points gives") {
    if (!kit::have_chdb()) return;
    kit::Producer p("slices", 6);
    world().insert(kit::everything(p), 5);
    const std::string columns = "SELECT metric, env, step, bits FROM tallyman.";
    for (const char* env : {"0", "99", "100", "163", "164", "229", "230"})
        CHECK(kit::sorted_lines(world().ask(columns + "series(run = 'slices', metric = 'm_f32', env = " + env + ")")) ==
              kit::sorted_lines(world().ask(columns + "points WHERE run = 'slices' AND metric = 'm_f32' AND env = " + env)));
    for (const char* env : {"10", "12", "100", "4105", "4106", "5009"})
        CHECK(kit::sorted_lines(world().ask(columns + "series(run = 'slices', metric = 'listed', env = " + env + ")")) ==
              kit::sorted_lines(world().ask(columns + "points WHERE run = 'slices' AND metric = 'listed' AND env = " + env)));
    CHECK(world().ask("SELECT count() FROM tallyman.series(run = 'slices', metric = 'listed', env = 12)") == "4\n");
    for (const char* metric : {"m_f16", "loss", "listed"})
        CHECK(kit::sorted_lines(world().ask(columns + "step_slice(run = 'slices', metric = '" + metric + "', lo = 8, hi = 130)")) ==
              kit::sorted_lines(world().ask(columns + "points WHERE run = 'slices' AND metric = '" + metric + "' AND step BETWEEN 8 AND 130")));
}

TEST_CASE("one block makes one part, however large") {
    if (!kit::have_chdb()) return;
    kit::Producer p("part", 7);
    std::vector<parcel::Frame> frames;
    for (int i = 0; i < 10; ++i) frames.push_back(kit::dense(i, 64));
    const std::vector<parcel::Metric> metrics{{Dtype::f32, "x"}};
    const std::vector<Bytes> parcels{p.frames(metrics, 0, 3000, frames), p.frames(metrics, 0, 3000, frames)};
    world().ask("SYSTEM STOP MERGES");
    world().insert(parcels, 77);
    CHECK(world().ask("SELECT uniqExact(_part), count() FROM tallyman.points_w4 WHERE run = 'part' AND batch = 77") == "1\t60000\n");
    world().ask("SYSTEM START MERGES");
}

TEST_CASE("a section that cannot be decoded is refused alone and declared") {
    if (!kit::have_chdb()) return;
    kit::Producer p("refused", 8);
    parcel::ParcelBuilder builder;
    Bytes good;
    parcel::write_events({p.origin, {{5, "note", "k", "kept"}}}, good);
    Bytes bad = good;
    bad.resize(bad.size() - 3);
    builder.add(parcel::SectionKind::events, bad, false);
    builder.add(parcel::SectionKind::events, good, false);
    const Bytes parcel = p.seal(builder, Lane::live, 0);
    sink::RowBuilder rows(9);
    rows.add_parcel(parcel);
    CHECK(rows.refused_sections() == 1);
    world().insert({parcel}, 9);
    CHECK(world().ask("SELECT text FROM tallyman.events WHERE run = 'refused'") == "kept\n");
    CHECK(world().ask("SELECT reason, start, lane, seq_first, seq_last FROM tallyman.gaps WHERE start = 42 AND lane = 0 AND seq_first = 1 "
                      "AND reason = 'section_refused'") == "section_refused\t42\t0\t1\t1\n");
}

TEST_CASE("every view of the contract answers, with its columns") {
    if (!kit::have_chdb()) return;
    kit::Producer p("views", 9);
    auto parcels = kit::everything(p);
    parcels.push_back(p.live({parcel::ProducerWhat::opened, parcel::ProducerWhat::closed}));
    world().insert(parcels, 10);
    CHECK(world().ask("SELECT run, project, name, config, state, started <= ended, last_seen = ended FROM tallyman.runs WHERE run = 'views'") ==
          "views\tkit\tviews\t{\"lr\": 1}\tfinished\t1\t1\n");
    CHECK(world().ask("SELECT attempt, role, host, pid, labels, state, exit_code, valid_below, logged, closed > opened FROM tallyman.producers "
                      "WHERE run = 'views'") ==
          "0\t0\tbox\t7\t{}\tfinished\t0\t9223372036854775807\t" + std::to_string(p.points.size()) + "\t1\n");
    CHECK(world().ask("SELECT env, episode, step_first, step_last, points_expected, `return`, length FROM tallyman.episode_headers WHERE "
                      "run = 'views' ORDER BY env") == "3\t1\t0\t63\t64\t12.5\t64\n4\t-1\t5\t5\t0\t-0\t0\n");
    CHECK(world().ask("SELECT kind, key, text FROM tallyman.events WHERE run = 'views'") == "config\t\t{\"lr\": 1}\n");
    CHECK(world().ask("SELECT count() FROM tallyman.gaps WHERE run = 'views'") == "0\n");
    CHECK(world().ask("SELECT sum(count) FROM tallyman.series_stats WHERE run = 'views' AND metric = 'm_u8'") ==
          std::to_string(130 * (1 + 3 + 64 + 100)) + "\n");
}

TEST_CASE("step statistics add up over environment ranges, and percentiles come from the histogram") {
    if (!kit::have_chdb()) return;
    kit::Producer p("steps", 10);
    const auto bin = [](float v) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(v) >> 16); };
    parcel::StatsSection section{p.origin, {{Dtype::f32, "r"}}, {}};
    parcel::StepStats a;
    a.env_count = 10;
    a.step = 4;
    a.count = 10;
    a.nonfinite = 1;
    a.min = -2;
    a.max = 3;
    a.sum = 9;
    a.sum_squares = 45;
    a.bins = {bin(1.0F), bin(3.0F), bin(-2.0F)};
    a.bin_counts = {6, 1, 2};
    parcel::StepStats b = a;
    b.env_first = 10;
    b.max = 5;
    section.stats = {a, b};
    Bytes body;
    parcel::write_stats(section, body);
    parcel::ParcelBuilder builder;
    builder.add(parcel::SectionKind::stats, body, false);
    world().insert({p.seal(builder, Lane::live, 0)}, 11);
    CHECK(world().ask("SELECT metric, step, count, nonfinite, sum, min, max, mean, round(std, 6), p05 BETWEEN -2.02 AND -2, p50 BETWEEN 1 AND 1.01 "
                      "FROM tallyman.step_stats WHERE run = 'steps'") == "r\t4\t20\t2\t18\t-2\t5\t1\t2\t1\t1\n");
}

TEST_CASE("a rewind hides the overtaken points from the current view only") {
    if (!kit::have_chdb()) return;
    kit::Producer p("rewind", 11);
    std::vector<Bytes> parcels{p.live({parcel::ProducerWhat::opened}, false)};
    parcels.push_back(p.frames({{Dtype::f32, "x"}}, 0, 2, {kit::dense(0, 10)}));
    p.origin.attempt = 1;
    parcel::ProducerSection rewound{p.origin, {p.record(parcel::ProducerWhat::rewound)}};
    rewound.records[0].fork_step = 5;
    Bytes body;
    parcel::write_producers(rewound, body);
    parcel::ParcelBuilder builder;
    builder.add(parcel::SectionKind::producers, body, false);
    parcels.push_back(p.seal(builder, Lane::live, 0));
    parcels.push_back(p.frames({{Dtype::f32, "x"}}, 0, 2, {kit::dense(5, 3)}));
    world().insert(parcels, 12);
    CHECK(world().ask("SELECT count() FROM tallyman.points WHERE run = 'rewind'") == "26\n");
    CHECK(world().ask("SELECT attempt, count(), min(step), max(step) FROM tallyman.points_current WHERE run = 'rewind' GROUP BY attempt ORDER BY attempt") ==
          "0\t10\t0\t4\n1\t6\t5\t7\n");
}

TEST_CASE("the reader of users' text cannot write") {
    if (!kit::have_chdb()) return;
    sink::Options options;
    options.dir = world().dir.path;
    auto reader = sink::Connection::open(sink::reader_options(options));
    REQUIRE(reader);
    CHECK((*reader)->query("SELECT {x:UInt8} + 1", "TabSeparated", {{"x", "4"}}).rows == "5\n");
    for (const char* sql : {"CREATE TABLE tallyman.t (x UInt8) ENGINE = Memory", "INSERT INTO FUNCTION file('/tmp/tally-x.csv') SELECT 1",
                            "SET readonly = 0", "DROP TABLE tallyman.points_w1", "SELECT 1 SETTINGS max_memory_usage = 1"}) {
        INFO(sql);
        CHECK(!(*reader)->query(sql).ok());
    }
}
