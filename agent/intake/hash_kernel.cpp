// SPDX-License-Identifier: Apache-2.0
#include "agent/intake/hash_kernel.hpp"

#include <cstring>

#include "agent/base/hash.hpp"
#include "agent/parcel/clones.hpp"

namespace tally::intake {

namespace {

template <class T>
[[gnu::always_inline]] inline T load(const std::uint8_t* v, std::size_t i) {
    T out;
    std::memcpy(&out, v + i * sizeof(T), sizeof(T));
    return out;
}

template <class T>
[[gnu::always_inline]] inline std::uint64_t sum_dense(const std::uint8_t* v, std::size_t n, std::uint64_t base) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += int_hash64(load<T>(v, i) + base + i * hash_env_factor);
    return sum;
}

template <class T>
[[gnu::always_inline]] inline std::uint64_t sum_rows(const std::uint8_t* v, const std::uint32_t* envs, std::size_t n,
                                                     std::uint64_t base) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += int_hash64(load<T>(v, i) + base + envs[i] * hash_env_factor);
    return sum;
}

using V = const std::uint8_t*;
using E = const std::uint32_t*;
TALLY_CLONES std::uint64_t dense1(V v, std::size_t n, std::uint64_t base) { return sum_dense<std::uint8_t>(v, n, base); }
TALLY_CLONES std::uint64_t dense2(V v, std::size_t n, std::uint64_t base) { return sum_dense<std::uint16_t>(v, n, base); }
TALLY_CLONES std::uint64_t dense4(V v, std::size_t n, std::uint64_t base) { return sum_dense<std::uint32_t>(v, n, base); }
TALLY_CLONES std::uint64_t dense8(V v, std::size_t n, std::uint64_t base) { return sum_dense<std::uint64_t>(v, n, base); }
TALLY_CLONES std::uint64_t rows1(V v, E e, std::size_t n, std::uint64_t base) { return sum_rows<std::uint8_t>(v, e, n, base); }
TALLY_CLONES std::uint64_t rows2(V v, E e, std::size_t n, std::uint64_t base) { return sum_rows<std::uint16_t>(v, e, n, base); }
TALLY_CLONES std::uint64_t rows4(V v, E e, std::size_t n, std::uint64_t base) { return sum_rows<std::uint32_t>(v, e, n, base); }
TALLY_CLONES std::uint64_t rows8(V v, E e, std::size_t n, std::uint64_t base) { return sum_rows<std::uint64_t>(v, e, n, base); }

std::uint64_t base_of(std::uint64_t seed, std::uint32_t env, std::int64_t step) {
    return seed + env * hash_env_factor + static_cast<std::uint64_t>(step) * hash_step_factor;
}

}  // namespace

std::uint64_t hash_dense(const std::uint8_t* values, Dtype dtype, std::uint32_t n, std::uint64_t seed,
                         std::uint32_t env_first, std::int64_t step) {
    const std::uint64_t base = base_of(seed, env_first, step);
    switch (dtype_width(dtype)) {
        case 1: return dense1(values, n, base);
        case 2: return dense2(values, n, base);
        case 4: return dense4(values, n, base);
        default: return dense8(values, n, base);
    }
}

std::uint64_t hash_rows(const std::uint8_t* values, Dtype dtype, const std::uint32_t* envs, std::uint32_t n,
                        std::uint64_t seed, std::uint32_t env_base, std::int64_t step) {
    const std::uint64_t base = base_of(seed, env_base, step);
    switch (dtype_width(dtype)) {
        case 1: return rows1(values, envs, n, base);
        case 2: return rows2(values, envs, n, base);
        case 4: return rows4(values, envs, n, base);
        default: return rows8(values, envs, n, base);
    }
}

}  // namespace tally::intake
