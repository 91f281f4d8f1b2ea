// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "spool/engine.hpp"

namespace tally::spool {

namespace {

// One blocking write after the other; completions are kept for reap().
class PwriteEngine final : public WriteEngine {
public:
    const char* name() const override { return "pwritev2"; }
    void submit(const WriteOp& op) override { done_.push_back({op.slot, write(op)}); }
    void flush() override {}
    void reap(std::vector<WriteDone>& out, bool) override {
        out.insert(out.end(), done_.begin(), done_.end());
        done_.clear();
    }

private:
    std::int32_t write(const WriteOp& op) {
        if (!dsync_refused_) {
            const iovec part{const_cast<std::uint8_t*>(op.data), op.bytes};
            const ssize_t n = ::pwritev2(op.fd, &part, 1, static_cast<off_t>(op.offset), RWF_DSYNC);
            if (n >= 0) return static_cast<std::int32_t>(n);
            if (errno != EOPNOTSUPP && errno != ENOSYS) return -errno;
            dsync_refused_ = true;
        }
        const ssize_t n = ::pwrite(op.fd, op.data, op.bytes, static_cast<off_t>(op.offset));
        if (n < 0) return -errno;
        return ::fdatasync(op.fd) == 0 ? static_cast<std::int32_t>(n)
                                       : -EIO;  // after a failed sync never again
    }

    std::vector<WriteDone> done_;
    bool dsync_refused_ = false;
};

}  // namespace

std::unique_ptr<WriteEngine> make_pwrite_engine() {
    return std::make_unique<PwriteEngine>();
}

Result<ChosenEngine> choose_engine(Engine wanted, const WriteBuffers& buffers) {
    if (wanted == Engine::pwritev2) return ChosenEngine{make_pwrite_engine(), "chosen by configuration"};
    auto uring = make_uring_engine(buffers);
    if (uring) return ChosenEngine{std::move(*uring), ""};
    if (wanted == Engine::io_uring) return fail_errno("io_uring is not to be had", uring.error().sys);
    return ChosenEngine{make_pwrite_engine(), uring.error().text()};
}

}  // namespace tally::spool
