// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    Lets a language binding give up its interpreter lock while a log call waits for room in a ring, so that the
//         program's other threads go on.
// Threads Set once, before the first run is opened. Called on the thread that logs.

namespace tally::client {

struct WaitHook {
    void* (*begin)() = nullptr;        // before the wait; its result is given to end
    void (*end)(void* held) = nullptr;  // after it
};
extern WaitHook wait_hook;

}  // namespace tally::client
