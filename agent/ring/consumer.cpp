// SPDX-License-Identifier: Apache-2.0
#include "agent/ring/consumer.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "agent/ring/validate.hpp"

namespace tally::ring {

namespace {

bool kind_known(RecordKind kind) { return kind >= RecordKind::frame && kind <= RecordKind::close; }

}  // namespace

Consumer::Consumer(const Mapping& mapping, std::uint64_t position, std::uint64_t number, std::uint64_t points, bool adopt)
    : control_(mapping.pages().control),
      data_(mapping.pages().data),
      registry_bytes_at_(mapping.pages().registry),
      data_bytes_(mapping.pages().data_bytes),
      registry_bytes_(mapping.pages().registry_bytes),
      position_(position),
      number_(number),
      points_(points),
      adopt_(adopt),
      head_seen_(position),
      tail_(std::max(position, mapping.pages().control->consumer.tail.load(std::memory_order_relaxed))),
      owned_from_(tail_),
      received_(0),
      stored_(0),
      registry_(mapping.kind()) {}

Result<Consumer> Consumer::open(const Mapping& mapping, std::uint64_t position, std::uint64_t record_number,
                                std::uint64_t points) {
    if (position % record_align != 0) return fail(Code::corrupt, "ring cursor is not aligned", position);
    Consumer out(mapping, position, record_number, points, false);
    ConsumerPart& shared = out.control_->consumer;
    // An agent that died between commit and set_tail left the word behind the cursor.
    out.received_ = std::min(shared.received.load(std::memory_order_relaxed), out.tail_);
    out.stored_ = std::min(shared.stored.load(std::memory_order_relaxed), out.received_);
    if (shared.tail.load(std::memory_order_relaxed) < position) shared.tail.store(position, std::memory_order_release);
    TALLY_TRY(out.look());
    return out;
}

Result<Consumer> Consumer::open_at_tail(const Mapping& mapping) {
    const std::uint64_t tail = mapping.pages().control->consumer.tail.load(std::memory_order_relaxed);
    auto out = open(mapping, tail, 0, 0);
    if (out && tail != 0) out->adopt_ = true;
    return out;
}

std::unexpected<Error> Consumer::fault(Error error) {
    set_fault(error);
    return std::unexpected(*fault_);
}

void Consumer::set_fault(Error error) {
    if (!fault_) fault_ = error;
}

Status Consumer::look() {
    const std::uint64_t head = producer().head.load(std::memory_order_seq_cst);  // acquire; seq_cst for announce_sleep
    if (head < position_) return fault({Code::corrupt, 0, "ring head went back", head});
    if (head - tail_ > data_bytes_) return fault({Code::corrupt, 0, "ring head is further than the ring is long", head});
    if (head % record_align != 0) return fault({Code::corrupt, 0, "ring head is not aligned", head});
    head_seen_ = head;
    return refresh_registry();
}

Status Consumer::refresh_registry() {
    const std::uint32_t used = producer().registry_used.load(std::memory_order_acquire);
    if (used == registry_used_) return {};
    if (used < registry_used_ || used > registry_bytes_ || used % record_align != 0)
        return fault({Code::corrupt, 0, "registry length", used});
    const Bytes copy(registry_bytes_at_ + registry_used_, registry_bytes_at_ + used);
    if (auto parsed = registry_.append(copy); !parsed) return fault(parsed.error());
    registry_used_ = used;
    return {};
}

Status Consumer::check_header(const RecordHeader& h) const {
    if (h.bytes < sizeof(RecordHeader) || h.bytes > data_bytes_ / 4 || h.bytes % record_align != 0 ||
        h.bytes > head_seen_ - position_)
        return fail(Code::corrupt, "record length", position_);
    if (h.reserved != 0 || (h.flags & ~(flag_has_rl_step | flag_optional)) != 0)
        return fail(Code::corrupt, "record flags", position_);
    if ((h.flags & flag_has_rl_step) == 0 && h.rl_step != 0) return fail(Code::corrupt, "rl_step without its flag", position_);
    if (h.number == 0 || (!adopt_ && h.number != number_ + 1)) return fail(Code::corrupt, "record number", h.number);
    if (h.attempt < attempt_) return fail(Code::corrupt, "attempt went back", h.attempt);
    if (!kind_known(h.kind) && (h.flags & flag_optional) == 0) return fail(Code::unsupported, "record kind", position_);
    return {};
}

Status Consumer::check_points(const RecordHeader& h, std::uint64_t points) {
    if (adopt_) {
        if (h.points_total < points) return fail(Code::corrupt, "points total", h.points_total);
    } else if (h.points_total - points_ != points) {
        return fail(Code::corrupt, "points total", h.points_total);
    }
    return {};
}

// The producer takes what lies below the tail for free: it may be writing there, up to a largest record beyond head.
bool Consumer::overwritten() const {
    if (position_ >= owned_from_) return false;
    std::atomic_thread_fence(std::memory_order_acquire);  // what was copied was read before head is
    const std::uint64_t head = producer().head.load(std::memory_order_seq_cst);
    return head - position_ > data_bytes_ - data_bytes_ / 4;
}

void Consumer::jump() {
    jumped_from_ = points_;
    position_ = head_seen_ = owned_from_;
    adopt_ = true;
}

Result<std::optional<RecordView>> Consumer::next(Bytes& scratch) {
    if (fault_) return std::unexpected(*fault_);
    if (overwritten()) jump();
    if (position_ == head_seen_) {
        TALLY_TRY(look());
        if (position_ == head_seen_) return std::nullopt;
    }
    if (head_seen_ - position_ < sizeof(RecordHeader)) return fault({Code::corrupt, 0, "record header", position_});
    RecordView view{};
    const std::uint8_t* at = data_ + (position_ & (data_bytes_ - 1));
    std::memcpy(&view.header, at, sizeof(RecordHeader));
    if (overwritten()) return next_after_jump(scratch);
    if (auto ok = check_header(view.header); !ok) return fault(ok.error());

    if (kind_known(view.header.kind)) {
        const std::size_t body_bytes = view.header.bytes - sizeof(RecordHeader);
        if (scratch.size() < body_bytes) scratch.resize(body_bytes);
        if (body_bytes != 0) std::memcpy(scratch.data(), at + sizeof(RecordHeader), body_bytes);
        if (overwritten()) return next_after_jump(scratch);
        view.body = ByteView(scratch.data(), body_bytes);
        const auto points = check_body(view.header.kind, view.body, registry_);
        if (!points) return fault(points.error());
        view.points = *points;
    } else {
        ++skipped_;
        if (!adopt_) view.points = view.header.points_total - points_;
        if (view.points > view.header.bytes) return fault({Code::corrupt, 0, "points of a skipped record", position_});
    }
    if (auto ok = check_points(view.header, view.points); !ok) return fault(ok.error());

    position_ += view.header.bytes;
    number_ = view.header.number;
    points_ = view.header.points_total;
    attempt_ = view.header.attempt;
    adopt_ = false;
    view.end = position_;
    return view;
}

Result<std::optional<RecordView>> Consumer::next_after_jump(Bytes& scratch) {
    jump();
    return next(scratch);
}

std::optional<std::uint64_t> Consumer::lost_points() const {
    const std::uint64_t published = producer().points.load(std::memory_order_relaxed);
    if (published < points_ || published - points_ > data_bytes_) return std::nullopt;
    return published - points_;
}

std::uint64_t Consumer::published_points() const { return producer().points.load(std::memory_order_relaxed); }

std::uint64_t Consumer::pending() const {
    if (fault_) return 0;
    const std::uint64_t head = producer().head.load(std::memory_order_seq_cst);
    return head > position_ ? head - position_ : 0;
}

bool Consumer::closed() const { return producer().closed.load(std::memory_order_acquire) != 0; }

bool Consumer::take_flush_asked() {
    const std::uint32_t asked = producer().flush_asked.load(std::memory_order_relaxed);
    return std::exchange(flush_seen_, asked) != asked;
}

bool Consumer::take_store_asked() {
    const std::uint32_t asked = producer().store_asked.load(std::memory_order_relaxed);
    return std::exchange(store_seen_, asked) != asked;
}

std::uint64_t Consumer::dropped_points() const { return producer().dropped_points.load(std::memory_order_relaxed); }

std::vector<DropEntry> Consumer::drops() const {
    const std::uint32_t used = std::min(control_->drops_used.load(std::memory_order_acquire), drop_slots);
    std::vector<DropEntry> out;
    out.reserve(used);
    for (std::uint32_t i = 0; i < used; ++i) {
        DropSlot& slot = control_->drops[i];
        DropEntry e;
        e.points = slot.points.load(std::memory_order_acquire);  // written last by the producer, so read first
        e.block = std::atomic_ref(slot.block).load(std::memory_order_relaxed);
        e.reason = std::atomic_ref(slot.reason).load(std::memory_order_relaxed);
        e.step_first = std::atomic_ref(slot.step_first).load(std::memory_order_relaxed);
        e.step_last = std::atomic_ref(slot.step_last).load(std::memory_order_relaxed);
        out.push_back(e);
    }
    return out;
}

void Consumer::move_word(std::atomic<std::uint64_t>& word, std::uint64_t& mine, std::uint64_t limit,
                         std::uint64_t position) {
    TALLY_ASSERT(position <= limit);  // I4
    if (position <= mine) return;
    mine = position;
    word.store(position, std::memory_order_release);
}

void Consumer::set_tail(std::uint64_t position) { move_word(control_->consumer.tail, tail_, position_, position); }
void Consumer::set_received(std::uint64_t position) {
    move_word(control_->consumer.received, received_, tail_, position);
}
void Consumer::set_stored(std::uint64_t position) {
    move_word(control_->consumer.stored, stored_, received_, position);
}

void Consumer::wake_waiters() {
    control_->consumer.progress.fetch_add(1, std::memory_order_release);
    ::syscall(SYS_futex, &control_->consumer.progress, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Consumer::set_attached(bool attached) { control_->consumer.attached.store(attached ? 1 : 0, std::memory_order_release); }

void Consumer::announce_sleep(bool asleep) {
    control_->consumer.asleep.store(asleep ? 1 : 0, std::memory_order_seq_cst);
}

}  // namespace tally::ring
