// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    What one (producer, attempt) has contributed to the batch so far, besides its frames.
// Limits  The owner closes it into a parcel when live_bytes() or scalar_bytes() reach the target.

#include "agent/intake/metric_table.hpp"
#include "agent/parcel/parcel.hpp"

namespace tally::intake {

class OriginDraft {
public:
    explicit OriginDraft(const parcel::Origin& origin) : origin_(origin) {}

    // Entries with the same list of environments say so by an id (0: no list); it is kept once for neighbours.
    void ledger(const parcel::Metric& metric, parcel::LedgerEntry entry, std::uint64_t list_id = 0,
                const std::vector<parcel::EnvCount>& list = {});
    void stats(const parcel::Metric& metric, parcel::StepStats row);
    void episodes(const std::vector<parcel::EpisodeHeader>& episodes);
    void event(parcel::Event event);
    void producer(parcel::ProducerRecord record);
    void gap(parcel::Gap gap);
    void scalar(const parcel::Metric& metric, std::int64_t step, std::int64_t time_ns, parcel::MaybeStep rl_step,
                std::uint64_t bits);

    const parcel::Origin& origin() const { return origin_; }
    std::size_t live_bytes() const { return live_bytes_; }
    std::size_t scalar_bytes() const { return scalar_bytes_; }
    bool live_tables_full() const { return live_metrics_.full(); }
    bool scalar_tables_full() const { return scalar_metrics_.full(); }

    // Adds the scalar section and its ledger entries; returns its points.
    std::uint64_t write_scalars(parcel::ParcelBuilder& bulk, Bytes& scratch);
    void write_live(parcel::ParcelBuilder& live, Bytes& scratch);

private:
    std::uint32_t live_metric(const parcel::Metric& metric);
    void series_to_ledger(const parcel::ScalarSeries& series);

    parcel::Origin origin_;
    MetricTable live_metrics_;  // of ledger and stats
    std::size_t metrics_counted_ = 0;
    std::uint64_t last_list_id_ = 0;
    std::vector<parcel::LedgerEntry> ledger_;
    std::vector<parcel::StepStats> stats_;
    std::vector<parcel::EpisodeHeader> episodes_;
    std::vector<parcel::Event> events_;
    std::vector<parcel::ProducerRecord> producers_;
    std::vector<parcel::Gap> gaps_;
    MetricTable scalar_metrics_;
    std::vector<parcel::ScalarSeries> series_;
    std::size_t live_bytes_ = 0;
    std::size_t scalar_bytes_ = 0;
};

}  // namespace tally::intake
