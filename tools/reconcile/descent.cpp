// SPDX-License-Identifier: Apache-2.0
//
// From one family whose sums differ down to the point: step windows between which no ledger entry reaches over, bisected; then environment
// ranges likewise; then the points of what is left.
#include <algorithm>

#include "agent/base/hash.hpp"
#include "tools/reconcile/suspects.hpp"
#include "tools/reconcile/sums.hpp"

namespace tally::reconcile {

namespace {

constexpr std::size_t fan_max = 512;           // windows asked for at once
constexpr std::uint64_t points_max = 1U << 20;  // of one tile, fetched
constexpr std::uint64_t tiles_max = 64;        // looked into; the rest is counted by its sums only

struct Entry {
    std::uint32_t env_first = 0;
    std::uint32_t env_last = 0;
    std::int64_t step_first = 0;
    std::int64_t step_last = 0;
    Sum sum;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> env_points;
};

class Descent {
public:
    Descent(Asker& ask, const Difference& d, bool final, Report& report)
        : ask_(ask), d_(d), final_(final), report_(report),
          where_("metric = {metric:String} AND producer = {producer:UUID} AND attempt = {attempt:UInt32} AND dtype = {dtype:UInt8}"),
          params_{{"metric", d.family.metric},
                  {"producer", d.family.producer.text()},
                  {"attempt", std::to_string(d.family.attempt)},
                  {"dtype", std::to_string(static_cast<int>(d.family.dtype))}} {}

    void run() {
        read_entries();
        if (entries_.empty()) return finish("no ledger entry");
        std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.step_first < b.step_first; });
        steps({0, entries_.size()});
    }

private:
    using Range = std::pair<std::size_t, std::size_t>;  // of entries_

    void read_entries() {
        for (const auto& row : ask_.rows("SELECT env_first, env_count, step_first, step_last, points, hash, when_hash, toString(env_list), toString(env_points) FROM "
                                         "tallyman.ledger FINAL WHERE run = {run:String} AND " + where_, params_)) {
            Entry e;
            e.env_first = static_cast<std::uint32_t>(to_u64(row[0]));
            e.env_last = e.env_first + static_cast<std::uint32_t>(to_u64(row[1])) - 1;
            e.step_first = to_i64(row[2]);
            e.step_last = to_i64(row[3]);
            e.sum = {to_u64(row[4]), to_u64(row[5]), to_u64(row[6]), 1};
            const auto envs = list(row[7]);
            const auto counts = list(row[8]);
            for (std::size_t i = 0; i < envs.size() && i < counts.size(); ++i)
                e.env_points.emplace_back(static_cast<std::uint32_t>(envs[i]), static_cast<std::uint32_t>(counts[i]));
            entries_.push_back(std::move(e));
        }
    }

    static std::vector<std::uint64_t> list(const std::string& text) {  // "[1,2]"
        std::vector<std::uint64_t> out;
        const char* at = text.c_str();
        while (*at != 0) {
            if (*at >= '0' && *at <= '9') {
                char* end = nullptr;
                out.push_back(std::strtoull(at, &end, 10));
                at = end;
            } else {
                ++at;
            }
        }
        return out;
    }

    // Cuts a range of entries where none reaches over, into at most fan_max parts.
    template <class First, class Last>
    std::vector<Range> parts(Range r, First first, Last last) const {
        std::vector<std::size_t> cuts{r.first};
        auto reach = last(entries_[r.first]);
        for (std::size_t i = r.first + 1; i < r.second; ++i) {
            if (first(entries_[i]) > reach) cuts.push_back(i);
            reach = std::max(reach, last(entries_[i]));
        }
        const std::size_t stride = (cuts.size() + fan_max - 1) / fan_max;
        std::vector<Range> out;
        for (std::size_t c = 0; c < cuts.size(); c += stride) out.emplace_back(cuts[c], c + stride < cuts.size() ? cuts[c + stride] : r.second);
        return out;
    }

    Sum logged(Range r) const {
        Sum s;
        for (std::size_t i = r.first; i < r.second; ++i) {
            s.points += entries_[i].sum.points;
            s.hash += entries_[i].sum.hash;
            s.when += entries_[i].sum.when;
            ++s.entries;
        }
        return s;
    }

