// SPDX-License-Identifier: Apache-2.0
#include "agent/parcel/row_hash.hpp"

#include <bit>
#include <initializer_list>

#include "agent/base/hash.hpp"

namespace tally::parcel {

namespace {

constexpr auto factors = row_hash_factors();

std::uint64_t hash_fields(std::uint64_t seed, std::initializer_list<std::uint64_t> fields) {
    std::uint64_t x = seed;
    const std::uint64_t* factor = factors.data();
    for (const std::uint64_t f : fields) x += f * *factor++;
    return int_hash64(x);
}

std::uint64_t word(std::int64_t v) { return static_cast<std::uint64_t>(v); }
std::uint64_t word(double v) { return std::bit_cast<std::uint64_t>(v); }

}  // namespace

std::uint64_t row_seed(const Origin& origin, std::string_view kind) {
    std::string text = origin.run + '|' + origin.producer.text() + '|' + std::to_string(origin.attempt) + '|';
    text += kind;
    return xxh3(text);
}

std::uint64_t row_hash(std::uint64_t seed, const EpisodeHeader& e) {
    return hash_fields(seed, {e.env, word(e.episode), word(e.step_first), word(e.step_last), e.points_expected, word(e.ret), word(e.length)});
}

std::uint64_t row_hash(std::uint64_t seed, const StepStats& s) {
    std::uint64_t histogram = 0;
    for (std::size_t i = 0; i < s.bins.size(); ++i) histogram += int_hash64(std::uint64_t{s.bins[i]} << 32 | s.bin_counts[i]);
    return hash_fields(seed, {s.env_first, s.env_count, word(s.step), word(s.time_ns), s.count, s.nonfinite, word(s.min), word(s.max), word(s.sum),
                              word(s.sum_squares), histogram});
}

std::uint64_t row_hash(std::uint64_t seed, const Event& e) {
    return hash_fields(seed, {word(e.time_ns), xxh3(e.kind), xxh3(e.key), xxh3(e.text)});
}

}  // namespace tally::parcel
