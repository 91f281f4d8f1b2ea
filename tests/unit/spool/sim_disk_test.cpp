// SPDX-License-Identifier: Apache-2.0
//
// A disk that holds writes back: at any moment the directory is copied with every unfinished write kept, dropped or torn
// block by block, unsynced files missing, cut or blank, and unlinked ones back again. Each copy is opened: every durable
// group is there, no part of any other, cursors are those of the last group. Also when recovery itself dies there.
// It does not check: loss of data the device said it had synced.
#include <unistd.h>

#include "spool/fault_point.hpp"
#include "tests/unit/spool/model.hpp"

using namespace tally;
using namespace tally::spool;
using namespace tally::spool::test;

namespace {

struct HeldWrite {
    WriteOp op;
    std::string path;
};
struct HeldState {
    std::vector<HeldWrite> pending;
    std::mt19937_64 rng;
};

class HoldingEngine final : public WriteEngine {
public:
    HoldingEngine(std::unique_ptr<WriteEngine> inner, HeldState& state)
        : inner_(std::move(inner)), state_(state) {}
    const char* name() const override { return inner_->name(); }
    void submit(const WriteOp& op) override {
        char path[512] = {};
        const std::string link = "/proc/self/fd/" + std::to_string(op.fd);
        REQUIRE(::readlink(link.c_str(), path, sizeof path - 1) > 0);
        state_.pending.push_back({op, path});
    }
    void flush() override {}
    void reap(std::vector<WriteDone>& out, bool wait) override {
        std::size_t n = wait ? state_.pending.size() : state_.rng() % 3;
        for (; n > 0 && !state_.pending.empty(); --n) {
            const std::size_t at = state_.rng() % state_.pending.size();
            inner_->submit(state_.pending[at].op);
            state_.pending.erase(state_.pending.begin() + static_cast<std::ptrdiff_t>(at));
        }
        inner_->flush();
        inner_->reap(out, false);
    }

private:
    std::unique_ptr<WriteEngine> inner_;
    HeldState& state_;
};

class Simulation {
public:
    explicit Simulation(std::uint64_t seed) : rng_(seed), options_(small_options(dir_.path())) {
        held_.rng.seed(seed * 977);
        options_.segment_bytes_min = 16U << 10;
        options_.segment_bytes_max = 64U << 10;
        options_.budget_bytes = 2U << 20;
        options_.engine = Engine::pwritev2;
    }
    ~Simulation() { set_fault_hook({}); }
    Simulation(const Simulation&) = delete;
    Simulation& operator=(const Simulation&) = delete;