    // Sums of the stored rows, by the part whose first value is the highest not above the row's.
    template <class First>
    std::vector<Sum> stored(const std::vector<Range>& in, const char* column, const std::string& limits, First first) {
        std::string bounds;
        std::vector<std::int64_t> starts;
        for (const Range& r : in) {
            starts.push_back(static_cast<std::int64_t>(first(entries_[r.first])));
            bounds += (bounds.empty() ? "" : ", ") + ("toInt64(" + std::to_string(starts.back()) + ")");
        }
        std::vector<Sum> out(in.size());
        for (const auto& row : ask_.rows("SELECT roundDown(toInt64(" + std::string(column) + "), [" + bounds + "]) AS part, sum(n), sum(h), sum(w) FROM (" +
                                         hashed_rows_sql(dtype_width(d_.family.dtype), where_ + limits, final_) + ") GROUP BY part", params_)) {
            const auto it = std::upper_bound(starts.begin(), starts.end(), to_i64(row[0]));
            Sum& s = out[it == starts.begin() ? 0 : static_cast<std::size_t>(it - starts.begin()) - 1];
            s.points += to_u64(row[1]);
            s.hash += to_u64(row[2]);
            s.when += to_u64(row[3]);
        }
        return out;
    }

    std::string step_limits(Range r, bool open_begin, bool open_end) const {
        std::string out;
        std::int64_t last = entries_[r.first].step_last;
        for (std::size_t i = r.first; i < r.second; ++i) last = std::max(last, entries_[i].step_last);
        if (!open_begin) out += " AND step_first >= " + std::to_string(entries_[r.first].step_first);
        if (!open_end) out += " AND step_first <= " + std::to_string(last);
        return out;
    }

    void steps(Range range) {
        const auto in = parts(range, [](const Entry& e) { return e.step_first; }, [](const Entry& e) { return e.step_last; });
        const bool whole = range.first == 0 && range.second == entries_.size();
        const auto there = stored(in, "step_first", step_limits(range, whole, whole), [](const Entry& e) { return e.step_first; });
        for (std::size_t i = 0; i < in.size(); ++i) {
            if (!ask_.error().empty()) return;
            const Sum want = logged(in[i]);
            if (want.equals(there[i])) {
                report_.checked += want.points;
                continue;
            }
            if (in.size() > 1 && splits(in[i]))
                steps(in[i]);
            else
                envs(in[i]);
        }
    }

    bool splits(Range r) const {
        return parts(r, [](const Entry& e) { return e.step_first; }, [](const Entry& e) { return e.step_last; }).size() > 1;
    }

    // One step window: by environments.
    void envs(Range range) {
        const std::string limits = step_limits(range, false, false);
        std::sort(entries_.begin() + static_cast<std::ptrdiff_t>(range.first), entries_.begin() + static_cast<std::ptrdiff_t>(range.second),
                  [](const Entry& a, const Entry& b) { return a.env_first < b.env_first; });
        const auto in = parts(range, [](const Entry& e) { return e.env_first; }, [](const Entry& e) { return e.env_last; });
        const auto there = stored(in, "env_first", limits, [](const Entry& e) { return e.env_first; });
        for (std::size_t i = 0; i < in.size(); ++i) {
            const Sum want = logged(in[i]);
            if (want.equals(there[i]))
                report_.checked += want.points;
            else
                tile(in[i], want, there[i], limits);
        }
        std::sort(entries_.begin() + static_cast<std::ptrdiff_t>(range.first), entries_.begin() + static_cast<std::ptrdiff_t>(range.second),
                  [](const Entry& a, const Entry& b) { return a.step_first < b.step_first; });
    }

    void tile(Range r, const Sum& want, const Sum& there, const std::string& limits) {
        if (!d_.settled && want.points != there.points) {  // the rest may be on its way
            ++report_.unsettled;
            return;
        }
        ++report_.tiles.mismatched;
        if (there.points < want.points)
            report_.undeclared_lost += want.points - there.points;
        else
            ++report_.mismatched;
        if (want.points == there.points && want.hash == there.hash) return name_tile(r, want, there);
        if (++looked_into_ > tiles_max || want.points > points_max || there.points > points_max) return name_tile(r, want, there);
        const std::vector<FoundPoint> found = fetch(r, limits);
        const std::uint64_t seed = series_seed(ask_.run(), d_.family.producer, d_.family.attempt, d_.family.dtype, d_.family.metric);
        const auto suspect = find_suspect(found, missing(r, found), seed, d_.family.dtype, want.points, want.hash);
        if (!suspect) return name_tile(r, want, there);
        report_.add({there.points == want.points ? "values" : "series", d_.family.metric, suspect->at.env, suspect->at.step, suspect->expected, suspect->found});
    }

