// SPDX-License-Identifier: Apache-2.0
#include "spool/opening.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "agent/base/log.hpp"
#include "spool/fault_point.hpp"
#include "spool/paths.hpp"

namespace tally::spool {

namespace {

constexpr Lane lanes[] = {Lane::live, Lane::bulk, Lane::file};

std::uint64_t holder_of(int fd) {
    char text[24] = {};
    const ssize_t n = ::pread(fd, text, sizeof text - 1, 0);
    std::uint64_t pid = 0;
    if (n > 0) std::from_chars(text, text + n, pid);
    return pid;
}

bool spool_is(const SegmentHeader& header, const Uuid& uuid) {
    return std::equal(uuid.bytes.begin(), uuid.bytes.end(), header.spool);
}

// The id file, unless all segments agree on something else. Segments decide, because acknowledgements go by their id.
Result<Uuid> settle_uuid(Store& store, Listing& listing) {
    const auto named = read_spool_id(store.options.dir);
    auto uuid = agreed_spool(listing);
    if (!uuid) uuid = named;
    if (!uuid && !listing.chain[0].empty()) {
        uuid.emplace();
        const auto& spool = listing.chain[0].back().header.spool;
        std::copy(std::begin(spool), std::end(spool), uuid->bytes.begin());
    }
    if (!uuid) uuid = store.seams.uuid();
    if (uuid != named) {
        const bool fresh =
            !named && listing.chain[0].empty() && listing.chain[1].empty() && listing.chain[2].empty();
        if (!fresh) log_warn("spool.id_restored", {{"spool", uuid->text()}});
        TALLY_TRY(write_file_atomic(store.options.dir + "/spool.id",
                                    as_bytes("tallyman-spool 1\n" + uuid->text() + "\n")));
    }
    for (auto& chain : listing.chain) {
        std::erase_if(chain, [&](const FoundSegment& segment) {
            if (spool_is(segment.header, *uuid)) return false;
            listing.bad.push_back(
                {segment.lane, segment.number, segment.path, segment.header.segment_bytes, true});
            return true;
        });
    }
    return *uuid;
}

// Names what a file without a readable header held, as far as no other segment shows the hole.
void name_unreadable(Store& store, const BadFile& file, std::vector<EndedStart>& starts) {
    const auto fd = open_regular(file.path);
    if (!fd || file.bytes == 0) return;
    std::map<std::uint64_t, IntervalSet> lost;
    for (const RecordHeader& record : plausible_records(fd->get(), file.bytes)) {
        if (record.lane != static_cast<std::uint8_t>(file.lane) || record.seq == 0) continue;
        const EndedStart* entry = find_start(starts, record.start);
        const bool committed = entry == nullptr || record.group <= entry->group;
        const bool known_below = entry != nullptr && record.seq <= entry->seq[record.lane];
        if (committed && !known_below) lost[record.start].insert(record.seq);
    }
    for (const auto& [start, seqs] : lost) {
        for (const Interval& part : seqs.intervals()) {
            store.damage.push_back({false, StartId{start}, file.lane, part.first, part.last, file.bytes, file.path,
                                    "segment header unreadable"});
        }
        for (EndedStart& entry : starts) {
            if (entry.start != start) continue;
            auto& last = entry.seq[static_cast<std::size_t>(file.lane)];
            last = std::max(last, seqs.intervals().back().last);
            store.books.settle({start, file.lane}, seqs.intervals().front().first, last);
        }
    }
}

Status set_aside(Store& store, const Listing& listing, std::vector<EndedStart>& starts) {
    bool touched[lane_count] = {};
    for (const BadFile& file : listing.bad) {
        const auto at = static_cast<std::size_t>(file.lane);
        const auto& chain = listing.chain[at];
        const std::size_t damage_before = store.damage.size();
        if (file.regular) name_unreadable(store, file, starts);
        const bool newest = file.number != 0 && (chain.empty() || chain.back().number < file.number);
        if (newest && damage_before == store.damage.size()) ++store.torn_tails;
        TALLY_TRY(store.quarantine_file(file));
        touched[at] = true;
    }
    if (listing.bad.empty()) return {};
    TALLY_TRY(fsync_dir(store.options.dir + "/quarantine"));
    for (const Lane lane : lanes) {
        if (touched[static_cast<std::size_t>(lane)]) TALLY_TRY(fsync_dir(lane_dir(store.options.dir, lane)));
    }
    return {};
}

void add_segments(Store& store, const Listing& listing) {
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
        for (const FoundSegment& found : listing.chain[lane]) {
            auto segment = std::make_unique<Segment>();
            segment->lane = found.lane;
            segment->number = found.number;
            segment->path = found.path;
            segment->header = found.header;
            store.add(std::move(segment));
        }
        store.relink(static_cast<Lane>(lane));
        store.number_next[lane] = listing.number_highest[lane] + 1;
        for (const auto& chain : listing.chain)
            for (const FoundSegment& found : chain)
                store.number_next[lane] = std::max(store.number_next[lane], found.header.next_number[lane]);
    }
}

void fill_books(Store& store, const AckTable& acks) {
    for (const EndedStart& entry : store.ended) {
        for (const Lane lane : lanes) {
            const LaneKey key{entry.start, lane};
            store.books.of(entry.start, lane).last = entry.seq[static_cast<std::size_t>(lane)];
            if (const auto it = acks.find(key); it != acks.end()) store.books.load(key, it->second);
        }
    }
    for (const Lane lane : lanes) store.books.of(raw(store.start), lane);
    for (const ParcelId& id : store.parked) {
        if (store.starts_here(raw(id.start))) store.name_parked(id);
    }
}

Status count_side_files(Store& store) {
    for (const char* folder : {"parked", "quarantine"}) {
        auto entries = list_dir(store.options.dir + "/" + folder);
        if (!entries) return std::unexpected(entries.error());
        for (const DirEntry& entry : *entries) {
            if (!entry.regular) continue;
            store.side_bytes += std::min(entry.bytes, entry.disk_bytes);
            if (folder[0] == 'q') ++store.quarantined;
            if (const auto id = parse_parked_name(entry.name); id && folder[0] == 'p')
                store.parked.insert(*id);
        }
    }
    return {};
}

// The oldest segment of a start begins later than 1, and what came before was not acknowledged: a file is gone.
void name_missing_front(Store& store) {
    if (!store.ack_file.certain()) return;
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
        std::set<std::uint64_t> met;
        for (const auto& [number, segment] : store.chain[lane]) {
            const std::uint64_t first = std::min(segment->header.first_seq, segment->seq_end);
            if (segment->own || !met.insert(segment->header.start).second || first <= 1) continue;
            const LaneKey key{segment->header.start, segment->lane};
            const Book* book = store.books.find(key.first, key.second);
            const std::uint64_t last = std::min(first - 1, book == nullptr ? 0 : book->last);
            if (last == 0) continue;
            const auto missing = book->settled.missing(1, last);
            for (const Interval& part : missing) {
                store.damage.push_back({false, StartId{key.first}, key.second, part.first, part.last, 0,
                                        segment->path, "segments before this one are gone"});
                store.books.settle(key, part.first, part.last);
            }
        }
    }
}

