// SPDX-License-Identifier: Apache-2.0
#include "tools/load/generator.hpp"

#include <cmath>
#include <cstring>

#include "agent/base/result.hpp"

namespace tally::load {

namespace {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TALLY_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TALLY_CLONES
#endif

TALLY_CLONES void random_row_f32(std::uint64_t seed, std::uint64_t metric, std::uint64_t env_first, std::uint64_t step,
                                 std::uint32_t n, float* out) {
    for (std::uint32_t i = 0; i < n; ++i) out[i] = random_f32(seed, metric, env_first + i, step);
}

TALLY_CLONES void random_row_f64(std::uint64_t seed, std::uint64_t metric, std::uint64_t env_first, std::uint64_t step,
                                 std::uint32_t n, double* out) {
    for (std::uint32_t i = 0; i < n; ++i) out[i] = random_f64(seed, metric, env_first + i, step);
}

// Columns of the CartPole trace, in the order of its metrics.
enum Column : std::uint32_t {
    x, x_dot, theta, theta_dot, action, reward, done, ep_length, ret, value, advantage, log_prob, entropy, abs_theta,
    x_dot_sq, td_error, ratio, clipped, episode, noise, columns
};

// One environment, one step of the classic cart and pole (Barto, Sutton and Anderson 1983), force of +-10 N, 20 ms.
void move_cart(float (&s)[4], bool right) {
    const float force = right ? 10.0F : -10.0F;
    const float sin_theta = std::sin(s[2]);
    const float cos_theta = std::cos(s[2]);
    const float push = (force + 0.05F * s[3] * s[3] * sin_theta) / 1.1F;
    const float theta_acc = (9.8F * sin_theta - cos_theta * push) / (0.5F * (4.0F / 3.0F - 0.1F * cos_theta * cos_theta / 1.1F));
    const float x_acc = push - 0.05F * theta_acc * cos_theta / 1.1F;
    s[0] += 0.02F * s[1];
    s[1] += 0.02F * x_acc;
    s[2] += 0.02F * s[3];
    s[3] += 0.02F * theta_acc;
}

float value_estimate(const float (&s)[4]) {
    return 20.0F - 4.0F * std::fabs(s[2]) * 10.0F - std::fabs(s[0]) - 0.5F * std::fabs(s[3]);
}

}  // namespace

Generator::Generator(Shape shape, std::uint64_t seed, std::uint32_t metrics, std::uint32_t env_first,
                     std::uint32_t env_count, Dtype dtype)
    : shape_(shape), seed_(seed), metrics_(metrics), env_first_(env_first), env_count_(env_count), dtype_(dtype) {
    TALLY_ASSERT(dtype == Dtype::f32 || dtype == Dtype::f64);
    if (shape != Shape::rl) return;
    trace_.assign(columns, std::vector<float>(env_count, 0.0F));
    for (std::uint32_t i = 0; i < env_count; ++i)
        for (std::uint32_t c = x; c <= theta_dot; ++c)
            trace_[c][i] = (random_f32(seed, 100 + c, env_first + i, 0) - 0.5F) * 0.1F;
}

void Generator::fill(std::uint64_t step, void* out) {
    if (shape_ == Shape::random) return fill_random(step, out);
    fill_rl(step, out);
}

void Generator::fill_random(std::uint64_t step, void* out) const {
    for (std::uint32_t m = 0; m < metrics_; ++m) {
        const std::size_t at = std::size_t{m} * env_count_;
        if (dtype_ == Dtype::f32) {
            random_row_f32(seed_, m, env_first_, step, env_count_, static_cast<float*>(out) + at);
        } else {
            random_row_f64(seed_, m, env_first_, step, env_count_, static_cast<double*>(out) + at);
        }
    }
}

void Generator::advance_rl(std::uint64_t step) {
    for (std::uint32_t i = 0; i < env_count_; ++i) {
        const std::uint64_t env = env_first_ + i;
        if (trace_[done][i] != 0.0F) {
            for (std::uint32_t c = x; c <= theta_dot; ++c) trace_[c][i] = (random_f32(seed_, 100 + c, env, step) - 0.5F) * 0.1F;
            trace_[ep_length][i] = trace_[ret][i] = 0.0F;
            trace_[episode][i] += 1.0F;
        }
        float s[4] = {trace_[x][i], trace_[x_dot][i], trace_[theta][i], trace_[theta_dot][i]};
        const float before = value_estimate(s);
        const bool right = random_f32(seed_, 200, env, step) < 0.5F;
        move_cart(s, right);
        for (std::uint32_t c = 0; c < 4; ++c) trace_[c][i] = s[c];
        const bool fell = std::fabs(s[0]) > 2.4F || std::fabs(s[2]) > 0.2094395F || trace_[ep_length][i] >= 499.0F;
        const float after = fell ? 0.0F : value_estimate(s);
        const float logit = 0.1F * s[2] + 0.05F * s[3];
        const float p = 1.0F / (1.0F + std::exp(-logit));
        const float r = std::exp(0.3F * logit * (right ? 1.0F : -1.0F));
        trace_[action][i] = right ? 1.0F : 0.0F;
        trace_[reward][i] = 1.0F;
        trace_[done][i] = fell ? 1.0F : 0.0F;
        trace_[ep_length][i] += 1.0F;
        trace_[ret][i] += 1.0F;
        trace_[value][i] = before;
        trace_[td_error][i] = 1.0F + 0.99F * after - before;
        trace_[advantage][i] = 0.95F * trace_[td_error][i] + 0.05F * after;
        trace_[log_prob][i] = std::log(right ? p : 1.0F - p);
        trace_[entropy][i] = -(p * std::log(p) + (1.0F - p) * std::log(1.0F - p));
        trace_[abs_theta][i] = std::fabs(s[2]);
        trace_[x_dot_sq][i] = s[1] * s[1];
        trace_[ratio][i] = r;
        trace_[clipped][i] = std::fabs(r - 1.0F) > 0.2F ? 1.0F : 0.0F;
        trace_[noise][i] = random_f32(seed_, 300, env, step);
    }
}

void Generator::fill_rl(std::uint64_t step, void* out) {
    advance_rl(step);
    for (std::uint32_t m = 0; m < metrics_; ++m) {
        const std::vector<float>& column = trace_[m % columns];
        const std::size_t at = std::size_t{m} * env_count_;
        if (dtype_ == Dtype::f32) {
            std::memcpy(static_cast<float*>(out) + at, column.data(), column.size() * sizeof(float));
        } else {
            for (std::uint32_t i = 0; i < env_count_; ++i) static_cast<double*>(out)[at + i] = column[i];
        }
    }
}

}  // namespace tally::load
