// SPDX-License-Identifier: Apache-2.0
#include "tools/import/import.hpp"

#include <algorithm>
#include <chrono>
#include <list>
#include <memory>
#include <thread>

#include "agent/base/clock.hpp"
#include "tools/import/paths.hpp"
#include "tools/import/run_writer.hpp"
#include "tools/import/state.hpp"

namespace tally::import {

namespace {

constexpr std::int64_t progress_interval_ns = 100'000'000;
constexpr auto look_interval = std::chrono::milliseconds(250);

// One run that rows go to. In a dry run both are empty.
struct Destination {
    std::string run;
    std::unique_ptr<State> state;
    std::unique_ptr<RunWriter> writer;
    std::string error;
};

struct Import {
    Import(std::size_t outcome, std::string path, Destination& to) : index(outcome), source(std::move(path)), destination(to) {}
    std::size_t index;  // of its Outcome
    Source source;
    Destination& destination;
    SeriesMap series;
    std::uint64_t skip_rows = 0;  // known from before
    bool reading = false;
    bool marked = false;  // open in the state
};

// Reads rows and throws them away: to find out whether a file begins with rows that are known.
class Silent final : public RowSink {
public:
    explicit Silent(std::function<bool()> going_on) : going_on_(std::move(going_on)) {}
    bool row(const Row&) override { return going_on_(); }
    void config(std::string_view) override {}

private:
    std::function<bool()> going_on_;
};

// The chain of the first `rows` rows of a file, or of all when it has fewer.
RowChain chain_of(const std::string& path, std::uint64_t rows, const std::function<void(const RowChain&)>& each) {
    Source source(path);
    if (!source.open()) return {};
    Silent sink([&] {
        each(source.chain());
        return source.chain().rows < rows;
    });
    source.read(true, sink);
    return source.chain();
}

class Importer {
public:
    Importer(const Options& o, const std::atomic<bool>& stop, const std::function<void(const Totals&)>& progress)
        : o_(o), stop_(stop), progress_(progress), began_ns_(monotonic_ns()) {}

    Totals run() {
        find();
        for (Import& i : imports_) begin(i);
        for (Import& i : imports_) {
            if (!stop_) read(i, !o_.follow);
        }
        settle();
        if (o_.follow) follow();
        for (Import& i : imports_) finish(i);
        settle();
        for (Destination& d : destinations_) {
            if (d.writer && !d.writer->close() && d.error.empty()) totals_.errors.push_back("run " + d.run + ": " + d.writer->error());
        }
        totals_.seconds = static_cast<double>(monotonic_ns() - began_ns_) / 1e9;
        return std::move(totals_);
    }

private:
    friend class Sender;

    void find() {
        std::vector<std::string> errors;
        for (const Candidate& c : find_logs(o_.paths, o_.run, errors)) {
            const bool known = std::any_of(totals_.files.begin(), totals_.files.end(), [&](const Outcome& f) { return f.path == c.path; });
            if (known) continue;
            Outcome outcome;
            outcome.path = c.path;
            outcome.run = c.run;
            outcome.named = c.named;
            totals_.files.push_back(outcome);
            imports_.emplace_back(totals_.files.size() - 1, c.path, destination(c.run));
        }
        if (totals_.errors.empty()) totals_.errors = errors;
    }

    Destination& destination(const std::string& run) {
        for (Destination& d : destinations_) {
            if (d.run == run) return d;
        }
        Destination& d = destinations_.emplace_back();
        d.run = run;
        if (!run_id_valid(run)) {
            d.error = "a run id has 1-128 of A-Z a-z 0-9 _ . -";
        } else if (!o_.dry_run) {
            auto state = State::open(o_.state_dir.empty() ? State::default_dir() : o_.state_dir, run);
            if (state) {
                d.state = std::make_unique<State>(std::move(*state));
                d.writer = std::make_unique<RunWriter>(Target{run, o_.project, o_.socket});
            } else {
                d.error = state.error().text();
            }
        }
        if (!d.error.empty()) totals_.errors.push_back("run " + run + ": " + d.error);
        return d;
    }

