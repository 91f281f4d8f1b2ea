// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The trace every case moves, and what each stage costs alone: the limits of the cases that run several at once.

#include <cstdint>
#include <functional>
#include <vector>

#include "agent/intake/intake.hpp"
#include "tools/load/generator.hpp"

namespace tally::bench {

// The published shape: 50,000 environments x 20 metrics. A quick run has fewer.
struct Shape {
    std::uint32_t envs = 50'000;
    std::uint32_t metrics = 20;
    std::uint64_t points() const { return std::uint64_t{envs} * metrics; }
};
Shape shape_of(bool quick);

// Bodies of frame records with `steps` steps each, from a CartPole trace that has run for a while: the first steps of one compress better.
std::vector<Bytes> trace_records(const Shape& shape, std::uint32_t steps, std::uint32_t records);

// Intake as the agent uses it, with one producer that has one block; what it cuts goes to `take`.
class EncodeStage {
public:
    explicit EncodeStage(const Shape& shape);
    // One record's body; cuts when the batch is ready.
    void record(ByteView body, std::uint64_t points, const std::function<void(intake::Batch&)>& take);
    // Closes the producer and cuts what is left.
    void finish(const std::function<void(intake::Batch&)>& take);
    const intake::Counters& counters() const { return intake_.counters(); }
    static constexpr const char* run = "bench";

private:
    intake::Intake intake_;
    intake::RingHandle ring_{};
    intake::RingHandle scalars_{};
    std::uint64_t number_ = 0;
    std::uint64_t points_ = 0;
    std::uint64_t position_ = 0;
};

// CPU-seconds per point of one stage alone.
double generate_cost(const Shape& shape, bool quick);
double encode_cost(const Shape& shape, bool quick);

}  // namespace tally::bench
