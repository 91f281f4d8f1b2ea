// SPDX-License-Identifier: Apache-2.0
#pragma once
//
// What    The steps of opening a spool, in the order of FORMAT.md, "Opening".

#include "spool/store.hpp"

namespace tally::spool {

Status check_options(const Options& options);
// Makes the folders and takes the lock; the file descriptor holds it. Code::busy carries the holder's process id.
Result<Fd> lock_spool(const Options& options);
// Fills the store from what the directory holds and writes the first live segment of the new life, which is returned.
// Until it has returned nothing of the spool may be shown to anyone.
Result<Segment*> recover(Store& store);

}  // namespace tally::spool