    Outcome& outcome(const Import& i) { return totals_.files[i.index]; }

    // Opens a file and finds out where in it the rows begin that are new to the run.
    void begin(Import& i) {
        Outcome& o = outcome(i);
        o.error.clear();
        i.reading = false;
        if (!i.destination.error.empty()) {
            o.error = i.destination.error;
            return;
        }
        if (!i.source.open()) {
            o.error = i.source.error();
            return;
        }
        o.format = i.source.reader()->format();
        i.series = {};
        i.skip_rows = 0;
        i.reading = find_beginning(i, o);
    }

    bool find_beginning(Import& i, Outcome& o) {
        const State* state = i.destination.state.get();
        if (state == nullptr || state->known().empty()) return true;
        const Known* own = state->find(o.path);
        if (own != nullptr && own->open && !i.marked) {
            o.error = "an earlier import of this file was killed, part of its rows may be in the run: `tallyman rm " + o.run +
                      "` and import again, or import into a new run with --run";
            return false;
        }
        std::uint64_t rows = 0;
        for (const Known& k : state->known()) rows = std::max(rows, k.rows);
        const Known* best = nullptr;
        const RowChain all = chain_of(o.path, rows, [&](const RowChain& chain) {
            for (const Known& k : state->known()) {
                if (k.rows == chain.rows && k.hash == chain.hash && (best == nullptr || best->rows <= k.rows)) best = &k;
            }
        });
        const Known* longer = best == nullptr ? longer_state(*state, all) : nullptr;
        if (best == nullptr) best = longer;
        if (best != nullptr) {
            i.skip_rows = o.rows_before = best->rows;
            if (best->path != o.path) o.continues = best->path;
            return true;
        }
        if (own == nullptr || own->rows == 0) return true;
        o.error = "is not what it was when it was imported: its first " + std::to_string(own->rows) +
                  " rows changed; import it into a new run with --run";
        return false;
    }

    // The known file that has all rows of this one and more: this is an earlier state of it.
    static const Known* longer_state(const State& state, const RowChain& all) {
        for (const Known& k : state.known()) {
            if (all.rows == 0 || k.rows <= all.rows) continue;
            if (chain_of(k.path, all.rows, [](const RowChain&) {}) == all) return &k;
        }
        return nullptr;
    }

    void read(Import& i, bool last);
    bool take(Import& i, const Row& row);
    bool mark(Import& i);

    // What was logged becomes durable, then the state says so.
    void settle() {
        for (Destination& d : destinations_) {
            if (!d.state || !d.error.empty()) continue;
            const bool any = std::any_of(imports_.begin(), imports_.end(), [&](const Import& i) { return &i.destination == &d && i.marked; });
            if (!any) continue;
            if (!d.writer->flush()) {
                give_up(d, d.writer->error());
                continue;
            }
            for (Import& i : imports_) {
                if (&i.destination != &d || !i.marked) continue;
                const RowChain& chain = i.source.chain();
                if (const auto ok = d.state->set({i.source.path(), chain.rows, chain.hash, false}); !ok) {
                    give_up(d, ok.error().text());
                    break;
                }
                i.marked = false;
            }
        }
    }

    void give_up(Destination& d, const std::string& why) {
        if (d.error.empty()) totals_.errors.push_back("run " + d.run + ": " + why);
        d.error = why;
    }

    void finish(Import& i) {
        Outcome& o = outcome(i);
        if (i.reading && o_.follow) read(i, true);
        if (i.source.reader() != nullptr) {
            o.format = i.source.reader()->format();  // with all that its rows told
            o.step = i.source.reader()->step();
        }
        if (i.reading && o.error.empty()) o.torn_tail_bytes = i.source.unread_bytes();
    }

    void follow() {
        std::int64_t news_ns = monotonic_ns();
        while (!stop_) {
            const std::uint64_t before = rows();
            find();
            for (Import& i : imports_) {
                if (stop_) break;
                look(i);
            }
            settle();
            if (rows() != before) news_ns = monotonic_ns();
            if (o_.idle_exit_s > 0 && static_cast<double>(monotonic_ns() - news_ns) / 1e9 > o_.idle_exit_s) return;
            say();
            std::this_thread::sleep_for(look_interval);
        }
    }

