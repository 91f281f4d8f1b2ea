// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What the proofs share: sums per series family, rows of an answer, and the SQL of a row's hash.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "agent/base/types.hpp"
#include "tools/reconcile/store_proof.hpp"

namespace tally::reconcile {

struct Family {  // one metric of one (producer, attempt)
    Uuid producer;
    std::uint32_t attempt = 0;
    Dtype dtype = Dtype::f32;
    std::string metric;
    auto operator<=>(const Family&) const = default;
};
struct Sum {
    std::uint64_t points = 0;
    std::uint64_t hash = 0;
    std::uint64_t when = 0;
    std::uint64_t entries = 0;
    bool equals(const Sum& o) const { return points == o.points && hash == o.hash && when == o.when; }
};
using Sums = std::map<Family, Sum>;

// TabSeparated, unescaped.
std::vector<std::vector<std::string>> parse_rows(const std::string& text);
std::uint64_t to_u64(const std::string& text);
std::int64_t to_i64(const std::string& text);

// Asks, and keeps the first error.
class Asker {
public:
    Asker(const tools::QueryFn& query, std::string run) : query_(query), run_(std::move(run)) {}
    std::vector<std::vector<std::string>> rows(const std::string& sql, sink::Params params = {});
    std::uint64_t number(const std::string& sql);
    const std::string& run() const { return run_; }
    const std::string& error() const { return error_; }

private:
    const tools::QueryFn& query_;
    std::string run_;
    std::string error_;
};

// A subquery of (producer, attempt, dtype, metric, env_first, step_first, n, h, w) per row of one width, for {run:String} and `where`.
// A shape other than any is a promise about all rows that `where` lets through; it spares filtering three times.
enum class RowShape : std::uint8_t { any, one_step, one_env };
std::string hashed_rows_sql(unsigned width, const std::string& where, bool final, RowShape shape = RowShape::any);

struct Difference {
    Family family;
    Sum logged;
    Sum stored;
    bool settled = false;  // nothing of it can still be on its way
};
// Names what differs in one family: step windows, tiles, points. Adds to tiles, mismatched, unsettled, undeclared_lost.
void descend(Asker& ask, const Difference& difference, bool final, Report& report);

}  // namespace tally::reconcile