    void run(int steps) {
        open();
        for (int i = 0; i < steps; ++i) step();
        spool_.reset();
    }

private:
    void open() {
        Seams seams = seeded_seams(rng_);
        seams.wrap_engine = [this](std::unique_ptr<WriteEngine> inner) {
            return std::make_unique<HoldingEngine>(std::move(inner), held_);
        };
        note_synced();
        spool_ = must_open(options_, seams);
        model_.begin_life(*spool_);
        note_synced();
        set_fault_hook([this](std::string_view name) { at_point(name); });
    }
    void note_synced() {
        synced_.clear();
        for (const char* lane : {"live", "bulk", "file"}) {
            if (!fs::exists(options_.dir + "/" + lane)) continue;
            for (const auto& file : files_in(options_.dir + "/" + lane)) synced_.insert(file);
        }
    }
    void step() {
        switch (rng_() % 10) {
            case 0:
            case 1:
            case 2:
            case 3: {
                const Group group = make_group(*spool_, random_shape(rng_, raw(spool_->plan().group)));
                appending_ = &group;
                const auto done = spool_->append(group);
                appending_ = nullptr;
                REQUIRE(done.has_value());
                if (*done == Append::ok) model_.appended(group);
                break;
            }
            case 4:
            case 5:
                REQUIRE(spool_->poll(monotonic_ns()).has_value());
                break;
            case 6: {
                const auto got = spool_->fetch(static_cast<Lane>(rng_() % 3), 30000);
                REQUIRE(got.has_value());
                for (const Fetched& one : *got) {
                    if (rng_() % 8 != 0) model_.ack(*spool_, one.id);
                }
                break;
            }
            case 7:
                fs::remove_all(dir_.path("old"));
                fs::copy(options_.dir, dir_.path("old"), fs::copy_options::recursive);
                REQUIRE(spool_->sweep().has_value());
                model_.swept();
                note_synced();
                break;
            case 8:
                crash_check();
                break;
            default:
                if (rng_() % 4 == 0) crash_and_go_on();
        }
    }
    // Inside an operation: a segment being made, acks being saved, files being deleted.
    void at_point(std::string_view name) {
        if (name == "dir-synced") note_synced();
        if (busy_ || rng_() % 6 != 0) return;
        crash_check();
    }
    void crash_check() {
        busy_ = true;
        snapshot(dir_.path("crash"));
        check_copy(dir_.path("crash"));
        busy_ = false;
    }
    void crash_and_go_on() {
        snapshot(dir_.path("crash"));
        const std::uint64_t durable = raw(spool_->durable_group());
        set_fault_hook({});
        held_.pending.clear();
        spool_.reset();
        held_.pending.clear();
        fs::remove_all(options_.dir);
        fs::rename(dir_.path("crash"), options_.dir);
        open();
        std::uint64_t groups = 0;
        auto& lives = model_.lives;
        for (const EndedStart& end : spool_->ended_starts()) {
            if (end.start == lives[lives.size() - 2].start) groups = end.group;
        }
        CHECK(groups >= durable);
        lives.pop_back();
        model_.cut(groups);
        // Unsaved acknowledgements may or may not be there.
        model_.acked = model_.acked_saved;
        for (const ParcelId& id : model_.committed()) {
            if (spool_->received(id.start, id.lane).contains(raw(id.seq))) model_.acked.insert(id);
        }
        model_.begin_life(*spool_);
        CHECK((spool_->cursors() == model_.cursors_at()));
    }
    void snapshot(const std::string& to) {
        fs::remove_all(to);
        fs::copy(options_.dir, to, fs::copy_options::recursive);
        for (const HeldWrite& write : held_.pending)
            apply_part(write, to + write.path.substr(options_.dir.size()));
        for (const char* lane : {"live", "bulk", "file"}) {
            for (const auto& file : files_in(options_.dir + "/" + lane)) {
                if (!synced_.contains(file)) lose_part(to + file.substr(options_.dir.size()));
            }
            // Unlinked, but the folder was not synced.
            for (const std::string& file : synced_) {
                const std::string rest = file.substr(options_.dir.size());
                if (fs::exists(file) || !fs::exists(dir_.path("old") + rest) || rng_() % 2 == 0) continue;
                fs::copy_file(dir_.path("old") + rest, to + rest, fs::copy_options::skip_existing);
            }
        }
    }
    void apply_part(const HeldWrite& write, const std::string& path) {
        if (!fs::exists(path)) return;
        Bytes file = slurp(path);
        for (std::uint32_t at = 0; at < write.op.bytes; at += 4096) {
            const std::uint64_t kind = rng_() % 3;
            std::uint32_t bytes = kind == 0   ? 0
                                  : kind == 1 ? 4096
                                              : static_cast<std::uint32_t>(rng_() % 8) * 512;
            std::copy_n(write.op.data + at, bytes,
                        file.begin() + static_cast<std::ptrdiff_t>(write.op.offset + at));
        }
        spit(path, file);
    }
    void lose_part(const std::string& path) {
        Bytes file = slurp(path);
        switch (rng_() % 4) {
            case 0:
                fs::remove(path);
                return;
            case 1:
                file.resize(rng_() % (file.size() + 1));
                break;
            case 2:
                std::fill_n(file.begin(), rng_() % file.size(), std::uint8_t{0});
                break;
            default:
                return;
        }
        spit(path, file);
    }
    void check_copy(const std::string& dir) {
        Model model = model_;
        if (appending_ != nullptr) model.appended(*appending_);
        const std::uint64_t durable = raw(spool_->durable_group());
        Options options = options_;
        options.dir = dir;
        // Recovery dies at one of its points, and the copy of that moment is judged as well.
        const std::string second = dir_.path("second");
        std::uint64_t countdown = rng_() % 6;
        fs::remove_all(second);
        set_fault_hook([&](std::string_view) {
            if (countdown-- == 0) fs::copy(dir, second, fs::copy_options::recursive);
        });
        std::uint64_t groups = 0;
        {
            auto opened = must_open(options, seeded_seams(rng_));
            set_fault_hook({});
            groups = model.check(*opened, durable);
        }
        if (fs::exists(second)) {
            options.dir = second;
            auto again = must_open(options);
            CHECK(model.check(*again, durable) == groups);
        }
        set_fault_hook([this](std::string_view name) { at_point(name); });
    }

    TempDir dir_;
    std::mt19937_64 rng_;
    Options options_;
    HeldState held_;
    Model model_;
    std::unique_ptr<Spool> spool_;
    std::set<std::string> synced_;
    const Group* appending_ = nullptr;
    bool busy_ = false;
};

}  // namespace

TEST_SUITE("spool simulated disk") {
    TEST_CASE("power loss at any moment: durable groups stay, others vanish whole") {
        for (const std::uint64_t seed : seeds(12)) {
            CAPTURE(seed);
            Simulation(seed).run(250);
        }
    }
}
