// SPDX-License-Identifier: Apache-2.0
#include "transport/uplink/pool.hpp"

#include <algorithm>

namespace tally::uplink {

void Pool::add(Outbound parcel) {
    const auto [it, fresh] = held_.emplace(parcel.id, std::move(parcel.payload));
    if (!fresh) return;
    held_bytes_ += it->second->size();
    waiting_.push_back(parcel.id);
}

Outbound Pool::take() {
    const ParcelId id = waiting_.front();
    waiting_.pop_front();
    return {id, held_.at(id)};
}

void Pool::give_back(const ParcelId& id) {
    if (held_.count(id) == 0) return;
    if (std::find(waiting_.begin(), waiting_.end(), id) == waiting_.end()) waiting_.push_front(id);
}

Pool::Landed Pool::landed(StartId start, Lane lane, const IntervalSet& seqs) {
    Landed out;
    for (const Interval& i : seqs.intervals()) {
        auto it = held_.lower_bound(ParcelId{start, lane, Seq{i.first}});
        while (it != held_.end() && it->first.start == start && it->first.lane == lane && raw(it->first.seq) <= i.last) {
            ++out.parcels;
            out.bytes += it->second->size();
            std::erase(waiting_, it->first);
            it = held_.erase(it);
        }
    }
    held_bytes_ -= out.bytes;
    return out;
}

std::optional<Outbound> Pool::remove(const ParcelId& id) {
    const auto it = held_.find(id);
    if (it == held_.end()) return std::nullopt;
    Outbound out{id, std::move(it->second)};
    held_bytes_ -= out.payload->size();
    held_.erase(it);
    std::erase(waiting_, id);
    return out;
}

std::set<std::pair<StartId, Lane>> Pool::lanes() const {
    std::set<std::pair<StartId, Lane>> out;
    for (const auto& [id, payload] : held_) out.insert({id.start, id.lane});
    return out;
}

}  // namespace tally::uplink