    void name_tile(Range r, const Sum& want, const Sum& there) {
        std::uint32_t env_last = 0;
        std::int64_t step_first = entries_[r.first].step_first, step_last = entries_[r.first].step_last;
        for (std::size_t i = r.first; i < r.second; ++i) {
            env_last = std::max(env_last, entries_[i].env_last);
            step_first = std::min(step_first, entries_[i].step_first);
            step_last = std::max(step_last, entries_[i].step_last);
        }
        const std::string where = "envs .." + std::to_string(env_last) + ", steps .." + std::to_string(step_last) + ": ";
        const bool times = there.points == want.points && there.hash == want.hash;
        const auto text = [&](const Sum& s) {
            return std::to_string(s.points) + " points, " + (times ? "W " + std::to_string(s.when) : "H " + std::to_string(s.hash));
        };
        report_.add({times ? "times" : there.points == want.points ? "values" : "series", d_.family.metric, entries_[r.first].env_first, step_first,
                     where + text(want), text(there)});
    }

    std::vector<FoundPoint> fetch(Range r, const std::string& limits) {
        std::uint32_t env_last = 0;
        for (std::size_t i = r.first; i < r.second; ++i) env_last = std::max(env_last, entries_[i].env_last);
        std::string table = "tallyman.points_w" + std::to_string(dtype_width(d_.family.dtype));
        std::string join;
        for (std::uint32_t p = 0; p < dtype_width(d_.family.dtype); ++p) join += "v.p" + std::to_string(p) + " AS b" + std::to_string(p) + ", ";
        std::vector<FoundPoint> out;
        for (const auto& row : ask_.rows(
                 "SELECT toUInt32(env_first + if(empty(idx), intDiv(i - 1, steps), idx[1 + intDiv(i - 1, steps)])), if(empty(step_list), step_first + "
                 "((i - 1) % steps) * step_stride, step_list[i]), " + bits() + " FROM " + table + (final_ ? " FINAL" : "") + " ARRAY JOIN " + join +
                     "arrayEnumerate(v.p0) AS i WHERE run = {run:String} AND " + where_ + limits + " AND env_first >= " +
                     std::to_string(entries_[r.first].env_first) + " AND env_first <= " + std::to_string(env_last), params_))
            out.push_back({static_cast<std::uint32_t>(to_u64(row[0])), to_i64(row[1]), to_u64(row[2])});
        return out;
    }
    std::string bits() const;

    // Coordinates the entries speak of that are not there; only where the entries say them: dense tiles and single environments.
    std::vector<Coordinates> missing(Range r, const std::vector<FoundPoint>& found) const {
        std::vector<std::pair<std::uint32_t, std::int64_t>> there;
        for (const FoundPoint& p : found) there.emplace_back(p.env, p.step);
        std::sort(there.begin(), there.end());
        std::vector<Coordinates> out;
        for (std::size_t i = r.first; i < r.second; ++i) {
            const Entry& e = entries_[i];
            const std::uint64_t envs = std::uint64_t{e.env_last} - e.env_first + 1;
            if (!e.env_points.empty() || e.sum.points % envs != 0 || e.sum.points / envs == 0) continue;
            const std::uint64_t n = e.sum.points / envs;
            const std::int64_t stride = n > 1 ? (e.step_last - e.step_first) / static_cast<std::int64_t>(n - 1) : 1;
            for (std::uint32_t env = e.env_first; env <= e.env_last; ++env)
                for (std::uint64_t t = 0; t < n; ++t) {
                    const std::int64_t step = e.step_first + static_cast<std::int64_t>(t) * stride;
                    if (!std::binary_search(there.begin(), there.end(), std::pair{env, step})) out.push_back({env, step});
                }
        }
        return out;
    }

    void finish(const std::string& why) {
        if (!d_.settled) {
            ++report_.unsettled;
            return;
        }
        ++report_.mismatched;
        report_.add({"series", d_.family.metric, -1, 0, why, std::to_string(d_.stored.points) + " points"});
    }

    Asker& ask_;
    const Difference& d_;
    bool final_;
    Report& report_;
    std::string where_;
    sink::Params params_;
    std::vector<Entry> entries_;
    std::uint64_t looked_into_ = 0;
};

std::string Descent::bits() const {
    std::string out = "toUInt64(b0)";
    for (std::uint32_t p = 1; p < dtype_width(d_.family.dtype); ++p)
        out += " + bitShiftLeft(toUInt64(b" + std::to_string(p) + "), " + std::to_string(8 * p) + ")";
    return out;
}

}  // namespace

void descend(Asker& ask, const Difference& difference, bool final, Report& report) { Descent(ask, difference, final, report).run(); }

}  // namespace tally::reconcile
