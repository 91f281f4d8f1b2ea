// SPDX-License-Identifier: Apache-2.0
// Lives of an agent against a model: producers log, batches commit or are lost with the agent, rings are read again from
// the committed cursor. At the end every point was committed exactly once and every producer closed with its totals.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/intake/kit.hpp"

using namespace tally;
using namespace tally::intake;
using namespace tally::intake::kit;
using parcel::ProducerEnd;
using parcel::ProducerWhat;

namespace {

struct Rec {
    ring::RecordHeader header{};
    Bytes body;
    std::uint64_t end = 0;
};
// A ring as its producer left it: the records never change, only who has read how far.
struct Tape {
    RingInfo info;
    std::vector<Rec> records;
    std::uint64_t points = 0;
    // of the life at hand
    std::optional<RingHandle> handle;
    std::size_t next = 0;
    bool ended = false;
};

void put(Tape& tape, ring::RecordKind kind, Bytes body, std::uint64_t points, std::uint32_t attempt) {
    Rec r;
    r.header.kind = kind;
    r.header.bytes = static_cast<std::uint32_t>(sizeof r.header + (body.size() + 7) / 8 * 8);
    r.header.number = tape.records.size() + 1;
    r.header.points_total = tape.points += points;
    r.header.time_ns = static_cast<std::int64_t>(r.header.number);
    r.header.attempt = attempt;
    r.end = (tape.records.empty() ? 0 : tape.records.back().end) + r.header.bytes;
    r.body = std::move(body);
    tape.records.push_back(std::move(r));
}

std::vector<Tape> make_tapes(std::mt19937_64& rng, Points& model) {
    std::vector<Tape> tapes;
    for (std::uint8_t p = 1; p <= 3; ++p) {
        Tape scalar{scalar_info(static_cast<std::uint8_t>(2 * p), p), {}, 0, {}, 0, false};
        scalar.info.series = {{Dtype::u16, "a"}, {Dtype::f64, "b"}};
        Tape block{block_info({{Dtype::f32, "x"}, {Dtype::u8, "y"}}, 4, 3, static_cast<std::uint8_t>(2 * p + 1), p), {}, 0, {}, 0, false};
        std::uint32_t attempt = 0;
        for (int i = 0; i < 60; ++i) {
            const auto step = static_cast<std::int64_t>(rng() % 20);
            const std::uint64_t bits = rng() % 1000;
            put(scalar, ring::RecordKind::scalars, scalar_body(step, {{0, bits}}), 1, attempt);
            model[{{scalar.info.producer, attempt, Dtype::u16, "a"}, 0, step}].push_back(
                {bits, scalar.records.back().header.time_ns, {}});
            FrameSpec spec;
            spec.step_first = step;
            const BitsOf frame_bits = [bits](auto m, auto e, auto) { return (bits + m + e) & 0xFF; };
            put(block, ring::RecordKind::frame, frame_body(block.info.block, spec, frame_bits), 6, attempt);
            model_frame(model, block.info, spec, frame_bits, block.records.back().header);
            if (i != 30) continue;
            Bytes body;
            ByteWriter(body).put(ring::RewindBody{step});
            put(scalar, ring::RecordKind::rewind, body, 0, ++attempt);
        }
        Bytes close;
        ByteWriter(close).put(ring::CloseBody{p, 0});
        put(scalar, ring::RecordKind::close, close, 0, attempt);
        tapes.push_back(std::move(scalar));
        tapes.push_back(std::move(block));
    }
    return tapes;
}

void attach(Intake& intake, Tape& tape) {
    const auto attached = intake.attach(tape.info, 1);
    REQUIRE(attached);
    tape.handle = attached->handle;
    tape.next = attached->resume ? attached->resume->record_number : 0;
    if (tape.next != 0) REQUIRE(attached->resume->position == tape.records[tape.next - 1].end);
}

// One step of the life at hand: read a record, or end a ring that has no more.
void step(Intake& intake, Tape& tape) {
    if (!tape.handle) return attach(intake, tape);
    if (tape.ended) return;
    if (tape.next == tape.records.size()) {
        intake.end(*tape.handle, ProducerEnd::finished, 2);
        tape.ended = true;
        return;
    }
    const Rec& r = tape.records[tape.next++];
    REQUIRE(intake.record(*tape.handle, r.header, r.body, r.end));
}

bool done(const std::vector<Tape>& tapes) {
    return std::all_of(tapes.begin(), tapes.end(), [](const Tape& t) { return t.ended; });
}

}  // namespace

TEST_CASE("whatever batches are lost with an agent, every point is committed once and every producer closes (I2)") {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        CAPTURE(seed);
        std::mt19937_64 rng(seed);
        Points model;
        std::vector<Tape> tapes = make_tapes(rng, model);
        Content committed;
        bool over = false;
        while (!over) {
            Intake intake({});
            for (const auto& [key, value] : committed.cursors) REQUIRE(intake.restore(key, value));
            for (Tape& t : tapes) {
                const auto cursor = committed.cursors.find(cursor_key(t.info.ring));
                const bool known = cursor != committed.cursors.end();
                const bool closed = known && decode_cursor(cursor->second)->end == RingEnd::closed;
                t.handle.reset();
                t.next = 0;
                // Its tail says that all was read, or the last agent died before it could move the tail.
                t.ended = closed && rng() % 2 == 0;
                // New ones come together, known ones one by one.
                if (!t.ended && !known) attach(intake, t);
            }
            std::vector<Batch> in_flight;
            bool absent = false;
            for (std::uint64_t left = 20 + rng() % 400; left > 0 && !over; --left) {
                Tape& tape = tapes[rng() % tapes.size()];
                if (!tape.ended) step(intake, tape);
                if (rng() % 10 == 0)
                    if (auto batch = intake.cut(3)) in_flight.push_back(std::move(*batch));
                if (rng() % 8 == 0) {  // durable, in order
                    for (const Batch& b : in_flight) committed.add(b);
                    in_flight.clear();
                }
                if (!done(tapes)) continue;
                if (!absent) intake.close_absent(4);
                absent = true;
                over = !intake.pending() && in_flight.empty();
            }
            // In flight at the end of a life: some of the oldest made it.
            for (std::size_t i = 0; i < in_flight.size() && rng() % 2 == 0; ++i) committed.add(in_flight[i]);
        }
        REQUIRE(committed.points == model);
        REQUIRE(committed.ledger == sums_of(model, "run-1"));
        for (const auto& [key, value] : committed.cursors) REQUIRE(decode_cursor(value)->end == RingEnd::closed);
        std::map<Uuid, parcel::ProducerRecord> last;
        for (const auto& [origin, r] : committed.producers) last[origin.producer] = r;
        CHECK(last.size() == 3);
        for (const Tape& tape : tapes) {
            const parcel::ProducerRecord& r = last.at(tape.info.producer);
            CHECK(r.what == ProducerWhat::closed);
            CHECK(r.end == ProducerEnd::finished);
            const auto total = std::find_if(r.totals.begin(), r.totals.end(), [&](const auto& t) { return t.ring == tape.info.ring; });
            REQUIRE(total != r.totals.end());
            CHECK(total->points == tape.points);
            CHECK(total->records == tape.records.size());
            CHECK(total->stats == (total->block != 0 ? 120 : 0));
        }
    }
}