    void look(Import& i) {
        if (!i.destination.error.empty()) return;
        const bool never = i.source.reader() == nullptr;
        if (never ? i.source.undecided() || outcome(i).error.empty() : i.reading && i.source.look() == Source::Change::other) begin(i);
        if (i.reading && (never || i.source.look() == Source::Change::grown)) read(i, false);
    }

    std::uint64_t rows() const {
        std::uint64_t n = 0;
        for (const Outcome& o : totals_.files) n += o.rows;
        return n;
    }

    void say() {
        const std::int64_t now = monotonic_ns();
        if (now - said_ns_ < progress_interval_ns) return;
        said_ns_ = now;
        totals_.seconds = static_cast<double>(now - began_ns_) / 1e9;
        if (progress_) progress_(totals_);
    }

    const Options& o_;
    const std::atomic<bool>& stop_;
    const std::function<void(const Totals&)>& progress_;
    Totals totals_;
    std::list<Destination> destinations_;
    std::list<Import> imports_;
    std::vector<std::uint32_t> refused_;
    std::int64_t began_ns_, said_ns_ = 0;
};

class Sender final : public RowSink {
public:
    Sender(Importer& importer, Import& i) : importer_(importer), i_(i) {}
    bool row(const Row& row) override { return importer_.take(i_, row) && !importer_.stop_; }
    void config(std::string_view json) override {
        if (i_.skip_rows > 0 || importer_.o_.dry_run || !importer_.mark(i_)) return;
        if (!i_.destination.writer->config(json)) importer_.give_up(i_.destination, i_.destination.writer->error());
    }

private:
    Importer& importer_;
    Import& i_;
};

void Importer::read(Import& i, bool last) {
    if (!i.reading || !i.destination.error.empty()) return;
    Sender sink(*this, i);
    if (i.source.read(last, sink)) return;
    if (!i.source.error().empty()) {
        outcome(i).error = i.source.error();
        i.reading = false;
    }
}

bool Importer::mark(Import& i) {
    if (i.marked) return true;
    const RowChain& chain = i.source.chain();
    if (const auto ok = i.destination.state->set({i.source.path(), chain.rows, chain.hash, true}); !ok) {
        give_up(i.destination, ok.error().text());
        return false;
    }
    i.marked = true;
    return true;
}

bool Importer::take(Import& i, const Row& row) {
    if (i.source.chain().rows <= i.skip_rows) return true;
    Outcome& o = outcome(i);
    say();
    if (!o_.dry_run && !mark(i)) return false;
    if (!row.refused.empty()) {
        ++o.refused_rows;
        if (o.first_refused.empty()) o.first_refused = "row " + std::to_string(i.source.chain().rows) + ": " + row.refused;
        return true;
    }
    const Names& names = i.source.reader()->names();
    ++o.rows;
    o.nulls += row.nulls;
    for (const std::uint32_t name : row.skipped) ++o.skipped_nonnumeric[names[name]];
    if (o_.dry_run) {
        o.points += row.cells.size();
        return true;
    }
    refused_.clear();
    if (!i.destination.writer->log(row, names, i.series, refused_, o.points)) {
        give_up(i.destination, i.destination.writer->error());
        return false;
    }
    for (const std::uint32_t name : refused_) ++o.refused_names[names[name]];
    return true;
}

}  // namespace

std::uint64_t Totals::points() const {
    std::uint64_t n = 0;
    for (const Outcome& o : files) n += o.points;
    return n;
}

bool Totals::refused_any() const {
    return std::any_of(files.begin(), files.end(), [](const Outcome& o) {
        return o.refused_rows > 0 || !o.refused_names.empty() || (!o.error.empty() && (o.named || !o.format.empty()));
    });
}

Totals run_import(const Options& options, const std::atomic<bool>& stop, const std::function<void(const Totals&)>& progress) {
    return Importer(options, stop, progress).run();
}

}  // namespace tally::import