void index_tails(Store& store, Judged& judged) {
    for (auto& [key, walk] : judged.walks) {
        auto& chain = store.chain[static_cast<std::size_t>(key.first)];
        if (const auto it = chain.find(key.second); it != chain.end()) {
            [[maybe_unused]] const Status loaded = store.load_index(*it->second, &walk);
        }
    }
}

}  // namespace

Status check_options(const Options& options) {
    if (options.dir.empty()) return fail(Code::invalid, "spool dir is empty");
    if (options.segment_bytes_min % block_bytes != 0 || options.segment_bytes_min < 4ULL * block_bytes) {
        return fail(Code::invalid, "segment_bytes_min must be a multiple of 4 KiB, 16 KiB at least",
                    options.segment_bytes_min);
    }
    if (options.segment_bytes_max % block_bytes != 0 ||
        options.segment_bytes_max < options.segment_bytes_min) {
        return fail(Code::invalid,
                    "segment_bytes_max must be a multiple of 4 KiB, not below segment_bytes_min",
                    options.segment_bytes_max);
    }
    if (options.budget_bytes < 4 * options.segment_bytes_min) {
        return fail(Code::invalid, "spool budget must hold 4 of the smallest segments", options.budget_bytes);
    }
    if (options.groups_in_flight_max == 0)
        return fail(Code::invalid, "groups_in_flight_max must be 1 at least");
    return {};
}

Result<Fd> lock_spool(const Options& options) {
    TALLY_TRY(make_dirs(options.dir));
    const std::string path = options.dir + "/lock";
    Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return fail_errno("open spool lock");
    struct flock lock{};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    if (::fcntl(fd.get(), F_OFD_SETLK, &lock) != 0) {
        if (errno != EAGAIN && errno != EACCES) return fail_errno("lock spool");
        return fail(Code::busy, "spool is in use by the process", holder_of(fd.get()));
    }
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(fd.get(), 0) != 0) return fail_errno("truncate spool lock");
    TALLY_TRY(pwrite_all(fd.get(), as_bytes(pid), 0));
    for (const char* folder : {"live", "bulk", "file", "parked", "quarantine"}) {
        TALLY_TRY(make_plain_dir(options.dir + "/" + folder));
    }
    return fd;
}

Result<Segment*> recover(Store& store) {
    TALLY_TRY(count_side_files(store));
    for (const Lane lane : lanes) TALLY_TRY(fsync_dir(lane_dir(store.options.dir, lane)));
    auto listing = list_segments(store.options.dir, std::nullopt);
    if (!listing) return std::unexpected(listing.error());
    auto uuid = settle_uuid(store, *listing);
    if (!uuid) return std::unexpected(uuid.error());
    store.uuid = *uuid;
    store.ack_file = AckFile(store.options.dir, *uuid);
    const AckTable acks = store.ack_file.load();
    if (store.ack_file.keep_until() == KeepUntil::stored) store.books.keep_until(KeepUntil::stored);
    auto judged = judge(*listing, acks, true);
    if (!judged) return std::unexpected(judged.error());
    fault_point("recovery-judged");

    store.ended = judged->starts;
    store.cursors = std::move(judged->cursors);
    TALLY_TRY(set_aside(store, *listing, store.ended));
    add_segments(store, *listing);
    do {
        store.start = StartId{store.seams.random()};
    } while (raw(store.start) == 0 || find_start(store.ended, raw(store.start)) != nullptr);
    fill_books(store, acks);
    auto first = store.open_segment(Lane::live, block_bytes, 1, Need::opening);
    if (!first) return first;
    name_missing_front(store);
    index_tails(store, *judged);
    return first;
}

}  // namespace tally::spool
