// SPDX-License-Identifier: Apache-2.0
#include "agent/intake/origin_draft.hpp"

#include <algorithm>

#include "agent/base/hash.hpp"

namespace tally::intake {

using parcel::SectionKind;

std::uint32_t OriginDraft::live_metric(const parcel::Metric& metric) {
    const std::uint32_t at = live_metrics_.index(metric);
    if (live_metrics_.size() > metrics_counted_) live_bytes_ += 3 + metric.name.size();
    metrics_counted_ = live_metrics_.size();
    return at;
}

void OriginDraft::ledger(const parcel::Metric& metric, parcel::LedgerEntry entry, std::uint64_t list_id,
                         const std::vector<parcel::EnvCount>& list) {
    entry.metric = live_metric(metric);
    entry.same_list = list_id != 0 && list_id == last_list_id_;
    if (!entry.same_list) entry.env_points = list;
    last_list_id_ = list_id;
    live_bytes_ += 56 + entry.env_points.size() * sizeof(parcel::EnvCount);
    ledger_.push_back(std::move(entry));
}

void OriginDraft::stats(const parcel::Metric& metric, parcel::StepStats row) {
    row.metric = live_metric(metric);
    live_bytes_ += 80 + row.bins.size() * 6;
    stats_.push_back(std::move(row));
}

void OriginDraft::episodes(const std::vector<parcel::EpisodeHeader>& episodes) {
    episodes_.insert(episodes_.end(), episodes.begin(), episodes.end());
    live_bytes_ += episodes.size() * 52;
}

void OriginDraft::event(parcel::Event event) {
    live_bytes_ += 16 + event.kind.size() + event.key.size() + event.text.size();
    events_.push_back(std::move(event));
}

void OriginDraft::producer(parcel::ProducerRecord record) {
    live_bytes_ += 72 + record.role.size() + record.host.size() + record.labels.size() + record.continues.size() +
                   record.name.size() + record.totals.size() * 92;
    producers_.push_back(std::move(record));
}

void OriginDraft::gap(parcel::Gap gap) {
    live_bytes_ += 80 + gap.reason.size();
    gaps_.push_back(std::move(gap));
}

void OriginDraft::scalar(const parcel::Metric& metric, std::int64_t step, std::int64_t time_ns,
                         parcel::MaybeStep rl_step, std::uint64_t bits) {
    const std::uint32_t at = scalar_metrics_.index(metric);
    if (at == series_.size()) {
        series_.emplace_back().metric = metric;
        scalar_bytes_ += 7 + metric.name.size();
    }
    parcel::ScalarSeries& s = series_[at];
    s.steps.push_back(step);
    s.times_ns.push_back(time_ns);
    s.rl_steps.push_back(rl_step);
    s.bits.push_back(bits);
    scalar_bytes_ += 25 + dtype_width(metric.dtype);
}

void OriginDraft::series_to_ledger(const parcel::ScalarSeries& s) {
    parcel::LedgerEntry e;
    e.env_count = 1;
    const auto [low, high] = std::minmax_element(s.steps.begin(), s.steps.end());
    e.step_first = *low;
    e.step_last = *high;
    e.points = s.bits.size();
    const std::uint64_t seed =
        series_seed(origin_.run, origin_.producer, origin_.attempt, s.metric.dtype, s.metric.name);
    for (std::size_t i = 0; i < s.bits.size(); ++i) {
        e.hash += point_hash(s.bits[i], seed, 0, s.steps[i]);
        e.when += when_weight(s.steps[i]) * when_hash(seed, s.times_ns[i], s.rl_steps[i].given, s.rl_steps[i].value);
    }
    ledger(s.metric, std::move(e));
}

std::uint64_t OriginDraft::write_scalars(parcel::ParcelBuilder& bulk, Bytes& scratch) {
    if (series_.empty()) return 0;
    parcel::ScalarSection section;
    section.origin = origin_;
    section.series = std::move(series_);
    scratch.clear();
    parcel::write_scalars(section, scratch);
    bulk.add(SectionKind::scalars, scratch, true);
    std::uint64_t points = 0;
    for (const parcel::ScalarSeries& s : section.series) {
        points += s.bits.size();
        series_to_ledger(s);
    }
    series_.clear();
    scalar_metrics_.clear();
    scalar_bytes_ = 0;
    return points;
}

void OriginDraft::write_live(parcel::ParcelBuilder& live, Bytes& scratch) {
    const auto add = [&](SectionKind kind, auto write, const auto& section) {
        scratch.clear();
        write(section, scratch);
        live.add(kind, scratch, true);
    };
    if (!producers_.empty()) {
        add(SectionKind::producers, parcel::write_producers, parcel::ProducerSection{origin_, std::move(producers_)});
    }
    if (!ledger_.empty()) {
        add(SectionKind::ledger, parcel::write_ledger,
            parcel::LedgerSection{origin_, live_metrics_.metrics(), std::move(ledger_)});
    }
    if (!stats_.empty()) {
        add(SectionKind::stats, parcel::write_stats,
            parcel::StatsSection{origin_, live_metrics_.metrics(), std::move(stats_)});
    }
    if (!episodes_.empty()) {
        add(SectionKind::episodes, parcel::write_episodes, parcel::EpisodeSection{origin_, std::move(episodes_)});
    }
    if (!events_.empty()) add(SectionKind::events, parcel::write_events, parcel::EventSection{origin_, std::move(events_)});
    if (!gaps_.empty()) add(SectionKind::gaps, parcel::write_gaps, parcel::GapSection{origin_, std::move(gaps_)});
    producers_.clear();
    ledger_.clear();
    stats_.clear();
    episodes_.clear();
    events_.clear();
    gaps_.clear();
    live_metrics_.clear();
    metrics_counted_ = 0;
    last_list_id_ = 0;
    live_bytes_ = 0;
}

}  // namespace tally::intake
