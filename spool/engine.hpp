// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The seam under the writer: durable overwrites of whole blocks, several in flight.
// Flow    writer -> submit/flush -> disk -> reap -> writer.
// Threads role: disk. The first submit() binds the engine to its thread.
// Owns    Nothing of the caller: buffers and descriptors must live until their completion is reaped. The destructor
//         waits for what is in flight, because the disk reads those buffers.
// Errors  Per write, as a negative errno in its completion; a short write is a smaller positive result.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "spool/options.hpp"

namespace tally::spool {

struct WriteOp {
    int fd = -1;
    const std::uint8_t* data = nullptr;  // inside slot `slot` of the buffers given at start
    std::uint32_t bytes = 0;
    std::uint64_t offset = 0;
    std::uint32_t slot = 0;  // one write per slot at a time
};
struct WriteDone {
    std::uint32_t slot = 0;
    std::int32_t result = 0;
};
struct WriteBuffers {
    std::uint8_t* data = nullptr;  // slots x slot_bytes, aligned to blocks
    std::uint32_t slots = 0;
    std::uint32_t slot_bytes = 0;
};

class WriteEngine {
public:
    virtual ~WriteEngine() = default;
    virtual const char* name() const = 0;
    // A successful completion means durable (RWF_DSYNC).
    virtual void submit(const WriteOp& op) = 0;
    virtual void flush() = 0;
    // Appends what has completed; with `wait` at least one, if anything is in flight.
    virtual void reap(std::vector<WriteDone>& out, bool wait) = 0;
    virtual int event_fd() const { return -1; }
};

Result<std::unique_ptr<WriteEngine>> make_uring_engine(const WriteBuffers& buffers);
std::unique_ptr<WriteEngine> make_pwrite_engine();

struct ChosenEngine {
    std::unique_ptr<WriteEngine> engine;
    std::string reason;  // why not io_uring, when it is not
};
Result<ChosenEngine> choose_engine(Engine wanted, const WriteBuffers& buffers);

}  // namespace tally::spool
