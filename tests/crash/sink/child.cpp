// SPDX-License-Identifier: Apache-2.0
//
// What  A receiver's disk and sink roles in one thread: fills a landing once, brings it into the store, says what the store has.
//       TALLYMAN_FAULT_POINT ends it on the way.
#include <unistd.h>

#include "agent/base/clock.hpp"
#include "tests/unit/sink/kit.hpp"
#include "transport/sink/store.hpp"

using namespace tally;

namespace {

int die(const char* what, const Error& error) {
    std::fprintf(stderr, "child: %s: %s\n", what, error.text().c_str());
    ::_exit(1);
}

void fill(spool::Spool& landing) {
    kit::Producer p("crash");
    std::vector<Bytes> parcels{p.live({parcel::ProducerWhat::opened}, false)};
    for (Bytes& b : kit::everything(p)) parcels.push_back(std::move(b));
    parcels.push_back(p.live({parcel::ProducerWhat::closed}));
    const spool::Plan plan = landing.plan();
    spool::Group group;
    group.number = plan.group;
    std::uint64_t seq = raw(plan.next[0]);
    for (Bytes& b : parcels) group.records.push_back({Lane::live, Seq{seq++}, std::make_shared<const Bytes>(std::move(b))});
    const auto taken = landing.append(std::move(group));
    if (!taken || *taken != spool::Append::ok) die("append", taken ? Error{} : taken.error());
    if (auto done = landing.drain(); !done) die("drain", done.error());
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    const std::string dir = argv[1];
    spool::Options options;
    options.dir = dir + "/landing";
    options.keep_until = spool::KeepUntil::stored;
    auto landing = spool::Spool::open(options);
    if (!landing) die("landing", landing.error());
    if (!std::filesystem::exists(dir + "/filled")) {
        fill(**landing);
        std::filesystem::create_directory(dir + "/filled");
    }
    sink::Options to;
    to.kind = sink::Kind::chdb;
    to.dir = dir + "/store";
    to.landing_dir = options.dir;
    to.cut_interval_ns = 1;
    to.cut_spacing_ns = 1;
    auto store = sink::Store::open(to, (*landing)->uuid());
    if (!store) die("store", store.error());
    std::uint64_t stored = 0;
    for (int idle = 0; idle < 3;) {
        auto fetched = (*landing)->fetch(Lane::live, 1 << 20);
        if (!fetched) die("fetch", fetched.error());
        for (spool::Fetched& f : *fetched) (*store)->add(f.id.start, f.id.seq, std::move(f.payload), monotonic_ns());
        const auto ranges = (*store)->poll(monotonic_ns());
        if (!ranges) die("poll", ranges.error());
        for (const sink::StoredRange& r : *ranges) {
            (*landing)->ack_received(r.start, Lane::live, r.seqs);
            (*landing)->ack_stored(r.start, Lane::live, r.seqs);
            stored += r.seqs.count();
        }
        idle = fetched->empty() && ranges->empty() ? idle + 1 : 0;
    }
    if (auto swept = (*landing)->sweep(); !swept) die("sweep", swept.error());
    const auto number = [&](const char* sql) {
        const sink::Answer a = (*store)->query(sql, "TabSeparated");
        if (!a.ok()) std::fprintf(stderr, "child: %s\n", a.error.c_str());
        return a.rows.substr(0, a.rows.find('\n'));
    };
    std::printf("records %llu points %s rows %s unique %s parcels %s events %s\n", static_cast<unsigned long long>(stored),
                number("SELECT count() FROM tallyman.points WHERE run = 'crash'").c_str(),
                number("SELECT count() FROM tallyman.points_w4").c_str(),
                number("SELECT uniqExact(origin_start, origin_lane, origin_seq, origin_row) FROM tallyman.points_w4").c_str(),
                number("SELECT count() FROM tallyman.parcels").c_str(), number("SELECT count() FROM tallyman.event_rows").c_str());
    std::fflush(stdout);
    store->reset();
    landing->reset();
    ::_exit(0);
}
