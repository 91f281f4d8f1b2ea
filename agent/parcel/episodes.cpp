// SPDX-License-Identifier: Apache-2.0
// Section 4, episode headers, as columns.
#include "agent/parcel/fields.hpp"

namespace tally::parcel {

namespace {

constexpr std::size_t episode_bytes = 4 + 6 * 8;

template <class T>
void write_each(ByteWriter& w, const std::vector<EpisodeHeader>& episodes, T EpisodeHeader::*member) {
    for (const EpisodeHeader& e : episodes) w.put(e.*member);
}

template <class T>
void read_each(FieldReader& in, std::vector<EpisodeHeader>& episodes, T EpisodeHeader::*member) {
    for (EpisodeHeader& e : episodes) e.*member = in.get<T>();
}

}  // namespace

void write_episodes(const EpisodeSection& section, Bytes& out) {
    ByteWriter w(out);
    write_origin(w, section.origin);
    w.put(static_cast<std::uint32_t>(section.episodes.size()));
    write_each(w, section.episodes, &EpisodeHeader::env);
    write_each(w, section.episodes, &EpisodeHeader::episode);
    write_each(w, section.episodes, &EpisodeHeader::step_first);
    write_each(w, section.episodes, &EpisodeHeader::step_last);
    write_each(w, section.episodes, &EpisodeHeader::points_expected);
    write_each(w, section.episodes, &EpisodeHeader::ret);
    write_each(w, section.episodes, &EpisodeHeader::length);
}

Result<EpisodeSection> read_episodes(ByteView body) {
    FieldReader in(body);
    EpisodeSection out;
    out.origin = in.origin();
    out.episodes.resize(in.count(episode_bytes));
    read_each(in, out.episodes, &EpisodeHeader::env);
    read_each(in, out.episodes, &EpisodeHeader::episode);
    read_each(in, out.episodes, &EpisodeHeader::step_first);
    read_each(in, out.episodes, &EpisodeHeader::step_last);
    read_each(in, out.episodes, &EpisodeHeader::points_expected);
    read_each(in, out.episodes, &EpisodeHeader::ret);
    read_each(in, out.episodes, &EpisodeHeader::length);
    TALLY_TRY(in.finish("episodes section"));
    return out;
}

}  // namespace tally::parcel
