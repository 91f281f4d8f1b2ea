// SPDX-License-Identifier: Apache-2.0
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <liburing.h>

#include "agent/base/fd.hpp"
#include "spool/engine.hpp"

namespace tally::spool {

namespace {

constexpr unsigned entries = 64;

class UringEngine final : public WriteEngine {
public:
    UringEngine() = default;
    UringEngine(const UringEngine&) = delete;
    UringEngine& operator=(const UringEngine&) = delete;
    ~UringEngine() override;

    Status open(const WriteBuffers& buffers);

    const char* name() const override { return "io_uring"; }
    void submit(const WriteOp& op) override;
    void flush() override;
    void reap(std::vector<WriteDone>& out, bool wait) override;
    int event_fd() const override { return event_.get(); }

private:
    int init_ring();
    void enable();
    void collect(std::vector<WriteDone>& out);

    io_uring ring_{};
    Fd event_;
    bool open_ = false;
    bool disabled_ = false;  // until the disk thread comes: single-issuer rings belong to one thread
    bool registered_ = false;
    unsigned in_flight_ = 0;
    unsigned unsubmitted_ = 0;
};

// Best flags first; each kernel takes what it knows.
int UringEngine::init_ring() {
    constexpr unsigned choices[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED,
        IORING_SETUP_COOP_TASKRUN,
        0,
    };
    int result = -ENOSYS;
    for (const unsigned flags : choices) {
        io_uring_params params{};
        params.flags = flags;
        result = io_uring_queue_init_params(entries, &ring_, &params);
        if (result == 0) disabled_ = (flags & IORING_SETUP_R_DISABLED) != 0;
        if (result != -EINVAL) return result;
    }
    return result;
}

Status UringEngine::open(const WriteBuffers& buffers) {
    if (const int result = init_ring(); result < 0) return fail_errno("io_uring_setup", -result);
    open_ = true;
    event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event_) return fail_errno("eventfd");
    if (const int result = io_uring_register_eventfd(&ring_, event_.get()); result < 0) {
        return fail_errno("register eventfd", -result);
    }
    std::vector<iovec> parts(buffers.slots);
    for (std::uint32_t i = 0; i < buffers.slots; ++i) {
        parts[i] = {buffers.data + std::size_t{i} * buffers.slot_bytes, buffers.slot_bytes};
    }
    // A small memlock limit refuses this; plain writes do the same work.
    registered_ = buffers.slots > 0 && io_uring_register_buffers(&ring_, parts.data(), buffers.slots) == 0;
    return {};
}

UringEngine::~UringEngine() {
    if (!open_) return;
    std::vector<WriteDone> dropped;
    while (in_flight_ > 0) {
        // From another thread than the ring's this is refused; then the kernel ends the writes, which nobody relies on.
        const int result = io_uring_submit_and_wait(&ring_, 1);
        if (result < 0 && result != -EINTR) break;
        collect(dropped);
    }
    io_uring_queue_exit(&ring_);
}

void UringEngine::enable() {
    if (!disabled_) return;
    // liburing 2.3 declares io_uring_enable_rings() but does not export it.
    const long result =
        ::syscall(__NR_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
    TALLY_ASSERT(result >= 0);
    disabled_ = false;
}

void UringEngine::submit(const WriteOp& op) {
    enable();
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    TALLY_ASSERT(sqe != nullptr);  // there are more entries than slots
    if (registered_) {
        io_uring_prep_write_fixed(sqe, op.fd, op.data, op.bytes, op.offset, static_cast<int>(op.slot));
    } else {
        io_uring_prep_write(sqe, op.fd, op.data, op.bytes, op.offset);
    }
    sqe->rw_flags = RWF_DSYNC;
    sqe->user_data = op.slot;
    ++in_flight_;
    ++unsubmitted_;
}

void UringEngine::flush() {
    if (unsubmitted_ == 0) return;
    const int result = io_uring_submit(&ring_);
    TALLY_ASSERT(result != -EEXIST && result != -EBADFD);  // another thread than the first submit's
    if (result > 0)
        unsubmitted_ -= std::min(unsubmitted_, static_cast<unsigned>(result));  // the rest: next time
}

void UringEngine::collect(std::vector<WriteDone>& out) {
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(&ring_, &cqe) == 0 && cqe != nullptr) {
        out.push_back({static_cast<std::uint32_t>(cqe->user_data), cqe->res});
        io_uring_cqe_seen(&ring_, cqe);
        --in_flight_;
        cqe = nullptr;
    }
}

void UringEngine::reap(std::vector<WriteDone>& out, bool wait) {
    // Also with nothing in flight: the last completion leaves the eventfd readable, and who waits on it would never sleep.
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t ignored = ::read(event_.get(), &count, sizeof count);
    if (in_flight_ == 0) return;
    flush();
    if (!wait) {
        io_uring_get_events(&ring_);
        return collect(out);
    }
    const int result = io_uring_submit_and_wait(&ring_, 1);
    TALLY_ASSERT(result != -EEXIST);
    if (result > 0) unsubmitted_ -= std::min(unsubmitted_, static_cast<unsigned>(result));
    collect(out);
}

}  // namespace

Result<std::unique_ptr<WriteEngine>> make_uring_engine(const WriteBuffers& buffers) {
    auto engine = std::make_unique<UringEngine>();
    TALLY_TRY(engine->open(buffers));
    return std::unique_ptr<WriteEngine>(std::move(engine));
}

}  // namespace tally::spool
